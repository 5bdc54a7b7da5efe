"""Positions in characters and lines of the file, and one class of error for any text."""

import ast

import pytest

from tessera.core.base.source import Source
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.parse import guarded, parse, parse_python, shift_columns, unix_line_ends


def names(tree: ast.AST) -> dict[str, tuple[int, int]]:
    """Where each name stands."""
    return {node.id: (node.lineno, node.col_offset) for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_lines_count_from_the_first_line_of_the_source():
    assert names(parse(Source("<cell>", "a\n\nb", first_line=40))) == {"a": (40, 0), "b": (42, 0)}


def test_columns_count_characters():
    assert names(parse(Source("<cell>", "éö = '日本' + x"))) == {"éö": (1, 0), "x": (1, 12)}
    wide = parse(Source("<cell>", "'日本' + x"))
    assert names(wide) == {"x": (1, 7)}
    source = Source("<cell>", "'日本' + x")
    shift_columns(wide, source, to_bytes=True)
    assert names(wide) == names(ast.parse(source.text)) == {"x": (1, 11)}


def test_every_line_end_of_python_counts_once():
    assert unix_line_ends("a\r\nb\rc\nd") == "a\nb\nc\nd"
    assert names(parse(Source("<cell>", "a\r\nb\rc\x0c\nd\n'\u2028'\ne")))["e"] == (6, 0)


def test_plain_python_is_not_rewritten():
    source = Source("<cell>", "@a @b\ndef f(): ...")
    definition = parse_python(source.text, source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    assert ast.unparse(definition.decorator_list[0]) == "a @ b"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("x = 1\ny = '\0'", 6, 6, "the character '\\x00' cannot stand in source text"),
        ("x = '\ud800'", 5, 6, "the character '\\ud800' cannot stand in source text"),
        ("if x:\ny", 6, 1, "expected an indented block after 'if' statement on line 5"),
    ],
)
def test_mistakes(text: str, line: int, column: int, message: str):
    with pytest.raises(SyntaxMistake) as caught:
        parse(Source("<cell>", text, first_line=5))
    assert (caught.value.message, caught.value.span.line, caught.value.span.column) == (message, line, column)
    assert str(caught.value)


@pytest.mark.parametrize("text", ["-" * 100_000 + "x", "f'{" * 2000, "x = " + "9" * 5000, "(" * 300 + ")" * 300])
def test_monsters_are_mistakes_too(text: str):
    with pytest.raises(SyntaxMistake):
        parse(Source("<cell>", text))


def test_long_sums_are_fine():
    parse(Source("<cell>", "x = " + " + ".join(["8_KiB"] * 900)))


def test_other_exceptions_pass():
    with pytest.raises(KeyError):
        guarded(Source("<cell>", ""), lambda: {}["a"])
