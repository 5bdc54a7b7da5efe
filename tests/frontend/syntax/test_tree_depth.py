"""Long chains of operators: Python compiles them, they mean what they meant, and kernels are built from them."""

import ast

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.tree_depth import STEP, cut_chains, left_chain


def function(text: str) -> ast.FunctionDef:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    return node


def run(node: ast.FunctionDef, name: str, *args: object) -> object:
    names: dict[str, object] = {}
    exec(compile(ast.Module([node], []), "<test>", "exec"), names)
    return names[name](*args)  # type: ignore[operator]


def deepest(node: ast.AST) -> int:
    depth, level = 0, [node]
    while level:
        depth, level = depth + 1, [child for parent in level for child in ast.iter_child_nodes(parent)]
    return depth


@pytest.mark.parametrize("terms", [STEP - 1, STEP, STEP + 1, 2 * STEP, 2 * STEP + 1, 1900])
def test_a_chain_computes_what_it_did(terms: int):
    text = "def f(x):\n    return x" + "".join(f" - {n} * x" if n % 3 else f" + {n}" for n in range(terms)) + "\n"
    plain, cut = function(text), function(text)
    cut_chains(cut)
    assert deepest(cut) < STEP + 20
    if terms < 900:
        assert run(plain, "f", 7) == run(cut, "f", 7)
    assert run(cut, "f", 7) == 7 + sum(-n * 7 if n % 3 else n for n in range(terms))


def test_short_chains_are_left_alone():
    node = function("def f(x):\n    return (x + 1) * x - 3\n")
    before = ast.dump(node)
    cut_chains(node)
    assert ast.dump(node) == before


def test_scopes_of_their_own_are_left_alone():
    long = "x" + " + 1" * 2 * STEP
    node = function(f"def f(x):\n    return [v for v in ({long},)]\n")
    cut_chains(node)
    assert run(node, "f", 1) == [2 * STEP + 1]


def test_operators_come_in_the_order_they_are_computed():
    (statement,) = ast.parse("a + b * c - d").body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.BinOp)
    assert [type(op.op) for op in left_chain(statement.value)] == [ast.Add, ast.Sub]


def test_deep_nesting_is_a_mistake_with_a_place():
    x = np.ones(4, np.float32)
    inner = "x[i] if i > 1 else " * 300 + "x[i]"
    text = f"@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    i = tile.linear_id()\n    y[i] = {inner}\n"
    with pytest.raises(SyntaxMistake, match="nested too deeply") as caught:
        tessera.compile_source(text).k(x, x.copy())
    assert caught.value.span.line == 4
    assert caught.value.hint == "give the inner part a name"
