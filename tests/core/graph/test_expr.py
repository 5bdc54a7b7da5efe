"""Scalar expressions: what may be built, how they are walked, folded, substituted and printed."""

import math
import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i32
from tessera.core.graph.expr import (
    OPCODES,
    Apply,
    Argument,
    Expr,
    Literal,
    apply,
    arguments,
    cast,
    fold,
    substitute,
    to_text,
    walk,
)

X, Y = Argument(0, f32), Argument(1, f32)


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    """Arithmetic on two arguments and small numbers."""
    leaves = st.sampled_from((X, Y)) | st.integers(-3, 3).map(lambda n: Literal(float(n), f32))
    return draw(
        st.recursive(
            leaves,
            lambda inner: (
                st.builds(apply, st.sampled_from(("add", "sub", "mul", "max")), inner, inner)
                | st.builds(lambda each: apply("neg", each), inner)
            ),
            max_leaves=12,
        )
    )


def negated(x: float) -> float:
    return -x


def value(expr: Expr, x: float, y: float) -> float:
    """Evaluate by Python's own arithmetic."""
    rules: dict[str, Callable[..., float]] = {
        "add": operator.add, "sub": operator.sub, "mul": operator.mul, "max": max, "neg": negated,
    }  # fmt: skip

    def node(each: Apply, *operands: float) -> float:
        return rules[each.opcode](*operands)

    result = fold(
        expr,
        lambda leaf: leaf.value if isinstance(leaf, Literal) else (x, y)[leaf.number],
        node,
    )
    assert isinstance(result, int | float)
    return result


def test_an_operation_has_the_dtype_of_its_operands():
    assert apply("add", X, Y).dtype == f32
    assert apply("cmp", X, Y, predicate="lt").dtype == boolean
    assert apply("select", apply("cmp", X, Y, predicate="lt"), X, Y).dtype == f32


@pytest.mark.parametrize(
    ("opcode", "operands", "predicate", "message"),
    [
        ("frob", (X,), "", "frob is no operation"),
        ("cast", (X,), "", "cast is no operation"),
        ("cmp", (X, Y), "like", "cmp has no predicate 'like'"),
        ("cmp", (X, Y), "", "cmp has no predicate ''"),
        ("add", (X, Argument(1, i32)), "", "add of f32, i32"),
        ("select", (X, X, Y), "", "the condition of select is f32, not bool"),
        ("select", (Argument(0, boolean), X, Argument(1, i32)), "", "select of bool, f32, i32"),
    ],
)
def test_what_cannot_be_applied(opcode: str, operands: tuple[Expr, ...], predicate: str, message: str):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        apply(opcode, *operands, predicate=predicate)


def test_casts_to_the_dtype_that_is_there_are_none():
    assert cast(X, f32) is X
    assert cast(X, f16) == Apply("cast", (X,), f16)


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_zeros_are_two_literals_and_a_nan_is_one(dtype: DType):
    assert Literal(0.0, dtype) != Literal(-0.0, dtype)
    assert Literal(math.nan, dtype) == Literal(math.nan, dtype)
    assert hash(Literal(math.nan, dtype)) == hash(Literal(math.nan, dtype))
    assert Literal(1, i32) != Literal(1, f32) != Literal(1.0, dtype) or dtype == f32
    assert Literal(True, boolean) != Literal(1, boolean)


@given(expressions(), expressions())
def test_equal_trees_are_equal_keys(one: Expr, other: Expr):
    def node(each: Apply, *parts: Expr) -> Expr:
        return Apply(each.opcode, parts, each.dtype, each.predicate)

    again = fold(one, lambda leaf: leaf, node)
    assert again == one
    assert hash(again) == hash(one)
    assert (to_text(one) == to_text(other)) == (one == other)


@given(expressions())
def test_operands_are_walked_before_what_is_made_of_them(expr: Expr):
    order = list(walk(expr))
    assert len(set(order)) == len(order)
    assert order[-1] == expr
    for place, each in enumerate(order):
        if isinstance(each, Apply):
            assert all(operand in order[:place] for operand in each.operands)


def test_deep_expressions_are_walked_without_recursion():
    expr: Expr = X
    for _ in range(5000):
        expr = apply("neg", expr)
    assert sum(1 for _ in walk(expr)) == 5001


def test_shared_parts_are_folded_once():
    expr: Expr = X
    for _ in range(60):
        expr = apply("add", expr, expr)
    assert fold(expr, lambda _: 1, lambda _, a, b: a + b) == 2**60


@given(expressions())
def test_arguments_are_those_of_the_leaves(expr: Expr):
    assert arguments(expr) == tuple(sorted({each.number for each in walk(expr) if isinstance(each, Argument)}))
    assert arguments(Literal(1.0, f32)) == ()


@given(expressions(), st.integers(-5, 5), st.integers(-5, 5))
def test_text_is_python(expr: Expr, x: int, y: int):
    """With numbers for names, Python computes the same of the text."""
    text = to_text(expr, [f"({x}.0)", f"({y}.0)"])
    assert eval(text, {"max": max}) == value(expr, x, y)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (apply("cmp", X, Literal(0.0, f32), predicate="ge"), "(x0 >= 0.0)"),
        (cast(apply("mul", X, Y), bf16), "bf16((x0 * x1))"),
        (apply("fma", X, Y, Literal(-0.0, f32)), "fma(x0, x1, -0.0)"),
        (apply("neg", apply("exp", X)), "-exp(x0)"),
        (apply("floordiv", Argument(0, i32), Literal(3, i32)), "(x0 // 3)"),
        (Literal(0.1, f32), "0.1"),
        (Literal(1e300, f32), "1e+300"),
        (Literal(math.inf, f32), "inf"),
        (Literal(True, boolean), "True"),
        (apply("shl", Argument(0, i32), Argument(12, i32)), "(x0 << x12)"),
    ],
)
def test_text(expr: Expr, text: str):
    assert to_text(expr) == text


@given(expressions(), expressions(), st.integers(-3, 3), st.integers(-3, 3))
def test_substitution_is_composition(outer: Expr, inner: Expr, x: int, y: int):
    assert value(substitute(outer, {1: inner}), x, y) == value(outer, x, value(inner, x, y))
    assert substitute(outer, {}) == outer


def test_text_with_names_for_some():
    assert to_text(apply("add", X, Y), ["%a"]) == "(%a + x1)"


def test_every_operation_is_one_of_programs():
    assert {"add", "exp", "fma", "cmp", "select", "cast"} <= OPCODES
    assert not {"load", "dot", "reduce"} & OPCODES


def test_long_expressions_are_counted_and_told_apart():
    """Shared operations count as often as they would be written."""
    x = Argument(0, f32)
    body: Expr = x
    for _ in range(6):
        body = apply("mul", body, body)
    assert to_text(body).startswith("((((((x0 * x0)")
    longer = apply("mul", body, body)
    other = apply("mul", body, apply("add", body, body))
    assert to_text(longer).startswith("7 operations of x0 (#")
    assert to_text(longer, ["%y"]).startswith("7 operations of %y (#")
    assert to_text(longer).partition("#")[2] != to_text(other).partition("#")[2]


def test_shared_parts_are_compared_once():
    """As trees these have 2^300 parts."""

    def deep(number: float) -> Expr:
        expr = apply("add", Argument(0, f32), Literal(number, f32))
        for _ in range(300):
            expr = apply("add", expr, expr)
        return expr

    assert deep(1.0) == deep(1.0)
    assert deep(1.0) != deep(2.0)
    assert len(list(walk(deep(1.0)))) == len(list(walk(deep(1.0)))) == 303
    assert {deep(1.0): 1}[deep(1.0)] == 1


@pytest.mark.parametrize("other", [
    apply("sub", Argument(0, f32), Argument(1, f32)), apply("add", Argument(1, f32), Argument(0, f32)),
    apply("add", Argument(0, f64), Argument(1, f64)), Argument(0, f32), "x0 + x1",
])  # fmt: skip
def test_other_expressions(other: object):
    assert apply("add", Argument(0, f32), Argument(1, f32)) != other
    assert apply("cmp", *(Argument(0, f32),) * 2, predicate="lt") != apply(
        "cmp", *(Argument(0, f32),) * 2, predicate="le"
    )
