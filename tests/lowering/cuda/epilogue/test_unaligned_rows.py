"""Stores of rows that begin anywhere: the same bits as a lane's own stores leave, in fewer and wider ones."""

import re
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lowering.cuda.cases import Maker, in_registers, numbers, poison
from lowering.cuda.hopper import code, places
from support.product_programs import matrix_product
from support.simulate import compile_cuda
from tessera.core.base.dtypes import DType, bf16, f16, i16, i64
from tessera.core.layouts import accumulator
from tessera.core.program.program import Program
from tessera.lowering.cuda.epilogue import unaligned_rows
from tessera.lowering.cuda.kernel import tile_operations
from tessera.lowering.cuda.pipeline.producer_consumer import BLOCK_BYTES
from tessera.lowering.cuda.storage.global_access import Window
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, convert


def forced(host: Any, op: Any, tile: RegisterTile, window: Window) -> bool:
    """Store a tile as if it were the result of a product in a kernel that has memory for stores."""
    stages, warp_set = host.stages, host.warp_set
    if not stages.copies_stores:
        stages.copies_stores, stages.store_blocks = True, 2
        stages.store_address = host.scratch.address(host.scratch.take(2 * BLOCK_BYTES))
    layout = accumulator((tile.shape[0], tile.shape[1]), warp_set.bits)
    return unaligned_rows.store_rows(host, op, convert(host.build, warp_set, host.scratch, tile, layout), window)


def stored(program: Program, arguments: list[Any]) -> list[bool]:
    """Run a kernel whose stores go this way, and compare; gives whether they did."""
    answers: list[bool] = []

    def attempt(host: Any, op: Any, tile: RegisterTile, window: Window) -> bool:
        answers.append(forced(host, op, tile, window))
        return answers[-1]

    # The machine that runs the code has no copy engine to wait for.
    with (
        mock.patch.object(tile_operations, "store_rows", attempt),
        mock.patch.object(unaligned_rows.sm90, "bulk_wait_read"),
    ):
        in_registers(program, arguments)
    return answers


def moved(dtype: DType, shape: tuple[int, int], start: tuple[int, int], tile: tuple[int, int]) -> Program:
    """out[window] = x, where the window may reach over the array's end."""
    b = Maker("moved")
    x = b.matrix("x", dtype, *tile)
    out = b.matrix("out", dtype, *shape, mutable=True)
    zero = b.const(0)
    b.store(out, b.load(x, [zero, zero], list(tile)), [b.const(s) for s in start], list(tile))
    return b.program(num_warps=2)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([bf16, f16, i16]), st.integers(1, 80), st.integers(1, 150), st.integers(-9, 9), st.integers(-70, 70),
    st.sampled_from([(32, 8), (32, 16), (64, 32), (32, 64), (32, 128)]),
)  # fmt: skip
@example(bf16, 32, 64, 0, 0, (32, 64))
@example(bf16, 33, 131, 1, 3, (32, 128))
@example(f16, 3, 7, 0, 6, (32, 16))
@example(bf16, 33, 131, 1, -7, (32, 128))
@example(bf16, 32, 64, -1, -8, (32, 64))
@example(f16, 40, 1, 0, -15, (32, 16))
@example(f16, 40, 5, -33, -17, (32, 16))
def test_windows_at_any_element(dtype: DType, rows: int, columns: int, down: int, right: int, tile: tuple[int, int]):
    shape = (rows, columns)
    program = moved(dtype, shape, (down, right), tile)
    assert stored(program, [numbers(dtype, *tile), poison(dtype, *shape)]) == [True]


@pytest.mark.parametrize("shift", [-130, -64, -7, -2, -1, 0, 3, 70])
def test_windows_that_an_argument_begins(shift: int):
    """What begins before the array lacks its first columns, and no others."""
    b = Maker("moved")
    x, out, by = b.matrix("x", bf16, 32, 128), b.matrix("out", bf16, 33, 131, mutable=True), b.scalar("s", i64)
    zero = b.const(0)
    b.store(out, b.load(x, [zero, zero], [32, 128]), [by, by], [32, 128])
    arguments = [numbers(bf16, 32, 128), poison(bf16, 33, 131), shift]
    assert stored(b.program(num_warps=2), arguments) == [True]


def test_a_tile_that_is_smaller_than_its_layout():
    """20 of 32 columns, and 19 of 32 rows."""
    program = moved(bf16, (40, 45), (5, 7), (19, 20))
    assert stored(program, [numbers(bf16, 19, 20), poison(bf16, 40, 45)]) == [True]


def test_an_array_that_begins_at_an_odd_element():
    memory = np.zeros(33 * 65 + 1, bf16.numpy)
    out = memory[1:].reshape(33, 65)
    assert stored(moved(bf16, (33, 65), (0, 1), (32, 64)), [numbers(bf16, 32, 64), out]) == [True]


@pytest.mark.parametrize(("columns", "tile"), [(64, (128, 64, 64)), (256, (128, 256, 64)), (128, (256, 128, 64))])
def test_results_whose_rows_are_not_aligned_are_stored_in_words(columns: int, tile: tuple[int, int, int]):
    """A word and lane 32 times as often as elements, and the ends of a row; no product waits for another's registers."""
    program = matrix_product(tile, result=bf16, aligned=False, defer_epilogue=False)
    text = code(program)
    rows = tile[0] // 8 // 8
    assert len(places(text, r"st\.global\.b32")) == 2 * rows * columns // 64
    assert len(places(text, r"st\.global\.b16")) == 2 * rows
    resources = compile_cuda(program).artifact.resources
    assert resources.spill_bytes == 0
    assert not re.search("serializ", " ".join(resources.notes))
