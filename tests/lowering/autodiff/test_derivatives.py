"""Symbolic derivatives, opcode by opcode, and what they do where a function has none."""

import math

import numpy as np
import pytest

from support.gradients import check, graph_of, reals
from tessera.core.base.dtypes import bf16, boolean, f32, f64, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import OPCODES, Argument, Expr, Literal, apply, cast, to_text, walk
from tessera.core.graph.graph import Value
from tessera.core.program.spec import BINARY, UNARY
from tessera.lowering.autodiff.derivatives import derivative
from tessera.lowering.autodiff.reverse import grad
from tessera.runtime.interpret.graph import evaluate, evaluate_expr

X, Y, Z = (Argument(number, f64) for number in range(3))
POINTS = np.array([0.3, 0.7, 1.4, 2.2])
OTHERS = np.array([1.1, -0.6, 0.9, -1.7])
LOGIC = {"and", "or", "xor", "shl", "shr", "not", "mulhi"}


def value(expr: Expr, *operands: float | np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(evaluate_expr(expr, [np.asarray(operand, np.float64) for operand in operands]))


@pytest.mark.parametrize("opcode", [op for op in UNARY if op not in LOGIC])
def test_functions_of_one_operand(opcode: str):
    body = apply(opcode, X)
    h = 1e-6
    wanted = (value(body, POINTS + h) - value(body, POINTS - h)) / (2 * h)
    np.testing.assert_allclose(value(derivative(body, 0), POINTS), wanted, rtol=1e-7, atol=1e-9)
    chained = apply(opcode, apply("mul", X, X))
    wanted = (value(chained, POINTS + h) - value(chained, POINTS - h)) / (2 * h)
    np.testing.assert_allclose(value(derivative(chained, 0), POINTS), wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("opcode", [op for op in BINARY if op not in LOGIC])
def test_functions_of_two_operands(opcode: str):
    body = apply(opcode, X, Y)
    h = 1e-6
    for number, (dx, dy) in enumerate(((h, 0), (0, h))):
        wanted = (value(body, POINTS + dx, OTHERS + dy) - value(body, POINTS - dx, OTHERS - dy)) / (2 * h)
        np.testing.assert_allclose(value(derivative(body, number), POINTS, OTHERS), wanted, rtol=1e-7, atol=1e-9)


def test_fma_select_and_constant_exponents():
    bodies = [
        apply("fma", X, Y, apply("mul", X, Z)),
        apply("select", apply("cmp", X, Y, predicate="lt"), apply("mul", X, Z), apply("mul", Y, Y)),
        *(apply("pow", X, Literal(n, f64)) for n in (0.0, 1.0, 2.0, 3.0, -1.5)),
    ]
    h = 1e-6
    for body in bodies:
        for number in range(3):
            moves = np.eye(3)[number] * h
            ends = [
                value(body, *(p + s * m for p, m in zip((POINTS, OTHERS, POINTS), moves, strict=True))) for s in (1, -1)
            ]
            found = value(derivative(body, number), POINTS, OTHERS, POINTS)
            np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * h), rtol=1e-7, atol=1e-9)


def test_every_opcode_of_expressions_has_a_rule():
    for opcode in sorted(OPCODES - LOGIC - {"cmp", "select", "cast", "fma"}):
        operands = [X, Y] if opcode in BINARY else [X]
        assert derivative(apply(opcode, *operands), 0).dtype == f64


def test_derivatives_are_simple():
    assert to_text(derivative(apply("add", apply("mul", X, Y), Z), 0)) == "x1"
    assert to_text(derivative(apply("mul", X, X), 0)) == "(2.0 * x0)"
    assert to_text(derivative(apply("div", X, Y), 0)) == "(1.0 / x1)"
    assert to_text(derivative(apply("exp", X), 0)) == "exp(x0)"
    assert to_text(derivative(apply("pow", X, Literal(2, f64)), 0)) == "(2.0 * x0)"
    assert derivative(apply("mul", Y, Z), 0) == Literal(0.0, f64)
    assert derivative(apply("floor", X), 0) == Literal(0.0, f64)


def test_what_floats_become_integers_is_constant():
    back = cast(cast(X, i64), f64)
    assert derivative(apply("mul", back, X), 0) == back
    condition = cast(apply("cmp", X, Y, predicate="lt"), f64)
    assert derivative(condition, 0) == Literal(0.0, f64)


def test_conversions_between_floats_have_derivative_one_and_compute_wide():
    short = cast(apply("mul", cast(Argument(0, bf16), f32), Argument(1, f32)), bf16)
    assert derivative(short, 0) == Argument(1, f32)
    assert derivative(cast(Argument(0, f32), f64), 0).dtype == f64


def test_the_chosen_derivatives_where_there_is_none():
    for opcode in ("max", "min"):  # ties: the first
        assert value(derivative(apply(opcode, X, Y), 0), 1.5, 1.5) == 1
        assert value(derivative(apply(opcode, X, Y), 1), 1.5, 1.5) == 0
    assert value(derivative(apply("abs", X), 0), 0.0) == 0
    assert value(derivative(apply("sqrt", X), 0), 0.0) == math.inf
    assert value(derivative(apply("pow", X, Y), 0), 0.0, 0.0) == 0
    assert value(derivative(apply("pow", X, Y), 1), 0.0, 2.0) == 0


@pytest.mark.parametrize("opcode", ["sqrt", "log", "rsqrt", "log2"])
def test_a_guard_in_the_same_expression_keeps_infinities_out(opcode: str):
    positive = apply("cmp", X, Literal(0.0, f64), predicate="gt")
    body = apply("mul", apply("select", positive, apply(opcode, X), Literal(0.0, f64)), Y)
    found = value(derivative(body, 0), np.array([0.0, -1.0, 2.0]), 3.0)
    assert found[0] == found[1] == 0
    assert np.isfinite(found[2])


def _guarded(b: GraphBuilder, x: Value, opcode: str) -> Value:
    """Return sum(where(x > 0, opcode(2 x), 0)), one node a step."""
    zero, y = b.full(0.0, f64, x.type.shape), b.unary(opcode, b.scaled(x, 2.0))
    positive = b.elementwise(apply("cmp", Argument(0, f64), Argument(1, f64), predicate="gt"), [x, zero])
    body = apply("select", Argument(0, boolean), Argument(1, f64), Argument(2, f64))
    return b.reduce(b.elementwise(body, [positive, y, zero]), (0,))


@pytest.mark.parametrize("opcode", ["sqrt", "log", "rsqrt", "log2", "exp"])
def test_a_guard_in_another_node_keeps_infinities_out(opcode: str):
    graph = graph_of(lambda b, x: _guarded(b, x, opcode), reals(4))
    inputs = [np.array([0.0, -1.0, 0.5, 2.0])] if opcode != "exp" else [np.array([-1e5, -1.0, 0.5, 2.0])]
    (found,) = evaluate(grad(graph, (0,)), inputs)
    assert np.isfinite(found).all()
    assert found[0] == found[1] == 0
    check(graph, [np.array([-0.5, -1.0, 0.5, 2.0])])


def test_expressions_are_shared_not_copied():
    body: Expr = X
    for _ in range(60):
        body = apply("mul", apply("tanh", body), body)
    assert sum(1 for _ in walk(derivative(body, 0))) < 1000
