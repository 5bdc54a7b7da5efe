"""Reductions that are added while they are read: the same bits, whatever the length."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.cuda.cases import Maker, in_registers, is_wide, numbers, plan_of, poison
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i8, i32
from tessera.core.program.program import Program


def columns(
    dtype: DType, kind: str, shape: tuple[int, ...], axis: int, wide: DType | None = None, more: int = 0
) -> Program:
    """out = x.kind(axis), of elements cast to `wide`, from an array that lacks `more` of the rows"""
    b = Maker("columns")
    stored = tuple(extent - more if a == axis else extent for a, extent in enumerate(shape))
    x = b.matrix("x", dtype, *stored, wide=is_wide(dtype, stored))
    left = (*shape[:axis], *shape[axis + 1 :])
    out = b.matrix("out", wide or dtype, *left, mutable=True, wide=is_wide(wide or dtype, left))
    tile = b.load(x, [b.const(0)] * len(shape), shape)
    tile = b.cast(tile, wide) if wide is not None else tile
    b.store(out, b.reduce(tile, kind, axis), [b.const(0)] * len(left), left)
    return b.program()


def check(dtype: DType, kind: str, shape: tuple[int, ...], axis: int, wide: DType | None = None, more: int = 0) -> None:
    program = columns(dtype, kind, shape, axis, wide, more)
    plan, _ = plan_of(program)
    assert plan is not None
    assert len(plan.streams) == 1
    left = (*shape[:axis], *shape[axis + 1 :])
    stored = tuple(extent - more if a == axis else extent for a, extent in enumerate(shape))
    in_registers(program, [numbers(dtype, *stored), poison(wide or dtype, *left)])


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from([f32, bf16, f16, f64, i32, i8]), st.sampled_from(["sum", "max", "min"]), st.integers(129, 900),
    st.integers(1, 40),
)  # fmt: skip
def test_columns(dtype: DType, kind: str, rows: int, width: int):
    check(dtype, kind, (rows, width), 0)


@pytest.mark.parametrize(
    ("dtype", "shape", "axis", "wide"),
    [
        (f32, (4096, 8), 0, None), (f32, (4097, 8), 0, None), (f32, (12500, 4), 0, None), (f32, (2, 700, 5), 1, None),
        (bf16, (5000, 8), 0, f32), (f32, (300, 3, 4), 0, None), (i8, (8192, 16), 0, i32), (f32, (256, 200), 0, None),
    ],
    ids=str,
)  # fmt: skip
def test_blocks_of_4096(dtype: DType, shape: tuple[int, ...], axis: int, wide: DType | None):
    check(dtype, "sum", shape, axis, wide)


def test_rows_outside_the_array_add_nothing():
    check(f32, "sum", (700, 8), 0, more=100)


def test_what_somebody_else_reads_stays_whole():
    b = Maker("shared")
    x, out = b.matrix("x", f32, 256, 8), b.matrix("out", f32, 256, 8, mutable=True)
    zero = [b.const(0), b.const(0)]
    tile = b.load(x, zero, [256, 8])
    total = b.broadcast(b.reshape(b.reduce(tile, "sum", 0), 1, 8), 256, 8)
    b.store(out, b.value("sub", tile, total), zero, [256, 8])
    plan, _ = plan_of(b.program())
    assert plan is not None
    assert not plan.streams
    in_registers(b.program(), [numbers(f32, 256, 8), poison(f32, 256, 8)])


def test_an_array_that_the_kernel_writes_is_read_in_its_place():
    """Between the load and the reduction, the array changes."""
    b = Maker("changed")
    x, out = b.matrix("x", f32, 256, 8, mutable=True), b.matrix("out", f32, 8, mutable=True)
    zero = b.const(0)
    tile = b.load(x, [zero, zero], [256, 8])
    b.store(x, b.full(b.const(1.0, f32), 256, 8), [zero, zero], [256, 8])
    b.store(out, b.reduce(tile, "sum", 0), [zero], [8])
    plan, _ = plan_of(b.program())
    assert plan is not None
    assert not plan.streams
    in_registers(b.program(), [numbers(f32, 256, 8), poison(f32, 8)])
