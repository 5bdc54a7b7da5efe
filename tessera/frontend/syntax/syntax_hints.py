"""Syntax errors of Python's parser as the user is told them: where, and what to write instead.

`_HABITS` recognises what people bring along from elsewhere (`&&`, `f32[n] mut`, `tile=(128,)`); where none fits,
Python's own message stands, with a remedy from `_BY_MESSAGE` where there is one.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.desugar import LineIndex
from tessera.frontend.syntax.tokens import Token, logical_lines


@dataclass(frozen=True, slots=True)
class _Finding:
    """A habit recognised: the tokens `first` to `last` are at fault."""

    first: Token
    last: Token
    message: str
    hint: str


def explain(error: SyntaxError, source: Source) -> SyntaxMistake:
    """Return the mistake that `error`, raised by Python for `source` or its rewritten form, amounts to."""
    span = _span(error, source)
    lines = list(_lines_at(source, span))
    for habit in _HABITS:
        for line in lines:
            finding = habit(line)
            if finding is not None:
                where = LineIndex(source).span(finding.first.start, finding.last.end)
                return _mistake(source, finding.message, where, finding.hint)
    message = error.msg or "invalid syntax"
    hint = next((remedy for pattern, remedy in _BY_MESSAGE if re.match(pattern, message)), _ELSEWISE)
    return _mistake(source, message, span, hint)


def _mistake(source: Source, message: str, span: Span, hint: str) -> SyntaxMistake:
    mistake = SyntaxMistake(message, span, hint)
    mistake.with_source(source)
    return mistake


def _span(error: SyntaxError, source: Source) -> Span:
    """Return where Python saw the error, kept inside the text (at its end, Python points one line below it)."""
    lines = source.text.rstrip("\n").split("\n")
    last = source.first_line + len(lines) - 1
    line, column = error.lineno or source.first_line, error.offset or 1
    if not source.first_line <= line <= last:
        line, column = last, len(lines[-1]) + 1
    width = len(lines[line - source.first_line])
    column = max(1, min(column, width + 1))
    end_column = error.end_offset if error.end_lineno == line and error.end_offset else 0
    return Span(source.name, line, column, line, max(column + 1, min(end_column, width + 1)))


def _lines_at(source: Source, span: Span) -> Iterator[list[Token]]:
    """The logical line that covers the line of `span`.

    A bracket that was never closed makes one logical line of all that follows: then the tokens are cut at the end
    of the line of the error.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", source.text))]
    index = span.line - source.first_line
    begin, end = starts[index], starts[index + 1] if index + 1 < len(starts) else len(source.text) + 1
    for line in logical_lines(source.text):
        if line[0].start < end and begin < line[-1].end:
            yield [token for token in line if token.start < end]


def _mut(line: list[Token]) -> _Finding | None:
    """`f32[n] mut`, `mut y: f32[n]`, `mut` outside a signature."""
    in_signature = line[0].text in ("def", "async")
    for index, (before, after) in enumerate(pairwise(line)):
        if after.text == "mut" and before.ends_atom and in_signature:
            return _Finding(after, after, "mut stands before the type, not after it", "write y: mut f32[n]")
        if before.text != "mut" or not after.is_word:
            continue
        if in_signature and line[index - 1].text != ":":
            return _Finding(before, before, "mut belongs to the type, not to the name", f"write {after.text}: mut ...")
        if not in_signature:
            return _Finding(before, before, "mut is for a kernel's parameters", "remove it: local names may be rebound")
    return None


def _decorator(line: list[Token]) -> _Finding | None:
    """Commas, colons, `name=` and `def` on a decorator line."""
    if line[0].text != "@":
        return None
    for before, token in pairwise(line):
        if token.depth == 0 and token.text == "=" and before.is_word:
            form = {"tile": "tile[(128,)]", "shared": "shared(8_KiB)"}.get(before.text, f"@kernel({before.text}=...)")
            return _Finding(before, token, f"{before.text} takes no = on a decorator line", f"write {form}")
        if token.depth == 0 and token.text == ",":
            return _Finding(token, token, "blanks, not commas, separate what follows @kernel",
                            "write @kernel tile[(128,)] shared(8_KiB)")  # fmt: skip
        if token.depth == 0 and token.text in ("def", "class"):
            return _Finding(token, token, f"{token.text} begins a line of its own", "break the line before it")
    if line[-1].text == ":":
        return _Finding(line[-1], line[-1], "a decorator line has no colon", "remove it")
    return None


_OPERATORS: Final = {
    "&&": "write `and`", "||": "write `or`", "++": "write `+= 1`", "--": "write `-= 1`", "<>": "write `!=`",
    "=>": "write `>=`",
}  # fmt: skip


def _operator(line: list[Token]) -> _Finding | None:
    """Operators of C."""
    for before, after in pairwise(line):
        both = before.text + after.text
        if both in ("++", "--") and after is not line[-1]:
            continue  # a - -b
        if both in _OPERATORS and before.end == after.start:
            return _Finding(before, after, f"{both} is not an operator", _OPERATORS[both])
        if before.text == "!" and (after.is_word or after.text == "("):
            return _Finding(before, before, "! is not an operator", "write `not`")
        if before.text == "?":
            return _Finding(before, before, "? is not an operator", "write `a if condition else b`, or where(...)")
    return None


def _cuda_launch(line: list[Token]) -> _Finding | None:
    """`k<<<grid, block>>>(x)`."""
    for before, after in pairwise(line):
        if (before.text, after.text) == ("<<", "<") and before.end == after.start:
            return _Finding(before, after, "<<< >>> is CUDA's launch", "write k[grid, block](...)")
    return None


_WORDS: Final = {"let": "x = ...", "var": "x = ...", "const": "x = ...", "auto": "x = ...", "fn": "def f(...):",
                 "func": "def f(...):", "function": "def f(...):", "void": "def f(...):"}  # fmt: skip


def _statement(line: list[Token]) -> _Finding | None:
    """`else if`, C's `for`, declarations, and IPython's magics."""
    first = line[0]
    if first.text in ("%", "!", "%%"):
        return _Finding(first, first, f"{first.text} commands of IPython do not work inside this cell",
                        "move it to a cell of its own")  # fmt: skip
    if len(line) > 1 and (first.text, line[1].text) == ("else", "if"):
        return _Finding(first, line[1], "else if is one word in Python", "write elif")
    if len(line) > 1 and first.text in _WORDS and line[1].is_word:
        return _Finding(first, first, f"{first.text} is not a word of the language", f"write {_WORDS[first.text]}")
    if len(line) > 1 and first.text == "for" and line[1].text == "(" and any(t.text == ";" for t in line):
        return _Finding(first, first, "a for loop runs over a range", "write for i in range(n):")
    return None


def _range(line: list[Token]) -> _Finding | None:
    """`0..10`; Python itself can parse `0..n`: the attribute `n` of the float `0.`."""
    for token in line:
        ends = token.text.split("..") if token.kind == "number" else []
        if len(ends) == 2:
            return _Finding(token, token, ".. makes no range", f"write range({ends[0]}, {ends[1]})")
    return None


def _open_signature(line: list[Token]) -> _Finding | None:
    """`def k(x: f32[n], y: f32[n]:`, with a second colon in one parameter."""
    if line[0].text not in ("def", "async"):
        return None
    colons = 0
    for token in line:
        if token.depth == 1 and token.text in (":", ",", "lambda"):
            colons = colons + 1 if token.text == ":" else -1 if token.text == "lambda" else 0
            if colons == 2:
                return _Finding(token, token, "the list of parameters is not closed", "write ) before the colon")
    return None


def _typed_parameter(line: list[Token]) -> _Finding | None:
    """`def k(f32[n] x)` and `def k(float x)`."""
    if line[0].text not in ("def", "async"):
        return None
    opened = False  # whether the last bracket began a type: `x: [n]f32`
    for before, after in pairwise(line):
        if after.text == "[" and after.depth == 1:
            opened = before.text == ":"
        if after.depth != 1 or not after.is_word or not before.ends_atom or "mut" in (before.text, after.text):
            continue
        if before.text == "]" and opened:
            example = f"write {after.text}[n], with the extents in brackets"
            return _Finding(after, after, "an array's extents stand after its type", example)
        return _Finding(after, after, "a parameter's type stands after its name", f"write {after.text}: f32[n]")
    return None


_HABITS: Final[tuple[Callable[[list[Token]], _Finding | None], ...]] = (
    _mut, _decorator, _statement, _operator, _cuda_launch, _range, _open_signature, _typed_parameter,
)  # fmt: skip
_ELSEWISE: Final = "look for a missing operator, comma, bracket or colon here, or just before"
_BY_MESSAGE: Final = (
    (r"expected ':'", "end the line with a colon"),
    (r"'.' was never closed", "add the bracket that closes it"),
    (r"unmatched '.'", "remove it, or open it before"),
    (r"closing parenthesis '.' does not match", "close brackets in the order they were opened"),
    (r"unterminated .*string literal", "close the string with the quote that began it"),
    (r"expected an indented block", "indent the lines that belong to it"),
    (r"unexpected indent|unindent does not match", "align the line with its neighbours"),
    (r"inconsistent use of tabs", "indent with spaces only"),
    (r"invalid (non-printable )?character", "write the ASCII character"),
    (r"invalid (decimal|hexadecimal|octal|binary) literal", "a name cannot begin with a digit"),
    (r"invalid syntax. Perhaps you forgot a comma", "add the comma"),
    (r"cannot assign to|expression cannot contain assignment", "compare with ==, assign to a name or an element"),
    (r"'return' outside function", "indent it into the function"),
    (r"expected '\('", "a definition lists its parameters: def name(x: f32[n]):"),
    (r"duplicate argument", "give each parameter a name of its own"),
)
