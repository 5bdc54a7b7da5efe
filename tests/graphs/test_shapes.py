"""Rules of shapes and dtypes that operators share."""

import numpy as np
import pytest

from tessera.core.base.dtypes import bf16, f32, f64, fp8_e4m3, i32
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs.shapes import axes_in_order, axes_of, axis_of, flat, working


@pytest.mark.parametrize(("dtype", "wide"), [(bf16, f32), (fp8_e4m3, f32), (f32, f32), (f64, f64), (i32, i32)])
def test_short_floats_are_computed_in_f32(dtype: object, wide: object):
    assert working(dtype) == wide  # pyright: ignore[reportArgumentType]


def test_axes_are_rising_numbers():
    assert axes_of(3, None) == (0, 1, 2)
    assert axes_of(3, -1) == (2,)
    assert axes_of(3, (2, 0)) == (0, 2)


@pytest.mark.parametrize("axis", [3, -4, (0, 0), (1, -2)])
def test_axes_that_are_not_there_or_named_twice_are_refused(axis: int | tuple[int, ...]):
    with pytest.raises(OperandMismatch):
        axes_of(3, axis)


def test_axes_in_the_order_in_which_they_are_named():
    assert axes_in_order(3, -1) == (2,)
    assert axes_in_order(3, (2, -3)) == (2, 0)
    assert axes_in_order(3, (0, 0), repeated=True) == (0, 0)
    with pytest.raises(OperandMismatch, match="names an axis twice"):
        axes_in_order(3, (0, -3))


def test_one_axis():
    assert (axis_of(3, -1), axis_of(3, 0)) == (2, 0)
    assert axis_of(2, np.int64(1)) == 1  # pyright: ignore[reportArgumentType]
    for several in (None, (0, 1), "F", 1.0):
        with pytest.raises(OperandMismatch, match="is not one axis"):
            axis_of(3, several)  # pyright: ignore[reportArgumentType]


def test_extents_come_one_by_one_or_together():
    assert list(flat((2, 3))) == [2, 3]
    assert list(flat(([2, 3],))) == [2, 3]
