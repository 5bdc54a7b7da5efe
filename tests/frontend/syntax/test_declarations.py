"""Declarations with an @ bind their name anew."""

import ast

import pytest

from tessera.frontend.syntax.declarations import STORE, store_declared


def rewritten(text: str) -> ast.Module:
    tree = ast.parse(text)
    store_declared(tree)
    return tree


def test_a_declaration():
    tree = rewritten('a = 1\nx: T["B", fp6 @accum(fp32)]\nb = 2\n')
    assert ast.unparse(tree.body[2]) == f"if 'x' in globals():\n    x = {STORE}(x, __annotations__['x'], 'x')"
    assert {node.lineno for node in ast.walk(tree.body[2]) if isinstance(node, ast.stmt | ast.expr)} == {2}
    compile(tree, "cell", "exec")


@pytest.mark.parametrize(
    "text",
    [
        "x: f32",
        "x: 'a @ b'",
        "(x): a @ b",
        "x.y: a @ b",
        "x[0]: a @ b",
        "def f(x: a @ b):\n    y: a @ b",
        "class C:\n    x: a @ b",
    ],
)
def test_what_stays(text: str):
    assert ast.dump(rewritten(text)) == ast.dump(ast.parse(text))


def test_a_declaration_with_a_value():
    assert len(rewritten("x: a @ b = 3").body) == 2
