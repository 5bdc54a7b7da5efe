"""Loads and stores of tiles in registers: every dtype, alignment and edge, bit for bit."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lowering.cuda.cases import DTYPES, Box, Maker, boxes, in_registers, is_wide, numbers, poison
from support.simulate import compile_ptx, ptx_of
from tessera.core.base.dtypes import DType, bf16, f32, f64, u8
from tessera.core.program.program import Program


def moved(dtype: DType, source: Box, target: Box, wide: tuple[bool, bool]) -> Program:
    """out[window] = x[window]"""
    b = Maker("moved")
    x = b.matrix("x", dtype, *source.shape, wide=wide[0])
    out = b.matrix("out", dtype, *target.shape, wide=wide[1], mutable=True)
    tile = b.load(x, [b.const(s) for s in source.starts], source.extents)
    b.store(out, tile, [b.const(s) for s in target.starts], target.extents)
    return b.program()


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(DTYPES), boxes(), st.data())
def test_windows(dtype: DType, source: Box, data: st.DataObject):
    shape = tuple(data.draw(st.sampled_from([e, e + 5, 16 * e])) for e in source.extents)
    target = Box(shape, tuple(data.draw(st.sampled_from([0, 0, 2, 16])) for _ in shape), source.extents)
    wide = (is_wide(dtype, source.shape), is_wide(dtype, target.shape))
    program = moved(dtype, source, target, wide)
    in_registers(program, [numbers(dtype, *source.shape), poison(dtype, *target.shape)])


@pytest.mark.parametrize(
    ("dtype", "columns", "start", "load"),
    [
        (f32, 256, 0, "ld.global.v4.b32"), (f32, 256, 2, "ld.global.v2.b32"), (f32, 256, 1, "ld.global.b32"),
        (bf16, 256, 0, "ld.global.v4.b32"), (bf16, 256, 1, "ld.global.b16"), (f64, 128, 0, "ld.global.v4.b32"),
        (u8, 512, 0, "ld.global.v4.b32"), (u8, 512, 3, "ld.global.u8"),
    ],
    ids=str,
)  # fmt: skip
def test_the_widest_access_that_alignment_allows(dtype: DType, columns: int, start: int, load: str):
    """At an edge, where each access has a predicate and no branch."""
    b = Maker("wide")
    x = b.matrix("x", dtype, "m", "n", wide=True)
    out = b.matrix("out", dtype, "m", "n", wide=True, mutable=True)
    where = [b.const(0), b.const(start)]
    b.store(out, b.load(x, where, [2, columns]), where, [2, columns])
    text = ptx_of(compile_ptx(b.program()))
    found = set(re.findall(r"@%?\w+ (ld\.global\S*)", text))
    assert found == {load}
    assert "bra" not in text


def test_a_tile_that_ends_inside_a_vector():
    """31 of 64 elements: the 32nd must neither be read into a sum nor written."""
    b = Maker("inside")
    x, out = b.matrix("x", f32, 2, 64, wide=True), b.matrix("out", f32, 2, 64, wide=True, mutable=True)
    zero = b.const(0)
    b.store(out, b.load(x, [zero, zero], [2, 31]), [zero, zero], [2, 31])
    in_registers(b.program(), [numbers(f32, 2, 64), poison(f32, 2, 64)])


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(DTYPES), st.integers(1, 40), st.integers(1, 40), st.integers(0, 1))
@example(f32, 32, 32, 1)
def test_axes_that_a_tile_lacks(dtype: DType, rows: int, columns: int, axis: int):
    """A row, or a column, of a matrix."""
    b = Maker("line")
    x = b.matrix("x", dtype, rows, columns, wide=is_wide(dtype, (rows, columns)))
    length = (columns, rows)[axis]
    out = b.matrix("out", dtype, length, mutable=True)
    extents = [1, columns] if axis == 0 else [rows, 1]
    starts = [b.const(rows // 2), b.const(0)] if axis == 0 else [b.const(0), b.const(columns // 2)]
    b.store(out, b.load(x, starts, extents, dropped=(axis,) if axis == 0 else (1,)), [b.const(0)], [length])
    in_registers(b.program(), [numbers(dtype, rows, columns), poison(dtype, length)])


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([f32, bf16, u8]), st.integers(1, 30), st.integers(1, 30))
def test_arrays_with_strides(dtype: DType, rows: int, columns: int):
    b = Maker("strides")
    x = b.matrix("x", dtype, "m", "n", contiguous=False)
    out = b.matrix("out", dtype, "m", "n", contiguous=False, mutable=True)
    zero = b.const(0)
    b.store(out, b.load(x, [zero, zero], [rows, columns]), [zero, zero], [rows, columns])
    whole, target = numbers(dtype, 3 * rows, columns + 2), poison(dtype, columns + 1, rows)
    in_registers(b.program(), [whole[::3, 1 : columns + 1], target.T[:, 1:]])


@pytest.mark.parametrize("distance", [0, 1, 4, -3])
def test_in_place(distance: int):
    """Another lane's element is read before it is written, and read again after it was."""
    b = Maker("place")
    y = b.matrix("y", f32, "n", mutable=True)
    start = b.const(distance)
    for _ in range(3):
        tile = b.load(y, [start], [300])
        b.store(y, b.value("add", tile, tile), [b.const(0)], [300])
    in_registers(b.program(), [numbers(f32, 290)])


def test_what_is_outside_is_zero():
    b = Maker("outside")
    x, out = b.matrix("x", f32, 3, 5), b.matrix("out", f32, 4, 8, mutable=True)
    zero = b.const(0)
    b.store(out, b.load(x, [b.const(1), b.const(2)], [4, 8]), [zero, zero], [4, 8])
    values, result = numbers(f32, 3, 5), np.full((4, 8), 7, np.float32)
    in_registers(b.program(), [values, result])
