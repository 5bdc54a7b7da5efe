"""Each habit from elsewhere is recognised, with its caret and its remedy."""

import pytest

from tessera.core.base.source import Source
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.parse import parse


def mistake(text: str) -> SyntaxMistake:
    """What parsing `text` complains about."""
    with pytest.raises(SyntaxMistake) as caught:
        parse(Source("<cell>", text))
    return caught.value


def marked(error: SyntaxMistake) -> str:
    """The text over the caret."""
    assert error.source is not None
    line = error.source.line(error.span.line)
    end = error.span.end_column if error.span.end_line == error.span.line else len(line) + 1
    return line[error.span.column - 1 : end - 1]


@pytest.mark.parametrize(
    ("text", "caret", "message", "hint"),
    [
        ("def k(y: f32[n] mut): ...", "mut", "mut stands before the type, not after it", "write y: mut f32[n]"),
        ("def k(x: f32[n], mut y: f32[n]): ...", "mut", "mut belongs to the type, not", "write y: mut ..."),
        ("def k(x):\n    acc: mut f32 = 0", "mut", "mut is for a kernel's parameters", "remove it"),
        ("mut x = 3", "mut", "mut is for a kernel's parameters", "remove it"),
        ("@kernel tile=(128,)\ndef k(): ...", "tile=", "tile takes no = on a decorator line", "write tile[(128,)]"),
        ("@kernel shared=8_KiB\ndef k(): ...", "shared=", "shared takes no =", "write shared(8_KiB)"),
        ("@kernel target='cpu'\ndef k(): ...", "target=", "target takes no =", "write @kernel(target=...)"),
        ("@kernel, tile[4]\ndef k(): ...", ",", "blanks, not commas", "write @kernel tile[(128,)] shared(8_KiB)"),
        ("@kernel tile[4]:\ndef k(): ...", ":", "a decorator line has no colon", "remove it"),
        ("@kernel def k(): ...", "def", "def begins a line of its own", "break the line"),
        ("if a && b: x", "&&", "&& is not an operator", "write `and`"),
        ("x = a || b", "||", "|| is not an operator", "write `or`"),
        ("i++", "++", "++ is not an operator", "write `+= 1`"),
        ("if !a: x", "!", "! is not an operator", "write `not`"),
        ("x = a ? b : c", "?", "? is not an operator", "write `a if condition else b`"),
        ("k<<<grid, block>>>(x)", "<<<", "<<< >>> is CUDA's launch", "write k[grid, block](...)"),
        ("if a:\n    x\nelse if b:\n    y", "else if", "else if is one word", "write elif"),
        ("for (int i = 0; i < n; i++) {", "for", "a for loop runs over a range", "write for i in range(n):"),
        ("for i in 0..10: x", "0..10", ".. makes no range", "write range(0, 10)"),
        ("let x = 3", "let", "let is not a word of the language", "write x = ..."),
        ("fn k(x) {", "fn", "fn is not a word of the language", "write def f(...):"),
        ("%time x", "%", "% commands of IPython do not work", "move it to a cell of its own"),
        ("!ls", "!", "! commands of IPython do not work", "move it to a cell of its own"),
        ("def k(f32[n] x): ...", "x", "a parameter's type stands after its name", "write x: f32[n]"),
        (
            "def k(x: f32[n], y: mut f32[n]:\n    y[0] = x[0]",
            ":",
            "the list of parameters is not closed",
            "write ) before",
        ),
        ("def k(x: f32[n], c: f32 = 1.0:\n    pass", ":", "the list of parameters is not closed", "write ) before"),
        ("x = 3 4", "4", "invalid syntax", "look for a missing operator"),
        ("def k(x: [n]f32, y: f32[n]): ...", "f32", "an array's extents stand after its type", "write f32[n]"),
        ("def k(float a, float b): ...", "a", "a parameter's type stands after its name", "write a: f32[n]"),
    ],
)
def test_habits(text: str, caret: str, message: str, hint: str):
    error = mistake(text)
    assert error.message.startswith(message)
    assert error.hint.startswith(hint)
    assert marked(error) == caret


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("def k(y: mut f32[n])\n    x", 1, "end the line with a colon"),
        ("if x\n    y", 1, "end the line with a colon"),
        ("x = (1,\ny = 2", 1, "add the bracket that closes it"),
        ("def k(y: mut f32[n:\n    x = 1", 1, "add the bracket that closes it"),
        ("x = 1)", 1, "remove it, or open it before"),
        ("x = (1]", 1, "close brackets in the order they were opened"),
        ("x = 'abc", 1, "close the string with the quote that began it"),
        ("x = '''abc\n\n", 1, "close the string with the quote that began it"),
        ("if x:\ny = 1", 2, "indent the lines that belong to it"),
        ("x\n  y", 2, "align the line with its neighbours"),
        ("if x:\n    y\n  z", 3, "align the line with its neighbours"),
        ("if x:\n\ty\n        z", 3, "indent with spaces only"),
        ("x = “a”", 1, "write the ASCII character"),
        ("x = 3y", 1, "a name cannot begin with a digit"),
        ("f(a b)", 1, "add the comma"),
        ("f(x) = 3", 1, "compare with ==, assign to a name or an element"),
        ("def k:\n    x", 1, "a definition lists its parameters"),
    ],
)
def test_remedies_for_what_python_says(text: str, line: int, hint: str):
    error = mistake(text)
    assert error.hint.startswith(hint)
    assert error.span.line == line
    assert error.message


def test_habits_do_not_outshout_another_mistake_on_the_same_line():
    assert mistake("x = a--1 +").message == "invalid syntax"
    assert mistake("def k(y: mut f32[n], z: mut i8 = 1 2): ...").hint != "write z: mut ..."


def test_the_caret_stays_inside_the_text():
    error = mistake("x = (\n\n")
    assert (error.span.line, error.span.column) == (1, 5)
    error = mistake("def f():")
    assert error.span.line == 1
    assert "def f():" in str(error)


def test_carets_count_characters():
    assert marked(mistake("'日本', a && b")) == "&&"
    assert mistake("日本 = '日本' x").span.column == 11
