"""Completion inside a `%%tessera` cell: names of the language that fit the text before the cursor."""

import dataclasses
import inspect
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from tessera.api.decorator import KernelDecorator
from tessera.api.source_module import language_names
from tessera.core.base.dtypes import DType
from tessera.core.schedule.options import SCHEDULE
from tessera.core.targets import TARGETS
from tessera.frontend.language.namespace import Intrinsic, Namespace
from tessera.kernels.kernel import Kernel
from tessera.kernels.options import Options
from tessera_magics.language.scopes import function_at

_PATH: Final = re.compile(r"((?:[^\W\d]\w*\s*\.\s*)*)((?:[^\W\d]\w*)?)\Z")
_CALLED: Final = re.compile(r"(@?)\s*((?:[^\W\d]\w*\s*\.\s*)*[^\W\d]\w*)(?:\[[^][]*\])?\s*\Z")
_GIVEN: Final = re.compile(r"\b([^\W\d]\w*)\s*=\s*\Z")
_DEFINED: Final = re.compile(r"\bdef\s+[^\W\d]\w*\s*\Z")
_TARGET: Final = re.compile(r"\btarget\s*=\s*([\"'])([\w:]*)\Z")
_QUIET: Final = re.compile(r"(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|#[^\n]*")
_OPEN: Final = re.compile(r"[#\"']")
_HIDDEN: Final = ("constants",)
"""Fields of a kernel's options that `variant` sets, not the decorator."""


@dataclass(frozen=True, slots=True)
class Found:
    """Completions for `fragment`, which stands before the cursor: names with what they are ("function", "class" ...).

    alone: nothing else can stand here
    """

    fragment: str
    names: tuple[tuple[str, str], ...]
    alone: bool


def complete_body(text: str, own: Container[str]) -> Found | None:
    """Return what may follow `text`, a cell's body up to the cursor; None where that is not for us to say.

    own: the user's own names, which go before the language's
    """
    chosen = _TARGET.search(text)
    if chosen is not None:
        return _found(chosen.group(2), [(name, "text") for name in TARGETS], alone=True)
    written = text
    text = _QUIET.sub(lambda match: "0" if match.group(1) else "", text)
    if _OPEN.search(text.rpartition("\n")[2]):  # in a text, or in a comment
        return None
    path = _PATH.search(text)
    assert path is not None
    owner, start = re.sub(r"\s", "", path.group(1)), path.group(2)
    if owner:
        return _attributes(owner[:-1].split("."), start, own)
    before = text[: path.start()]
    keywords = _keywords(before, own)
    if isinstance(keywords, Found):
        return dataclasses.replace(keywords, fragment=start, names=_starting(keywords.names, start))
    if keywords:
        beside = [*_local(written, start), *_language(own)] if start else []
        return _found(start, [*((f"{name}=", "param") for name in keywords), *beside], alone=not start)
    return _found(start, [*_local(written, start), *_language(own)], alone=False) if start else None


def _found(start: str, names: Iterable[tuple[str, str]], *, alone: bool) -> Found:
    return Found(start, _starting(names, start), alone)


def _starting(names: Iterable[tuple[str, str]], start: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, kind) for name, kind in names if name.startswith(start))


def _language(own: Container[str]) -> list[tuple[str, str]]:
    return [(name, _kind(value)) for name, value in sorted(language_names().items()) if name not in own]


def _local(text: str, start: str) -> list[tuple[str, str]]:
    """Return the parameters, shape names and locals of the function that a text ends in, not what is being typed."""
    around = function_at(text, len(text))
    if around is None:
        return []
    typed = len(text) - len(start)
    local = [name for name, place in around.locals.items() if place != typed]
    return [(name, "instance") for name in dict.fromkeys((*around.parameters, *around.extents, *local))]


def _kind(value: object) -> str:
    kinds: Mapping[type, str] = {Intrinsic: "function", Namespace: "module", ModuleType: "module", DType: "class"}
    return next((kind for known, kind in kinds.items() if isinstance(value, known)), "function")


def find(path: Iterable[str], own: Container[str]) -> object | None:
    """Return what a path of names stands for in the language, such as tile.softmax; None where it is no name of it."""
    first, *rest = path
    value: object | None = None if first in own else language_names().get(first)
    for name in rest:
        value = getattr(value, name, None)
    return value


def _attributes(path: list[str], start: str, own: Container[str]) -> Found | None:
    value = find(path, own)
    if value is None:
        return None
    return _found(start, [(name, _kind(getattr(value, name))) for name in _members(value)], alone=True)


def _members(value: object) -> list[str]:
    if isinstance(value, ModuleType):
        public = {name: one for name, one in vars(value).items() if not name.startswith("_")}
        return [name for name, one in public.items() if getattr(one, "__module__", None) == value.__name__]
    if isinstance(value, KernelDecorator):
        return ["autotune", "inspect_ir"]
    if isinstance(value, Intrinsic):
        return []
    # `global_` is written cp_async.shared.global in a cell.
    return [name.removesuffix("_") for name in dir(value) if not name.startswith("_")]


def called_at(before: str) -> list[str] | None:
    """Return the path of the function in whose brackets a text ends, such as ["tile", "range"]; None outside a call."""
    place = _innermost(before)
    called = None if place is None else _CALLED.search(before[:place])
    return None if called is None else re.sub(r"\s", "", called.group(2)).split(".")


def _keywords(before: str, own: Container[str]) -> Found | list[str]:
    """Complete keywords of the call around the cursor; where it is a kernel's signature, what may stand there."""
    place = _innermost(before)
    if place is None:
        return []
    head, inside = before[:place], before[place + 1 :]
    if _DEFINED.search(head):
        return _annotation(inside.rpartition(",")[2])
    called = _CALLED.search(head)
    if called is None:
        return []
    path = re.sub(r"\s", "", called.group(2)).split(".")
    option = _GIVEN.search(inside)
    if option is not None:
        return _values(path[-1], option.group(1))
    given = set(re.findall(r"\b([^\W\d]\w*)\s*=(?!=)", inside))
    return [name for name in _parameters(path, own, decorates=bool(called.group(1))) if name not in given]


def _values(called: str, name: str) -> Found | list[str]:
    """Return the values of a schedule option: to fix it those that it can have, to search those worth trying."""
    if name not in SCHEDULE or called not in ("autotune", "variant"):
        return []
    option = SCHEDULE[name]
    texts = [str(list(option.candidates))] if called == "autotune" else [str(value) for value in option.legal]
    return Found("", tuple((text, "text") for text in texts), alone=True)


def _annotation(parameter: str) -> Found | list[str]:
    """Return the words that may follow `x: ` or `x: mut ` in a signature."""
    name, colon, kind = parameter.partition(":")
    if not colon or not name.strip() or kind.strip() not in ("", "mut"):
        return []
    language = language_names()
    dtypes = [(name, "class") for name, value in language.items() if isinstance(value, DType)]
    arrays = [(name, "keyword") for name in ("mut", "tensor", "Tensor") if name != kind.strip()]
    return Found("", (*sorted(dtypes), *arrays), alone=True)


def _parameters(path: list[str], own: Container[str], *, decorates: bool) -> Iterable[str]:
    """Return the names that can be given by keyword to what `path` stands for."""
    value = find(path, own)
    if isinstance(value, Intrinsic):
        return value.operation.keywords
    if isinstance(value, KernelDecorator):
        return [field.name for field in dataclasses.fields(Options) if field.name not in _HIDDEN]
    if path[-1] == "autotune" and (decorates or value is not None):
        return ["space", *SCHEDULE]
    if path[-1] == "variant":
        return list(SCHEDULE)
    if callable(value) and not isinstance(value, Kernel):
        return list(inspect.signature(value).parameters)
    return []


def _innermost(text: str) -> int | None:
    """Return the place of the last round bracket if that is open at the end, and no other one; else None."""
    closed: list[str] = []
    partners = {")": "(", "]": "[", "}": "{"}
    for place in range(len(text) - 1, -1, -1):
        one = text[place]
        if one in partners:
            closed.append(partners[one])
        elif one in partners.values():
            if not closed:
                return place if one == "(" else None
            closed.pop()
    return None
