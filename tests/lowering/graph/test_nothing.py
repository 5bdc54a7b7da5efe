"""Sums and extremes of nothing."""

import numpy as np
import pytest

from tessera.core.base.dtypes import DType, boolean, f32, i32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Literal
from tessera.core.graph.graph import Tensor, Value
from tessera.lowering.graph.nothing import constant_of


@pytest.mark.parametrize(
    ("kind", "dtype", "number"),
    [
        ("sum", f32, -0.0), ("max", f32, -np.inf), ("min", f32, np.inf), ("sum", i32, 0), ("max", i32, -(2**31)),
        ("min", i32, 2**31 - 1), ("max", boolean, 0), ("min", boolean, 1),
    ],
)  # fmt: skip
def test_reductions_of_nothing_are_numbers(kind: str, dtype: DType, number: float):
    builder = GraphBuilder()
    builder.reduce(Value(Tensor(dtype, (3, 0)), "x"), (1,), kind)
    assert constant_of(builder.nodes[-1]) == Literal(number, dtype)


@pytest.mark.parametrize(("m", "k", "n"), [(2, 0, 3), (0, 3, 2), (2, 3, 0)])
def test_products_of_nothing_are_zeros(m: int, k: int, n: int):
    builder = GraphBuilder()
    a, b = Value(Tensor(f32, (m, k)), "a"), Value(Tensor(f32, (k, n)), "b")
    builder.contract(a, b, ((0, 2), (2, 1)), (0, 1))
    assert constant_of(builder.nodes[-1]) == Literal(0.0, f32)


def test_everything_else_is_computed():
    builder = GraphBuilder()
    x = Value(Tensor(f32, (3, 2)), "x")
    builder.reduce(x, (1,), "sum")
    builder.unary("exp", x)
    builder.reduce(Value(Tensor(f32, (0, 3)), "y"), (1,), "sum")
    assert [constant_of(node) for node in builder.nodes] == [None, None, None]


def test_no_sums_of_nothing_are_a_number_too():
    builder = GraphBuilder()
    builder.reduce(Value(Tensor(f32, (0, 0)), "x"), (1,), "sum")
    assert constant_of(builder.nodes[-1]) == Literal(-0.0, f32)
