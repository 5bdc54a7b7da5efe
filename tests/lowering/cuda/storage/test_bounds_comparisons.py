"""Comparisons of places: one distance for each lane, of 32 bits, and any numbers."""

import re

import numpy as np
import pytest

from lowering.cuda.cases import Maker, in_registers
from support.simulate import compile_ptx, ptx_of
from tessera import compile_source
from tessera.core.base.dtypes import i32, i64
from tessera.core.program.program import Program

ROWS, COLUMNS = 8, 32
PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def compared(predicate: str, *, rows: bool, turned: bool = False, times: int = 1) -> Program:
    """out = (n + columns) predicate (m + rows), or m for all; `turned`: the other way round; `times` a factor of them"""
    b = Maker("compared")
    n, m = b.scalar("n", i64), b.scalar("m", i64)
    out = b.matrix("out", i32, ROWS, COLUMNS, mutable=True)
    shape = (ROWS, COLUMNS)
    left = b.broadcast(b.reshape(b.arange(n, COLUMNS), 1, COLUMNS), *shape)
    right = b.broadcast(b.reshape(b.arange(m, ROWS), ROWS, 1), *shape) if rows else b.full(m, *shape)
    if times != 1:
        left = b.value("mul", left, b.full(b.const(times), *shape))
    held = b.compare(predicate, *((right, left) if turned else (left, right)))
    ones, zeros = (b.full(b.const(number, i32), *shape) for number in (1, 0))
    b.store(out, b.select(held, ones, zeros), [b.const(0), b.const(0)], shape)
    return b.program()


def results() -> np.ndarray:
    return np.full((ROWS, COLUMNS), 7, np.int32)


SHIFTED = compile_source("""
@kernel
def by_indices(out: mut i32[M, N]):
    for m in tile.range(M, step=8):
        for n in range(0, N, 32):
            rows, columns = m + tile.arange(8), tile.arange(3, 35) + n
            visible = rows[:, None] + 2 >= columns
            out[m:m+8, n:n+32] = tile.where(visible, tile.cast(columns - rows[:, None], i32), tile.full((8, 32), 77, i32))

@kernel
def by_anything(out: mut i32[M, N], n: i64):
    for m in tile.range(M, step=8):
        visible = m + tile.arange(8)[:, None] >= n + tile.arange(32)
        out[m:m+8, 0:32] = tile.where(visible, tile.full((8, 32), 1, i32), tile.full((8, 32), 0, i32))
""")


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize(("rows", "turned"), [(True, False), (False, True)])
def test_distances_of_all_sizes(predicate: str, rows: bool, turned: bool):
    program = compared(predicate, rows=rows, turned=turned)
    near = [(0, 0), (5, 9), (9, 5), (100, 69), (-40, 0)]
    far = [(2**31 + 5, 5), (3, 2**32 + 7), (HIGHEST - COLUMNS, LOWEST), (LOWEST, HIGHEST - ROWS), (LOWEST, LOWEST)]
    for n, m in near + far:
        in_registers(program, [n, m, results()])


def test_one_comparison_of_32_bits_an_element():
    text = ptx_of(compile_ptx(compared("lt", rows=True)))
    narrow, wide = (len(re.findall(rf"setp\.\w+\.s{bits}", text)) for bits in (32, 64))
    assert narrow > wide, text
    assert not re.search(r"setp\.\w+\.[su]64.*\n.*selp\.b32", text), text


def test_other_numbers_are_compared_whole():
    in_registers(compared("lt", rows=True, times=3), [2**40, 3 * 2**40 + 17, results()])


def test_places_that_a_number_is_added_to_are_places():
    out = np.full((40, 64), 7, np.int32)
    program = SHIFTED.by_indices.program((out,))
    in_registers(program, [out])
    text = ptx_of(compile_ptx(program))
    assert len(re.findall(r"setp\.\w+\.s32", text)) >= ROWS * COLUMNS // 32, text
    assert "st.shared" not in text


def test_sums_that_may_overflow_are_compared_whole():
    program = SHIFTED.by_anything.program((results(), 1))
    for n in (3, -(2**40), HIGHEST - 9, LOWEST):
        in_registers(program, [results(), n])
