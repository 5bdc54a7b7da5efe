"""The rewrite: same length, plain Python untouched, each addition's placeholder, and the mistakes it points at."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.documents import BLOCKS
from tessera.core.base.source import Source
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.desugar import LineIndex, desugar


def rewritten(text: str) -> str:
    """`text` after the rewrite."""
    return desugar(Source("<cell>", text)).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def k(y: mut f32[n]): pass", "def k(y: not f32[n]): pass"),
        ("def k(x: f32[n],\n      y: mut\n      f32[n]): pass", "def k(x: f32[n],\n      y: not\n      f32[n]): pass"),
        ("def k(y:mut\tf32[n]=None): pass", "def k(y:not\tf32[n]=None): pass"),
        ("async def k(y: mut f32): pass", "async def k(y: not f32): pass"),
        ("x = 8_KiB + 1_000_MiB", "x = KiB_8 + MiB_1_000"),
        ("x = 0x10_GiB", "x = GiB_0x10"),
        ("cp_async.shared.global(a, b)", "cp_async.shared.Global(a, b)"),
        ("a . global", "a . Global"),
        ("@kernel tile[(128,)] shared(8_KiB)", "@kernel|tile[(128,)]|shared(KiB_8)"),
        ("@kernel  tile [4] \\\n shared(1)", "@kernel| tile [4]|\\\n shared(1)"),
        ("@kernel\ttile[4]", "@kernel|tile[4]"),
        ("@kernel\\\n tile[4]", "@kernel\\\n|tile[4]"),
        ("@kernel.autotune(space=dict(a=[1, 2])) tile[4]", "@kernel.autotune(space=dict(a=[1, 2]))|tile[4]"),
        ("@jit @autodiff", "@jit |autodiff"),
        ("@jit@autodiff", "@jit|autodiff"),
        ("k[grid, block, stream=s](x)", "k[grid, block, stream:s](x)"),
        ("k[stream = s](x)", "k[stream : s](x)"),
        ("a[b(c=1)[d=2]]", "a[b(c=1)[d:2]]"),
    ],
)
def test_rewrites(text: str, expected: str):
    assert rewritten(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "mut = 3\nmut[mut] = mut.mut(mut)",
        "def k(y: mut[f32[n]], mut: int = 1): return mut",
        "def mut(): pass",
        "x: mut\ny = {1: mut}",
        "'8_KiB mut f32 .global @a @b'",
        "f'{x} 8_KiB {y: >8} mut f32[n]'",
        "# y: mut f32[n], 8_KiB\n'''\n@kernel tile[4]\n'''",
        "a[lambda b=1, c=2: b]",
        "a[b == c, d <= e, (f := 1)]",
        "a[b:c]",
        "[a(b=1)]",
        "class A[T]: pass",
        "class A[T=int]: pass",
        "type A[T=int] = T",
        "def f[T=int](x): pass",
        "@kernel(tile=(128,), shared=8 * KiB)\ndef k(x): pass",
        "@a if b else c\ndef f(): pass",
        "@a.b[c](d)\ndef f(): pass",
        "x = a @ b\ny = (a\n     @ b)\nz = a \\\n@ b",
        "global x",
        "a.globals()",
        "8_0 + 1e5 + 0xFF_FF + 1_0j + 3.14",
        "x.KiB_8",
    ],
)
def test_plain_python_is_unchanged(text: str):
    result = desugar(Source("<cell>", text))
    assert (result.text, result.marks) == (text, ())


def test_the_standard_library_is_unchanged():
    for name in ("ast.py", "dataclasses.py", "typing.py", "argparse.py", "functools.py", "enum.py", "re/_parser.py"):
        text = (Path(ast.__file__).parent / name).read_text(encoding="utf-8")
        assert desugar(Source(name, text)).marks == ()


@pytest.mark.parametrize("name", BLOCKS)
def test_documents_keep_their_lines_and_columns(name: str):
    text = BLOCKS[name]
    result = rewritten(text)
    assert [len(line) for line in result.split("\n")] == [len(line) for line in text.split("\n")]
    ast.parse(result)


def test_marks_say_what_stood_there():
    text = "é = 8_KiB\n@kernel tile[4] @jit\ndef k(y: mut f32): a.global[b=c]"
    marks = desugar(Source("<cell>", text, first_line=10)).marks
    assert {(mark.kind, mark.line, mark.column, mark.text) for mark in marks} == {
        ("unit", 10, 4, "8_KiB"),
        ("clause", 11, 8, "tile"),
        ("decorator", 11, 16, "@"),
        ("mut", 12, 9, "mut"),
        ("global", 12, 21, "global"),
    }  # a launch's keyword is not looked for on the line of a def


@given(st.lists(st.sampled_from([*"ab@.:=[](){},\n\t '\"#\\é", "mut ", "8_KiB", "tile", "global", "def ", "stream="])))
def test_length_and_lines_survive(pieces: list[str]):
    text = "".join(pieces)
    try:
        result = rewritten(text)
    except SyntaxMistake:
        return
    assert len(result) == len(text)
    assert [m.start() for m in re.finditer("\n", result)] == [m.start() for m in re.finditer("\n", text)]


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("shared(0.5_MiB)", 8, "0.5_MiB: bytes come in whole numbers", "write 512_KiB"),
        ("x = 2.0_MiB", 5, "2.0_MiB: bytes come in whole numbers", "write 2_MiB"),
        ("x = 0.3_KiB", 5, "0.3_KiB: bytes come in whole numbers", "write a whole number before _KiB"),
        ("x = 0b12_KiB", 5, "0b12_KiB: bytes come in whole numbers", "write a whole number before _KiB"),
        ("x = 8KiB", 5, "8KiB is not a number of bytes", "write 8_KiB"),
        ("x = 8_KB", 5, "8_KB is not a number of bytes", "write 8_KiB"),
        ("é = 8_mib", 5, "8_mib is not a number of bytes", "write 8_MiB"),
        ("x = 1_TiB", 5, "1_TiB is not a number of bytes", "write one of KiB, MiB, GiB, as in 8_KiB"),
        ("@kernel(a=1)tile[4]", 13, "tile has no space before it", "put a space before tile"),
    ],
)
def test_mistakes(text: str, column: int, message: str, hint: str):
    with pytest.raises(SyntaxMistake) as caught:
        rewritten(text)
    error = caught.value
    assert (error.message, error.hint, error.span.line, error.span.column) == (message, hint, 1, column)
    assert error.source is not None
    assert error.source.text == text


def test_line_index():
    lines = LineIndex(Source("<cell>", "ab\n\ncd", first_line=5))
    assert [lines.position(offset) for offset in range(7)] == [(5, 0), (5, 1), (5, 2), (6, 0), (7, 0), (7, 1), (7, 2)]
    span = lines.span(1, 5)
    assert (span.line, span.column, span.end_line, span.end_column) == (5, 2, 7, 2)
