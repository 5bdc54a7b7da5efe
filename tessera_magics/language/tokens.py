"""Classify the words of a cell for colours (types, operations, shape names ...), also while it does not parse."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.api.source_module import language_names
from tessera.core.base.dtypes import ComputeType, DType
from tessera.frontend.language.namespace import Intrinsic, Namespace
from tessera.frontend.syntax.normalize import CLAUSES
from tessera.frontend.syntax.tokens import Token, logical_lines
from tessera_magics.language.names import find
from tessera_magics.language.scopes import Function, functions

KINDS: Final = (
    "kernel", "clause", "modifier", "type", "namespace", "operation", "parameter", "extent", "local", "unit",
)  # fmt: skip
"""What a word can be; the JupyterLab extension has a colour for each."""

_MODIFIERS: Final = ("mut", "tensor", "Tensor")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a cell's body and what it is; offsets count characters."""

    start: int
    end: int
    kind: str


def words(text: str) -> list[Word]:
    """Return the words of a cell's body that have a colour of their own."""
    known = functions(text)
    return [word for line in logical_lines(text) for word in _line(line, known)]


def _line(line: Sequence[Token], known: Sequence[Function]) -> Iterator[Word]:
    decorator = line[0].text == "@"
    for at, token in enumerate(line):
        before = line[at - 1].text if at else ""
        after = line[at + 1].text if at + 1 < len(line) else ""
        kind = ""
        if token.kind == "number":
            kind = "unit" if token.text.rpartition("_")[2] in ("KiB", "MiB", "GiB") else ""
        elif token.kind != "name" or (after == "=" and token.depth > 0):
            continue
        elif before == "def":
            kind = "kernel" if any(f.is_kernel and f.name == token.text for f in known) else ""
        elif before == ".":
            kind = _member(line, at)
        elif decorator and token.depth == 0:
            kind = "kernel" if token.text == "kernel" else "clause" if token.text in CLAUSES else ""
        else:
            kind = _name(token, known)
        if kind:
            yield Word(token.start, token.end, kind)


def _name(token: Token, known: Sequence[Function]) -> str:
    around = [one for one in known if one.start <= token.start < one.end]
    own = next(filter(None, (one.kind_of(token.text) for one in reversed(around))), "")
    return own or kind_of(token.text, language_names().get(token.text))


def kind_of(name: str, value: object) -> str:
    """Return what a name of the language is, among `KINDS`; nothing for other values."""
    if isinstance(value, Namespace):
        return "namespace"
    if isinstance(value, Intrinsic):
        return "modifier" if name in _MODIFIERS else "operation"
    return "type" if isinstance(value, DType | ComputeType) else ""


def table() -> dict[str, object]:
    """Return the names of the language by kind, as `labextension/src/names.json` has them for JupyterLab."""
    kinds: dict[str, list[str]] = {}

    def add(path: str, value: object) -> None:
        kind = kind_of(path, value)
        if kind:
            kinds.setdefault(kind, []).append(path)
        if isinstance(value, Namespace):
            for name in dir(value):
                add(f"{path}.{name.removesuffix('_')}", getattr(value, name))

    for name, value in sorted(language_names().items()):
        add(name, value)
    return {"kinds": kinds, "clauses": list(CLAUSES)}


def _member(line: Sequence[Token], at: int) -> str:
    """Return what the name at `at`, behind a dot, is of a namespace of the language."""
    path = [line[at].text]
    while at >= 2 and line[at - 1].text == "." and line[at - 2].kind == "name":
        at -= 2
        path.insert(0, line[at].text)
    return kind_of(path[-1], find(path, ()))
