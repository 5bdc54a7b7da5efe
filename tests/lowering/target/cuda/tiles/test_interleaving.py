"""Bulk copies of matrices whose rows are not multiples of 16 bytes: which loads, and where their elements lie."""

import numpy as np
import pytest

from lowering.target.cuda.tiles.cases import plan_of
from support.product_programs import matrix_product
from support.simulate import compile_cuda
from tessera.core.dtypes import bf16
from tessera.core.layouts import Layout, coordinates
from tessera.lowering.target.cuda.tiles.interleaving import APART

Turned = tuple[bool, bool]


def place_of(row: int, rows: int) -> int:
    """Where a row of a tile lies in shared memory: ordered by its number modulo 8 first."""
    return row % APART * (rows // APART) + row // APART


@pytest.mark.parametrize(
    ("turned", "count"), [((False, False), 2), ((False, True), 2), ((True, False), 2), ((True, True), 0)]
)
def test_which_loads(turned: Turned, count: int):
    """A left factor permuted along K has nobody to follow it."""
    plan, _ = plan_of(matrix_product((128, 128, 64), aligned=False, turned=turned, windows=1))
    assert plan is not None
    assert len(plan.interleaved) == count
    assert len(plan.rings) == count // 2
    assert len(plan.copies) == (count == 0)
    aligned, _ = plan_of(matrix_product((128, 128, 64), turned=turned, windows=1))
    assert aligned is not None
    assert not aligned.interleaved


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False)], ids=str)
def test_sums_lie_where_the_rows_of_the_factors_do(turned: Turned):
    """Sum (i, j) of the hardware is that of row i of the left buffer and row or column j of the right one."""
    shape = (128, 128)
    _, plain = plan_of(matrix_product((*shape, 64), turned=turned))
    _, moved = plan_of(matrix_product((*shape, 64), aligned=False, turned=turned, windows=1))
    (before,), (after,) = plain["tessera.dot"], moved["tessera.dot"]
    assert after.covers()
    for register, lane, warp in np.random.default_rng(0).integers(0, (before.count, 32, 8), (50, 3)).tolist():
        place = coordinates(before.element(register, lane, warp), shape)
        row, column = coordinates(after.element(register, lane, warp), shape)
        assert place[0] == (row if turned[0] else place_of(row, shape[0]))
        assert place[1] == (place_of(column, shape[1]) if turned[1] else column)


def test_the_left_factor_follows_the_right_one_along_k():
    """`gathered_words`: step j of the product takes rows 16 j .. 16 j + 15 of the right buffer, in this order."""
    order = sorted(range(64), key=lambda k: place_of(k, 64))
    for step in range(4):
        for lane in range(4):
            pairs = [order[16 * step + 2 * lane + far :][:2] for far in (0, 8)]
            first = 16 * lane + 2 * step
            assert pairs == [[first, first + 8], [first + 1, first + 9]]


@pytest.mark.parametrize("columns", [128, 256])
def test_eight_windows_without_spills(columns: int):
    artifact = compile_cuda(matrix_product((128, columns, 64), aligned=False, result=bf16, windows=1)).artifact
    windows = {(slot.parameter, slot.tensor_map.first) for slot in artifact.slots if slot.tensor_map is not None}
    assert windows == {(parameter, first) for parameter in (0, 1) for first in range(APART)}
    assert artifact.resources.spill_bytes == 0


def test_layouts_are_permutations():
    layout: Layout = plan_of(matrix_product((128, 64, 64), aligned=False, windows=1))[1]["tessera.dot"][0]
    assert sorted({basis for basis in layout.bases if basis}) == [1 << bit for bit in range(13)]
