"""Indices become floats before they are combined, where no bit changes by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.gradients import graph_of
from support.graphs import assert_same_bits
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.verify import verify
from tessera.lowering.graph.convert_indices import convert_indices
from tessera.runtime.interpret.graph import evaluate

X, Y = Argument(0, i64), Argument(1, i64)


def combined(body: Expr, rows: int, columns: int, dtype: DType, start: int = 0) -> Graph:
    """A matrix of what `body` makes of the row and the column, as floats, times 2."""
    build = GraphBuilder()
    made = _combined(build, body, (rows, columns), dtype, start)
    return build.finish("g", [], [made])


def _combined(build: GraphBuilder, body: Expr, shape: tuple[int, int], dtype: DType, start: int) -> Value:
    rows, columns = shape
    places = [build.iota(rows), build.iota(columns)]
    if start:
        shift = build.full(start, i64, (rows,))
        places[0] = build.binary("add", places[0], shift)
    made = build.cast(build.map(body, places, ((0,), (1,)), shape), dtype)
    return build.binary("mul", made, build.full(2.0, dtype, shape))


def conversions(built: Graph) -> list[tuple[int, ...]]:
    """The shapes that are converted to floats."""
    return [
        node.result.type.shape for node in built.nodes
        if node.op == "map" and "cast" in str(node.expr) and node.result.type.dtype.is_float
    ]  # fmt: skip


def agree(built: Graph) -> Graph:
    made = convert_indices(built)
    verify(made)
    for found, wanted in zip(evaluate(made, []), evaluate(built, []), strict=True):
        assert_same_bits(found, wanted)
    return made


def test_a_distance_is_that_of_floats():
    made = agree(combined(apply("sub", Y, X), 5, 7, f32))
    assert conversions(made) == [(5,), (7,)]


@pytest.mark.parametrize(("dtype", "most"), [(bf16, 2**8), (f16, 2**11), (f32, 2**24)])
def test_what_is_no_float_stays_an_integer(dtype: DType, most: int):
    """Beside the largest integer of so many bits, the next one is rounded."""
    body = apply("add", X, Y)
    assert conversions(agree(combined(body, 2, 2, dtype, start=most - 2))) == [(2,), (2,)]
    assert conversions(agree(combined(body, 2, 2, dtype, start=most - 1))) == [(2, 2)]


def test_products_stay():
    """0 times a negative float is -0, which no integer is."""
    body = apply("mul", X, apply("sub", Y, Literal(9, i64)))
    assert conversions(agree(combined(body, 3, 3, f32))) == [(3, 3)]


def test_inputs_may_be_any_integers():
    def difference(build: GraphBuilder, x: Value, y: Value) -> Value:
        made = build.cast(build.map(apply("sub", X, Y), [x, y], ((0,), (1,)), (3, 4)), f32)
        return build.binary("mul", made, made)

    built = graph_of(difference, (i64, (3,)), (i64, (4,)))
    assert convert_indices(built) is built


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


@given(bodies(), st.integers(1, 9), st.integers(1, 9), st.sampled_from([f16, bf16, f32, f64]), st.integers(-300, 300))
def test_any_expression_keeps_its_bits(body: Expr, rows: int, columns: int, dtype: DType, start: int):
    with np.errstate(over="ignore"):
        agree(combined(body, rows, columns, dtype, start))
