"""Rewrite Tessera's additions to Python, character for character, so that every line and column survives.

Each addition becomes a placeholder of the same length that Python can parse, and a `Mark` says where it stands;
`normalize.py` turns the marked places of the tree into their plain meaning:

    y: mut f32[n]                   y: not f32[n]                     mut[f32[n]]
    8_KiB                           KiB_8                             8 * KiB
    cp_async.shared.global(d, s)    cp_async.shared.Global(d, s)      cp_async.shared.global_(d, s)
    @kernel tile[(128,)] shared(n)  @kernel|tile[(128,)]|shared(n)    @kernel(tile=(128,), shared=n)
    @jit @autodiff                  @jit |autodiff                    @jit and @autodiff, a line each
    k[grid, block, stream=s]        k[grid, block, stream:s]          k[grid, block].on(s)

Strings, f-strings and comments are never touched, nor is text that is plain Python already.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NoReturn

from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.tokens import Token, logical_lines

UNITS: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
"""Bytes in each unit a number may carry."""

_UNIT: Final = re.compile(r"(?P<base>[\w.]*[\d.])_?(?P<unit>[kKmMgGtT]i?[bB])")


@dataclass(frozen=True, slots=True)
class Mark:
    """A placeholder: `kind` is mut, unit, global, decorator, clause or stream.

    `line` is in the source's own numbering and `column` counts characters from 0, as in Python's tree; `text` is
    what the user wrote there.
    """

    kind: str
    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Desugared:
    """Text that Python parses, exactly as long as the user's, and the places that still need their meaning."""

    text: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class _Edit:
    kind: str
    token: Token  # what the mark stands at
    offset: int  # where `text` goes
    text: str


def desugar(source: Source) -> Desugared:
    """Rewrite `source.text`, which has "\\n" line ends.

    Raises SyntaxMistake for additions that cannot be meant (`0.5_MiB`, `8_KB`), RecursionError for f-strings
    nested beyond reason.
    """
    edits = [edit for line in logical_lines(source.text) for edit in _line_edits(source, line)]
    chars = list(source.text)
    for edit in edits:
        chars[edit.offset : edit.offset + len(edit.text)] = edit.text
    lines = LineIndex(source)
    marks = tuple(Mark(edit.kind, *lines.position(edit.token.start), edit.token.text) for edit in edits)
    return Desugared("".join(chars), marks)


class LineIndex:
    """Turns offsets into a source's text into lines and columns."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._starts = [0, *(match.end() for match in re.finditer("\n", source.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line (the source's own numbering) and column (characters, from 0) of `offset`."""
        low, high = 0, len(self._starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._starts[middle] <= offset else (low, middle)
        return self._source.first_line + low, offset - self._starts[low]

    def span(self, start: int, end: int) -> Span:
        """The span of the characters `start` to `end`."""
        (line, column), (end_line, end_column) = self.position(start), self.position(end)
        return Span(self._source.name, line, column + 1, end_line, end_column + 1)


def _line_edits(source: Source, line: list[Token]) -> Iterator[_Edit]:
    """Every rewrite in one logical line."""
    yield from _unit_edits(source, line)
    yield from _global_edits(line)
    if line[0].text == "@":
        yield from _decorator_edits(source, line)
    if line[0].text in ("def", "async"):
        yield from _mut_edits(line)
    elif not _declares_type_parameters(line):
        yield from _stream_edits(line)


def _declares_type_parameters(line: list[Token]) -> bool:
    """`class A[T=int]` and `type A[T=int] = ...` hold an `=` in brackets that is Python's own."""
    return line[0].text == "class" or (line[0].text == "type" and len(line) > 1 and line[1].is_word)


def _unit_edits(source: Source, line: list[Token]) -> Iterator[_Edit]:
    """`8_KiB` to `KiB_8`: an atom, so that no operator beside it can tear it apart."""
    for token in line:
        match = _UNIT.fullmatch(token.text) if token.kind == "number" else None
        if match is None:
            continue
        base, unit = match["base"], match["unit"]
        if unit not in UNITS or token.text != f"{base}_{unit}":
            right = f"{base}_{unit[0].upper()}iB"
            known = unit[0].upper() + "iB" in UNITS
            remedy = right if known else f"one of {', '.join(UNITS)}, as in 8_KiB"
            _refuse(source, token, f"{token.text} is not a number of bytes", f"write {remedy}")
        try:
            int(base, 0)
        except ValueError:
            _refuse(source, token, f"{token.text}: bytes come in whole numbers", _whole(base, unit))
        yield _Edit("unit", token, token.start, f"{unit}_{base}")


def _whole(base: str, unit: str) -> str:
    """The remedy for a number of bytes with a fraction: this unit or the next smaller one, where it comes out even."""
    try:
        count = float(base)
    except ValueError:
        count = 0.5
    smaller = {"MiB": "KiB", "GiB": "MiB"}.get(unit, unit)
    for value, name in ((count, unit), (count * 1024, smaller)):
        if value.is_integer() and 0 < value < 2**31 and (name != unit or value == count):
            return f"write {int(value)}_{name}"
    return f"write a whole number before _{unit}"


def _global_edits(line: list[Token]) -> Iterator[_Edit]:
    """`.global` to `.Global`: `global` is a keyword of Python."""
    for before, token in pairwise(line):
        if before.text == "." and token.text == "global":
            yield _Edit("global", token, token.start, "Global")


def _mut_edits(line: list[Token]) -> Iterator[_Edit]:
    """`mut` to `not` before a parameter's type: a prefix operator that binds loosest, so it holds the whole type."""
    for before, token, after in zip(line, line[1:], line[2:], strict=False):
        if token.text == "mut" and before.text == ":" and token.depth == 1 and after.is_word:
            yield _Edit("mut", token, token.start, "not")


def _decorator_edits(source: Source, line: list[Token]) -> Iterator[_Edit]:
    """Join the parts of a decorator line with `|`."""
    for before, token in pairwise(line):
        if token.depth != 0:
            continue
        if token.text == "@" and before.ends_atom:
            yield _Edit("decorator", token, token.start, "|")
        elif before.ends_atom and token.is_word:
            gap = re.search(r"[ \t\f]", source.text[before.end : token.start])
            if gap is None:
                _refuse(source, token, f"{token.text} has no space before it", f"put a space before {token.text}")
            yield _Edit("clause", token, before.end + gap.start(), "|")


def _stream_edits(line: list[Token]) -> Iterator[_Edit]:
    """`name=value` in the brackets of a launch to `name:value`, which Python reads as a slice."""
    openings: list[bool] = []  # for each open bracket: is it a subscript's?
    lambdas = [0]  # for each level: lambdas whose parameters are still being read
    for index, token in enumerate(line):
        if token.text in ("(", "[", "{"):
            openings.append(token.text == "[" and index > 0 and line[index - 1].ends_atom)
            lambdas.append(0)
        elif token.text in (")", "]", "}") and openings:
            openings.pop()
            lambdas.pop()
        elif token.text == "lambda":
            lambdas[-1] += 1
        elif token.text == ":" and lambdas[-1]:
            lambdas[-1] -= 1
        elif token.text == "=" and openings and openings[-1] and not lambdas[-1] and _begins_item(line, index - 1):
            yield _Edit("stream", line[index - 1], token.start, ":")


def _begins_item(line: list[Token], index: int) -> bool:
    """Is the token at `index` a name, first in its brackets or after a comma?"""
    return index > 0 and line[index].is_word and line[index - 1].text in ("[", ",")


def _refuse(source: Source, token: Token, message: str, hint: str) -> NoReturn:
    span = LineIndex(source).span(token.start, token.end)
    raise SyntaxMistake(message, span, hint).with_source(source)
