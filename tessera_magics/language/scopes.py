"""Find functions, their parameters, shape names and locals in a cell by its tokens, also while it does not parse."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tessera.core.base.dtypes import BY_NAME
from tessera.frontend.syntax.tokens import Token, logical_lines

_ASSIGNS: Final = ("=", "+=", "-=", "*=", "/=", "//=", "%=", "**=", "@=", "&=", "|=", "^=", ">>=", "<<=", ":=")
_NO_EXTENT: Final = frozenset({"mut", "tensor", "Tensor", "int", "bool", "float", *BY_NAME})


@dataclass(slots=True)
class Function:
    """A function of the cell; offsets count characters of the cell's body.

    parameters: with their annotations as they are written; extents: the (parameter, axis) that each shape name is of
    """

    name: str
    start: int
    indent: int
    is_kernel: bool
    end: int = 0
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    extents: dict[str, list[tuple[str, int]]] = field(default_factory=dict[str, list[tuple[str, int]]])
    locals: dict[str, int] = field(default_factory=dict[str, int])

    def kind_of(self, name: str) -> str:
        """Return the kind of a name in this function: "parameter", "extent", "local", or nothing."""
        kinds = (("parameter", self.parameters), ("extent", self.extents), ("local", self.locals))
        return next((kind for kind, names in kinds if name in names), "")


def functions(text: str) -> list[Function]:
    """Return the functions of a cell's body, outer before inner."""
    found: list[Function] = []
    open_ones: list[Function] = []
    decorated = False
    for line in logical_lines(text):
        start = line[0].start
        indent = start - text.rfind("\n", 0, start) - 1
        while open_ones and indent <= open_ones[-1].indent:
            open_ones.pop().end = start
        if line[0].text == "@":
            decorated = decorated or any(token.text == "kernel" for token in line)
            continue
        header = _header(text, line, indent, is_kernel=decorated)
        decorated = False
        if header is not None:
            found.append(header)
            open_ones.append(header)
        elif open_ones:
            for token in _assigned(line):
                open_ones[-1].locals.setdefault(token.text, token.start)
    for rest in open_ones:
        rest.end = len(text) + 1
    return found


def function_at(text: str, offset: int) -> Function | None:
    """Return the innermost function around an offset."""
    around = [one for one in functions(text) if one.start <= offset < one.end]
    return around[-1] if around else None


def _header(text: str, line: Sequence[Token], indent: int, *, is_kernel: bool) -> Function | None:
    words = line[1:] if line[0].text == "async" else line
    if len(words) < 2 or words[0].text != "def":
        return None
    made = Function(words[1].text, line[0].start, indent, is_kernel)
    for name, annotation in _parameters(words[2:]):
        made.parameters[name.text] = text[annotation[0].start : annotation[-1].end] if annotation else ""
        for extent, axis in _extents(annotation):
            made.extents.setdefault(extent, []).append((name.text, axis))
    return made


def _parameters(tokens: Sequence[Token]) -> Iterator[tuple[Token, list[Token]]]:
    """Yield each parameter's name, and the tokens of its annotation."""
    name: Token | None = None
    annotation: list[Token] = []
    reading = False
    for before, token in pairwise(tokens):
        if token.depth == 0:
            break
        if token.depth == 1 and before.text in ("(", ",", "*", "**") and token.is_word:
            if name is not None:
                yield name, annotation
            name, annotation, reading = token, [], False
        elif token.depth == 1 and token.text in (":", "=", ","):
            reading = token.text == ":"
        elif reading:
            annotation.append(token)
    if name is not None:
        yield name, annotation


def _extents(annotation: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """Yield the shape names of an annotation such as `mut f32[rows, cols]`, with the axis of each."""
    axis = 0
    for token in annotation:
        if token.text == "[":
            axis = 0
        elif token.text == ",":
            axis += 1
        elif token.depth > 1 and (token.is_word or token.kind == "string"):
            name = token.text.strip("\"'")
            if name.isidentifier() and name not in _NO_EXTENT:
                yield name, axis


def _assigned(line: Sequence[Token]) -> Iterator[Token]:
    """Yield the names that a statement sets."""
    if line[0].text == "for":
        stop = next((at for at, token in enumerate(line) if token.text == "in"), len(line))
        yield from (token for token in line[1:stop] if token.is_word)
        return
    places = [at for at, token in enumerate(line) if token.depth == 0 and token.text in _ASSIGNS]
    if not places:
        return
    left = [*line[: places[-1]], line[places[-1]]]
    for before, token, after in zip([None, *left], left, left[1:], strict=False):
        plain = before is None or before.text != "."
        if plain and token.depth == 0 and token.is_word and after.text not in (".", "[", "("):
            yield token
