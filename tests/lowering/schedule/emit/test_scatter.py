"""Sums by index: in index order, without what lies outside."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of
from support.graphs import assert_same_bits, check, run
from tessera.core.base.dtypes import DType, f32, f64, i32, i64
from tessera.runtime.interpret.graph import evaluate

short = st.lists(st.integers(1, 4), max_size=2).map(tuple)


@pytest.mark.parametrize("dtype", [f32, f64, i32, i64])
@settings(max_examples=8)
@given(before=short, index=short, after=short, extent=st.integers(1, 5))
def test_sums_by_index(
    dtype: DType, before: tuple[int, ...], index: tuple[int, ...], after: tuple[int, ...], extent: int
):
    """Indices are -3 to 3: some of them lie outside."""
    values = (*before, *index, *after)
    built = graph_of(lambda b, x, i: b.scatter_add(i, x, extent, len(before)), (dtype, values), (i64, index))
    check(built, targets=("interpret",))


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_equal_indices_are_added_in_order(target: str):
    """1e8 + 1 - 1e8 is 0 in f32, in this order alone."""
    built = graph_of(lambda b, x, i: b.scatter_add(i, x, 3), (f32, (4,)), (i32, (4,)))
    arrays = [np.array([1e8, 1.0, -1e8, 7.0], np.float32), np.array([1, 1, 1, 9], np.int32)]
    (found,) = run(built, arrays, target)
    assert_same_bits(found, np.zeros(3, np.float32))
    assert_same_bits(found, evaluate(built, arrays)[0])


def test_rows_of_a_table():
    check(graph_of(lambda b, x, i: b.scatter_add(i, x, 5), (f32, (6, 3)), (i64, (6,))))
