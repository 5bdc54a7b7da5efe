"""The scanner: tokens, nesting, and everything that must stay one token."""

import ast
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.frontend.syntax.tokens import logical_lines, tokens


def texts(text: str) -> list[str]:
    """The tokens of `text`, logical lines ignored."""
    return [token.text for token in tokens(text) if token is not None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8_KiB", ["8_KiB"]),
        ("1e-5+x", ["1e-5", "+", "x"]),
        ("0x1e+1", ["0x1e", "+", "1"]),
        ("a.global(b)", ["a", ".", "global", "(", "b", ")"]),
        ("x[...]", ["x", "[", "...", "]"]),
        ("a<<=b>>c", ["a", "<<=", "b", ">>", "c"]),
        ("a # 'comment'\nb", ["a", "b"]),
        (r"'it\'s' x", [r"'it\'s'", "x"]),
        ("rb'\\' x'", ["rb'\\' x'"]),
        ('"""a "quoted"\nline""" b', ['"""a "quoted"\nline"""', "b"]),
        ("f'{a!r:>{w}}' b", ["f'{a!r:>{w}}'", "b"]),
        ("f'{{mut f32}}' b", ["f'{{mut f32}}'", "b"]),
        ("f\"{d['k']:'>9}\" b", ["f\"{d['k']:'>9}\"", "b"]),
        ('f"{x:=8_KiB}" b', ['f"{x:=8_KiB}"', "b"]),
        ('rf"{x}\\" b" c', ['rf"{x}\\" b"', "c"]),
        ("naïve = größe", ["naïve", "=", "größe"]),
        ("a ? b", ["a", "?", "b"]),
    ],
)
def test_tokens(text: str, expected: list[str]):
    assert texts(text) == expected


def test_quotes_and_line_ends_inside_fields():
    """From Python 3.12 on, a field of an f-string may hold both."""
    free = sys.version_info >= (3, 12)
    assert texts('f"{d["k"]}" b')[0] == ('f"{d["k"]}"' if free else 'f"{d["')
    assert texts("f'{x\ny}' b")[0] == ("f'{x\ny}'" if free else "f'{x")


@pytest.mark.parametrize(
    ("text", "first"),
    [("'abc\nx", "'abc"), ('"""abc\nx', '"""abc\nx'), ("f'ab\ny", "f'ab"), ("'ab\\", "'ab\\")],
)
def test_unterminated_strings_end_with_the_line_or_the_text(text: str, first: str):
    assert texts(text)[0] == first


def test_logical_lines_join_brackets_and_backslashes():
    lines = [[token.text for token in line] for line in logical_lines("a(\n  b,\n)\n\nc \\\n d\n# only\ne")]
    assert lines == [["a", "(", "b", ",", ")"], ["c", "d"], ["e"]]


def test_depth_counts_open_brackets():
    depths = {token.text: token.depth for token in tokens("a(b[c])") if token}
    assert depths == {"a": 0, "(": 0, "b": 1, "[": 1, "c": 2, "]": 1, ")": 0}


def test_stray_closing_brackets_leave_depth_at_zero():
    assert [token.depth for token in tokens(")]x") if token] == [0, 0, 0]


@given(st.text(alphabet="ab01_ .:=\"'\\{}[]()#\nfr@", max_size=40))
def test_every_character_is_covered(text: str):
    """Tokens do not overlap, and between them stand only blanks, comments and line joins."""
    position = 0
    for token in tokens(text):
        if token is None:
            continue
        gap = text[position : token.start].replace("\\\n", "")
        assert all(line.strip() == "" or line.strip().startswith("#") for line in gap.split("\n"))
        assert token.text == text[token.start : token.end]
        position = token.end


def test_agrees_with_python_on_where_strings_are():
    """Each string literal that Python sees in this file is one token here."""
    text = Path(__file__).read_text(encoding="utf-8")
    starts = {(token.start, token.end) for token in tokens(text) if token and token.kind == "string"}
    offsets = [0]
    for line in text.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    lines = text.splitlines(keepends=True)
    count = 0
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or node.lineno != node.end_lineno:
            continue
        if not lines[node.lineno - 1].isascii():
            continue
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[node.lineno - 1] + (node.end_col_offset or 0)
        count += (start, end) in starts
    assert count > 60
