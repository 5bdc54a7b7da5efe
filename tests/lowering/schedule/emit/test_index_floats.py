"""Indices become floats before they are combined, where no bit changes by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply, cast, to_text
from tessera.lowering.schedule.emit.index_floats import convert_first
from tessera.runtime.interpret.graph import evaluate

X, Y = Argument(0, i64), Argument(1, i64)


def test_a_distance_is_that_of_floats():
    made = convert_first(cast(apply("sub", Y, X), f32), {0: (0, 4), 1: (0, 6)})
    assert to_text(made, ("i", "j")) == "(f32(j) - f32(i))"


@pytest.mark.parametrize(("dtype", "most"), [(bf16, 2**8), (f16, 2**11), (f32, 2**24), (f64, 2**53)])
def test_what_is_no_float_stays_an_integer(dtype: DType, most: int):
    """Beside the largest integer of so many bits, the next one is rounded."""
    body = cast(apply("add", X, Y), dtype)
    assert convert_first(body, {0: (0, most - 1), 1: (0, 1)}) != body
    assert convert_first(body, {0: (0, most), 1: (0, 1)}) == body


def test_products_and_what_is_not_known_stay():
    """0 times a negative float is -0, which no integer is."""
    negative = apply("sub", Y, Literal(9, i64))
    assert convert_first(cast(apply("mul", X, negative), f32), {0: (0, 3), 1: (0, 3)}) == cast(
        apply("mul", X, negative), f32
    )
    assert convert_first(cast(apply("sub", X, Y), f32), {0: (0, 3)}) == cast(apply("sub", X, Y), f32)


@st.composite
def bodies(draw: st.DrawFn) -> Expr:
    leaf = st.sampled_from([X, Y]) | st.integers(-50, 50).map(lambda n: Literal(n, i64))
    return draw(
        st.recursive(
            leaf,
            lambda inner: st.tuples(st.sampled_from(["add", "sub", "min", "max", "mul"]), inner, inner).map(
                lambda parts: apply(parts[0], parts[1], parts[2])
            ),
            max_leaves=5,
        )
    )


def matrix(body: Expr, rows: int, columns: int) -> np.ndarray:
    """What an expression gives for each row and column."""
    build = GraphBuilder()
    made = build.map(body, [build.iota(rows), build.iota(columns)], ((0,), (1,)), (rows, columns))
    (found,) = evaluate(build.finish("g", [], [made]), [])
    return np.asarray(found)


@given(bodies(), st.integers(1, 9), st.integers(1, 9), st.sampled_from([f16, bf16, f32, f64]))
def test_any_expression_keeps_its_bits(body: Expr, rows: int, columns: int, dtype: DType):
    whole = apply("mul", cast(body, dtype), Literal(2.0, dtype))
    converted = convert_first(whole, {0: (0, rows - 1), 1: (0, columns - 1)})
    with np.errstate(over="ignore"):
        wanted, found = matrix(whole, rows, columns), matrix(converted, rows, columns)
    assert wanted.tobytes() == found.tobytes()
