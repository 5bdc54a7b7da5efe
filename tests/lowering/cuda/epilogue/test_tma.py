"""Which tiles the copy engine stores, and which of them warp groups store apart."""

import re
from dataclasses import replace

import pytest

from support.builder import Builder
from support.simulate import compile_ptx, ptx_of
from tessera.core.base.dtypes import bf16, f32
from tessera.core.layouts import Layout, accumulator
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.core.tile.dialect import shared_context
from tessera.lowering.cuda.schedule.store_legality import copied_panels, own_rows
from tessera.lowering.cuda.storage.shared_tile import SwizzledPanels


@pytest.mark.parametrize(
    ("shape", "bits", "per_warpgroup"),
    [
        ((128, 256), 3, True),
        ((256, 128), 4, True),
        ((64, 256), 3, False),  # the warp groups have columns of their own
        ((256, 128), 3, False),  # each has two blocks of 64 rows, which do not follow each other
        ((128, 256), 2, False),  # there is only one
    ],
    ids=str,
)
def test_warp_groups_that_have_rows_of_their_own(shape: tuple[int, int], bits: int, per_warpgroup: bool):
    assert own_rows(accumulator(shape, bits), 1 << bits) == per_warpgroup


def panels(
    layout: Layout, rank: int = 2, dropped: str = "", *, aligned: bool = True, shape: tuple[int, ...] = (),
    start: int = 64, others: str = "0",
) -> SwizzledPanels | None:  # fmt: skip
    """What becomes of a store of bf16, of that `shape` before padding, to column `start` of an array of this rank.

    others: where it begins along the other axes: "%i", which may be any number, or a constant
    """
    shape = shape or layout.shape
    kept = iter(shape)
    extents = ", ".join("1" if str(axis) == dropped else str(next(kept)) for axis in range(rank))
    place = "%i" if others == "%i" else "%other"
    memory, tile = f"memref<{'?x' * rank}bf16>", f"tensor<{'x'.join(map(str, shape))}xbf16>"
    text = f"""
        func.func @f(%x: {memory}, %t: {tile}, %i: i64) {{
            %start = arith.constant {start} : i64
            %other = arith.constant {others if others != "%i" else 0} : i64
            "tessera.store"(%x, %t, {f"{place}, " * (rank - 1)} %start) {{
                cache = "", dropped = array<i64{": " if dropped else ""}{dropped}>, extents = array<i64: {extents}>,
                in_bounds = array<i1: {", ".join(["false"] * rank)}>
            }} : ({memory}, {tile}{", i64" * rank}) -> ()
            return
        }}"""
    with shared_context():
        module = ir.Module.parse(text)
        op = next(op for op in module.body.operations[0].regions[0].blocks[0].operations if len(op.operands) > 2)
        return copied_panels(op.operation, layout, Array(bf16, tuple("mnk"[:rank]), aligned=aligned))


def test_column_blocks_are_128_bytes_wide():
    assert panels(accumulator((128, 256), 3)) == SwizzledPanels(128, 64, 2)
    assert panels(accumulator((64, 64), 2), 3, "0") == SwizzledPanels(64, 64, 2)
    assert panels(accumulator((64, 64), 2), 3, "0", others="3") == SwizzledPanels(64, 64, 2)


def test_what_the_copy_engine_does_not_store():
    sums = accumulator((128, 256), 3)
    assert panels(sums, aligned=False) is None
    assert panels(sums, start=4) is None  # 8 bytes
    assert panels(sums, 3, "2") is None  # the columns are not contiguous
    assert panels(accumulator((256, 128), 3)) is None  # too many rows
    assert panels(accumulator((128, 32), 2)) is None  # too few columns
    assert panels(sums, shape=(128, 200)) is None  # what lies behind them belongs to somebody else
    assert panels(sums, shape=(100, 256)) is None


def test_the_copy_engine_stores_nothing_that_may_begin_before_its_array():
    sums = accumulator((128, 256), 3)
    assert panels(sums, start=-8) is None
    assert panels(sums, others="-1") is None
    assert panels(sums, others="%i") is None
    assert panels(sums, others="1") is not None


def stores(*widths: int, **options: int) -> Program:
    """Products of 128 rows and so many columns each, whose results of bf16 are stored one after the other."""
    b = Builder("stores")
    a, w = b.array("A", bf16, "M", "K", aligned=True), b.array("B", bf16, "K", "N", aligned=True)
    results = [b.array(f"C{number}", bf16, "M", "N", aligned=True, mutable=True) for number in range(len(widths))]
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m:
        left = b.load(a, [m.index, zero], [128, 64])
        for columns, result in zip(widths, results, strict=True):
            product = b.dot(left, b.load(w, [zero, zero], [64, columns]), dtype=f32)
            b.store(result, b.cast(product, bf16), [m.index, zero], [128, columns])
    return replace(b.program(), options=options)


@pytest.mark.parametrize(
    ("widths", "buffers", "pending"),
    [
        ((256,), 4, [0, 0]),  # a buffer for each of the four blocks: free once all copies have been read
        ((256,), 2, [1, 1, 1, 1, 0]),
        ((256,), 3, [0, 2, 2, 2, 0]),  # the last block is in the first buffer
        ((256, 256), 2, [1, 1, 1, 1, 1, 1, 1, 1, 0]),
        ((64, 256), 2, [0, 0, 1, 1, 1, 0]),  # so is the narrow one
    ],
    ids=str,
)
def test_a_buffer_is_filled_when_its_last_copy_has_been_read(widths: tuple[int, ...], buffers: int, pending: list[int]):
    """The last wait is the kernel's own, for all that it stored."""
    text = ptx_of(compile_ptx(stores(*widths, epilogue_stages=buffers)))
    assert [int(n) for n in re.findall(r"cp\.async\.bulk\.wait_group\.read (\d)", text)] == pending


def test_windows_say_what_they_are_for():
    """Those on arrays without elements are elsewhere where they are stored (`runtime.tensor_maps`)."""
    maps = [(slot.parameter, slot.tensor_map) for slot in compile_ptx(stores(256)).slots if slot.tensor_map]
    assert sorted((number, window.stored) for number, window in maps) == [(0, False), (1, False), (2, True)]
