"""Placeholders get their meaning: the plain spelling, its positions, and additions that mean nothing."""

import ast

import pytest

from support.documents import BLOCKS
from tessera.core.base.source import Source
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.desugar import desugar
from tessera.frontend.syntax.normalize import node_span
from tessera.frontend.syntax.parse import parse


def plain(text: str) -> str:
    """`text` spelled as plain Python."""
    return ast.unparse(parse(Source("<cell>", text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def k(y: mut f32[n]): ...", "def k(y: mut[f32[n]]): ..."),
        ("def k(y: mut f32[n] @accum(f64)): ...", "def k(y: mut[f32[n] @ accum(f64)]): ..."),
        ("def k(y: mut f32[n]=None, *, z: mut i8): ...", "def k(y: mut[f32[n]]=None, *, z: mut[i8]): ..."),
        ("x = 2 ** 8_KiB", "x = 2 ** (8 * KiB)"),
        ("f(1_000_MiB, [0x10_KiB])", "f(1000 * MiB, [16 * KiB])"),
        ("cp_async.shared.global(a, b)", "cp_async.shared.global_(a, b)"),
        ("a.global.global = a.Global", "a.global_.global_ = a.Global"),
        ("k[grid, block, stream=s2](A, B)", "k[grid, block].on(s2)(A, B)"),
        ("k[grid, stream=s](A)", "k[grid].on(s)(A)"),
        ("k[stream=s](A)", "k.on(s)(A)"),
        ("k[stream=s, 4](A)", "k[4].on(s)(A)"),
        ("k[(1, 2), stream=a if b else c](A)", "k[1, 2].on(a if b else c)(A)"),
        ("k[j[stream=t], stream=s[u, stream=v]]", "k[j.on(t)].on(s[u].on(v))"),
        ("f(mut[8_KiB, k[stream=s]])", "f(mut[8 * KiB, k.on(s)])"),
    ],
)
def test_expressions(text: str, expected: str):
    assert plain(text) == plain(expected)
    assert plain(expected) == ast.unparse(ast.parse(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@kernel tile[(128,)] shared(8_KiB)", ["kernel(tile=(128,), shared=8 * KiB)"]),
        ("@kernel tile[128, 2]", ["kernel(tile=(128, 2))"]),
        ("@kernel tile[128]", ["kernel(tile=128)"]),
        ("@kernel shared(8_KiB) tile[64,]", ["kernel(shared=8 * KiB, tile=(64,))"]),
        ("@kernel() tile[64]", ["kernel(tile=64)"]),
        ("@kernel.autotune(space=dict(a=[1])) tile[(64,)]", ["kernel.autotune(space=dict(a=[1]), tile=(64,))"]),
        ("@tessera.kernel tile[n]", ["tessera.kernel(tile=n)"]),
        ("@jit @autodiff", ["jit", "autodiff"]),
        ("@jit(a=1) @kernel tile[4] @autodiff", ["jit(a=1)", "kernel(tile=4)", "autodiff"]),
        ("@a | b", ["a | b"]),
        ("@a @b\n@kernel tile[2]", ["a", "b", "kernel(tile=2)"]),
    ],
)
def test_decorators(text: str, expected: list[str]):
    definition = parse(Source("<cell>", f"{text}\ndef f(): ...")).body[0]
    assert isinstance(definition, ast.FunctionDef)
    assert [ast.unparse(decorator) for decorator in definition.decorator_list] == expected


def test_decorators_of_classes_split_too():
    assert plain("@a @b\nclass C: ...") == "@a\n@b\nclass C:\n    ..."


def test_folded_units_need_no_names():
    tree = parse(Source("<cell>", "x = 8_KiB\ny = 3 * KiB"), fold_units=True)
    assert ast.unparse(tree) == "x = 8192\ny = 3 * KiB"


def test_new_nodes_stand_where_the_user_wrote_them():
    text = "é = 1\n@kernel tile[(128,)] shared(8_KiB)\ndef k(y: mut f32[n]):\n    k[g, stream=s](8_KiB)"
    source = Source("<cell>", text, first_line=7)
    places: dict[str, str] = {}
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.expr | ast.keyword):
            span = node_span(source, node)
            assert span.line == span.end_line
            places[ast.unparse(node)] = source.line(span.line)[span.column - 1 : span.end_column - 1]
    assert places["mut[f32[n]]"] == "mut f32[n]"
    assert places["mut"] == "mut"
    assert places["kernel(tile=(128,), shared=8 * KiB)"] == "kernel tile[(128,)] shared(8_KiB)"
    assert places["tile=(128,)"] == "tile[(128,)]"
    assert places["shared=8 * KiB"] == "shared(8_KiB)"
    assert places["8 * KiB"] == "8_KiB"
    assert places["KiB"] == "KiB"
    assert places["k[g].on(s)"] == "k[g, stream=s]"
    assert places["k[g].on(s)(8 * KiB)"] == "k[g, stream=s](8_KiB)"


@pytest.mark.parametrize("name", BLOCKS)
def test_the_plain_spelling_means_the_same(name: str):
    """Parsing the plain spelling again gives the same tree, and needs no rewriting."""
    once = plain(BLOCKS[name])
    assert plain(once) == once
    assert desugar(Source("<cell>", once)).marks == ()


D = "\ndef f(): ..."


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("@kernel tile(128)" + D, (1, 9, 18), "tile takes the lanes of a group in brackets", "write tile[(128,)]"),
        ("@kernel tile" + D, (1, 9, 13), "tile takes the lanes", "write tile[(128,)]"),
        ("@kernel tile[4][5]" + D, (1, 9, 19), "tile takes the lanes", "write tile[(128,)]"),
        ("@kernel shared[8_KiB]" + D, (1, 9, 22), "shared takes one number of bytes", "write shared(8_KiB)"),
        ("@kernel shared()" + D, (1, 9, 17), "shared takes one number of bytes", "write shared(8_KiB)"),
        ("@kernel shared(1, 2)" + D, (1, 9, 21), "shared takes one number of bytes", "write shared(8_KiB)"),
        ("@kernel shared(bytes=1)" + D, (1, 9, 24), "shared takes one number", "write shared(8_KiB)"),
        ("@kernel shard(8_KiB)" + D, (1, 9, 21), "shard is not a clause of a decorator", "did you mean shared?"),
        ("@kernel grid[4]" + D, (1, 9, 16), "grid is not a clause", "use tile[...] and shared(...)"),
        ("@kernel tile[4] tile[5]" + D, (1, 17, 24), "tile is given twice", "keep one of them"),
        ("@kernel(tile=4) tile[5]" + D, (1, 17, 24), "tile is given twice", "keep one of them"),
        ("@a or b tile[4]" + D, (1, 9, 13), "'tile' means nothing here", "write @kernel tile"),
        ("@a or b @c" + D, (1, 9, 10), "'@' means nothing here", "write one decorator a line"),
        ("def f(8_KiB): ...", (1, 7, 12), "'8_KiB' means nothing here", "units of bytes are KiB, MiB, GiB"),
        ("f(8_KiB=1)", (1, 3, 8), "'8_KiB' means nothing here", "units of bytes"),
        ("8_KiB = 3", (1, 1, 6), "8_KiB is a number", "use a name"),
        ("(8_KiB := 3)", (1, 2, 7), "8_KiB is a number", "use a name"),
        ("import a.global", (1, 10, 16), "'global' means nothing here", "write cp_async.shared.global(dst, src)"),
        ("k[g, streem=s](x)", (1, 6, 12), "a launch takes one keyword, stream", "write k[grid, block, stream=s](...)"),
        ("k[stream=s, stream=t](x)", (1, 13, 21), "a launch takes one keyword", "write k[grid, block, stream=s]"),
        ("k[g, stream=](x)", (1, 6, 13), "stream= takes one stream, in a launch", "write k[grid, block, stream=s]"),
        ("k[g, stream=a:b](x)", (1, 6, 16), "stream= takes one stream", "write k[grid, block, stream=s]"),
        ("k[g, stream=s] = 1", (1, 6, 14), "stream= takes one stream", "write k[grid, block, stream=s]"),
    ],
)
def test_mistakes(text: str, place: tuple[int, int, int], message: str, hint: str):
    with pytest.raises(SyntaxMistake) as caught:
        parse(Source("<cell>", text))
    error = caught.value
    assert error.message.startswith(message)
    assert error.hint.startswith(hint)
    line, column, end_column = place
    assert (error.span.line, error.span.column) == (line, column)
    if "means nothing" not in message:
        assert error.span.end_column == end_column


def test_mistakes_name_the_line_of_the_cell():
    with pytest.raises(SyntaxMistake) as caught:
        parse(Source("<cell>", "\n@kernel tile(4)\ndef f(): ...", 1, "Cell In[2]"))
    assert str(caught.value) == (
        "TSR-E001 syntax error: tile takes the lanes of a group in brackets\n"
        "  --> Cell In[2], line 2, column 9\n"
        "   2 | @kernel tile(4)\n"
        "     |         ^^^^^^^\n"
        "  try: write tile[(128,)] or tile[(16, 16)]"
    )
