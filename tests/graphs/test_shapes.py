"""Rules of shapes and dtypes that operators share."""

import pytest

from tessera.core.base.dtypes import bf16, f32, f64, fp8_e4m3, i32
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs.shapes import axes_of, flat, working


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


def test_extents_come_one_by_one_or_together():
    assert list(flat((2, 3))) == [2, 3]
    assert list(flat(([2, 3],))) == [2, 3]
