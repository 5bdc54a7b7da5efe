"""Expressions that simplify while they are built, without changing what they mean where it is defined."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.dtypes import bf16, boolean, f32, f64
from tessera.core.graph.expr import Argument, Expr, Literal, apply, to_text
from tessera.lowering.autodiff.algebra import (
    add,
    convert,
    div,
    literal,
    meet,
    mul,
    neg,
    renumbered,
    replaced,
    select,
    sub,
    wide,
)  # fmt: skip
from tessera.runtime.interpret.graph import evaluate_expr

X, Y = Argument(0, f64), Argument(1, f64)
C = Argument(2, boolean)
ZERO, ONE, TWO = (literal(n, f64) for n in (0, 1, 2))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (mul(ZERO, X), "0.0"), (mul(X, ONE), "x0"), (mul(X, literal(-1, f64)), "-x0"), (mul(TWO, TWO), "4.0"),
        (mul(TWO, mul(X, TWO)), "(4.0 * x0)"), (mul(neg(X), neg(Y)), "(x0 * x1)"), (mul(mul(TWO, X), mul(TWO, Y)), "(4.0 * (x0 * x1))"), (mul(X, div(ONE, Y)), "(x0 / x1)"),
        (mul(TWO, div(ONE, Y)), "(2.0 / x1)"), (mul(TWO, neg(X)), "(-2.0 * x0)"),
        (mul(X, select(C, Y, ZERO)), "select(x2, (x0 * x1), 0.0)"), (mul(select(C, ZERO, Y), X), "select(x2, 0.0, (x0 * x1))"),
        (mul(TWO, select(C, Y, ZERO)), "select(x2, (2.0 * x1), 0.0)"),
        (add(X, ZERO), "x0"), (add(ZERO, X), "x0"), (add(X, X), "(2.0 * x0)"), (add(X, neg(Y)), "(x0 - x1)"),
        (sub(X, ZERO), "x0"), (sub(ZERO, X), "-x0"), (sub(X, neg(Y)), "(x0 + x1)"), (sub(TWO, ONE), "1.0"),
        (div(ZERO, X), "0.0"), (div(X, ONE), "x0"), (div(ONE, TWO), "0.5"), (div(select(C, X, ZERO), Y), "select(x2, (x0 / x1), 0.0)"),
        (neg(neg(X)), "x0"), (neg(TWO), "-2.0"), (select(C, X, X), "x0"),
        (select(Literal(False, boolean), X, Y), "x1"), (select(C, select(C, X, Y), ZERO), "select(x2, x0, 0.0)"),
    ],
)  # fmt: skip
def test_what_becomes_of_it(expr: Expr, text: str):
    assert to_text(expr) == text


def test_numbers_are_rounded_to_their_type():
    assert literal(0.1, f32).value == float(np.float32(0.1))
    assert add(literal(0.1, f32), literal(0.2, f32)).value == float(np.float32(0.1) + np.float32(0.2))  # type: ignore[union-attr]
    assert div(ONE, ZERO) == Literal(math.inf, f64)


def test_the_wider_of_two_types():
    assert (wide(bf16), wide(f32), wide(f64)) == (f32, f32, f64)
    assert [each.dtype for each in meet(Argument(0, f32), X)] == [f64, f64]
    assert [each.dtype for each in meet(Argument(0, bf16), Argument(1, f32))] == [f32, f32]
    assert convert(Literal(2, bf16), f32) == literal(2, f32)


def test_replacing_simplifies_and_takes_the_outermost():
    e = apply("mul", apply("exp", X), Y)
    assert to_text(replaced(e, {Y: ONE})) == "exp(x0)"
    assert replaced(e, {e: X, Y: ONE}) == X
    assert to_text(renumbered(e, {0: 5, 1: 0})) == "(exp(x5) * x0)"


def exprs() -> st.SearchStrategy[tuple[Expr, Expr]]:
    """Draw an expression twice: built plainly, and simplified."""
    numbers = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5])
    leaf = st.one_of(st.sampled_from([(X, X), (Y, Y)]), numbers.map(lambda n: (Literal(n, f64), literal(n, f64))))

    def grown(children: st.SearchStrategy[tuple[Expr, Expr]]) -> st.SearchStrategy[tuple[Expr, Expr]]:
        rules = {"add": add, "sub": sub, "mul": mul}
        binary = st.tuples(st.sampled_from(sorted(rules)), children, children).map(
            lambda t: (apply(t[0], t[1][0], t[2][0]), rules[t[0]](t[1][1], t[2][1]))
        )
        chosen = st.tuples(children, children).map(
            lambda t: (apply("select", C, t[0][0], t[1][0]), select(C, t[0][1], t[1][1]))
        )
        return st.one_of(binary, chosen, children.map(lambda t: (apply("neg", t[0]), neg(t[1]))))

    return st.recursive(leaf, grown, max_leaves=12)


@given(exprs())
def test_the_same_values(both: tuple[Expr, Expr]):
    operands = [np.array([0.5, -1.25, 3.0]), np.array([2.0, 0.75, -0.5]), np.array([True, False, True])]
    plain, simple = (np.broadcast_to(evaluate_expr(each, operands), 3) for each in both)
    np.testing.assert_allclose(simple, plain, rtol=1e-12, atol=1e-12)
