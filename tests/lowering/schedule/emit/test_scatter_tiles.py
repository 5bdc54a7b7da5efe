"""Sums by index as tiles of columns, for targets without lanes."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from support.gradients import graph_of
from support.graphs import check, only, planned
from tessera.core.base.dtypes import DType, f16, f32, i32, i64
from tessera.core.targets import TARGETS
from tessera.lowering.schedule.emit.scatter_tiles import scatter_shapes


@pytest.fixture(autouse=True, scope="module")
def without_lanes() -> Iterator[None]:
    """Compile for the CPU and the interpreter as for a machine without lanes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("interpret", "cpu"):
            patch.setitem(TARGETS, name, replace(TARGETS[name], lanes=False))
        yield


@pytest.mark.parametrize("dtype", [f32, i32])
@pytest.mark.parametrize(("shape", "axis", "rows"), [((6,), 0, 4), ((6, 7), 0, 3), ((3, 6, 5), 1, 9), ((2, 6), 1, 4)])
def test_sums(dtype: DType, shape: tuple[int, ...], axis: int, rows: int):
    """Indices are -3 to 3: some are met several times, and some lie outside."""
    check(graph_of(lambda b, i, v: b.scatter_add(i, v, rows, axis), (i64, shape[axis : axis + 1]), (dtype, shape)))


def test_indices_of_two_axes():
    check(graph_of(lambda b, i, v: b.scatter_add(i, v, 5), (i32, (2, 3)), (f32, (2, 3, 4))))


def test_many_columns():
    check(graph_of(lambda b, i, v: b.scatter_add(i, v, 3), (i64, (4,)), (f32, (4, 1500))))


def test_the_order_is_that_of_the_indices():
    """In f16 large numbers swallow small ones, or do not, as they come."""
    built = graph_of(lambda b, i, v: b.scatter_add(i, v, 2), (i64, (6,)), (f16, (6, 1)))
    values = np.array([[2048], [1], [1], [1], [1], [-2048]], np.float16)
    check(built, [np.zeros(6, np.int64), values])


def test_nothing_is_picked():
    check(graph_of(lambda b, i, v: b.scatter_add(i, v, 3), (i64, (0,)), (f32, (0, 4))))


def test_shapes():
    plan = planned(lambda b, i, v: b.scatter_add(i, v, 9, 1), (i64, (6,)), (f32, (3, 6, 5)))
    (node,) = only(plan).members
    assert list(scatter_shapes(node).values()) == [(6,), (3, 6, 5), (3, 9, 5)]
