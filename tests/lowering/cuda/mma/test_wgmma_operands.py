"""Where the tensor cores find the parts of a factor, by the canonical layouts of the PTX ISA (9.7.15.5.1)."""

import re
from unittest.mock import sentinel

import pytest

from lowering.cuda.hopper import code, product
from support.product_programs import matrix_product
from tessera.core.base.dtypes import f32
from tessera.lowering.cuda.mma.wgmma_operands import Operand
from tessera.lowering.cuda.storage.shared_tile import SharedTile, SwizzledPanels


def factor(rows: int, columns: int, *, outer_major: bool, size: int = 2) -> Operand:
    return Operand(SharedTile(sentinel.address, SwizzledPanels(rows, columns, size), "bf16"), outer_major)


@pytest.mark.parametrize(
    ("one", "outer", "step", "offset"),
    [
        # 128 rows of 64 elements: a row of the panel is 128 bytes, a step of K 32 bytes along it
        (factor(128, 64, outer_major=False), 0, 1, 32),
        (factor(128, 64, outer_major=False), 64, 3, 64 * 128 + 96),
        # 128 elements of K: the fifth step begins the second panel
        (factor(128, 128, outer_major=False), 0, 4, 128 * 128),
        # 64 rows of K, 256 columns: 16 rows a step, and four panels of 64 columns
        (factor(64, 256, outer_major=True), 0, 1, 16 * 128),
        (factor(64, 256, outer_major=True), 64, 0, 64 * 128),
        (factor(64, 256, outer_major=True), 192, 2, 3 * 64 * 128 + 32 * 128),
    ],
)
def test_offsets(one: Operand, outer: int, step: int, offset: int):
    assert one.offset(outer, 32 * step) == offset


@pytest.mark.parametrize(("columns", "swizzle", "count"), [(16, 32, 1), (32, 64, 1), (64, 128, 1), (256, 128, 4)])
def test_panels_are_as_wide_as_the_swizzle(columns: int, swizzle: int, count: int):
    panels = SwizzledPanels(64, columns, 2)
    assert (panels.swizzle, panels.count, panels.bytes) == (swizzle, count, 64 * columns * 2)


@pytest.mark.parametrize(
    ("turned", "flags"),
    [((False, False), "0, 1"), ((False, True), "0, 0"), ((True, False), "1, 1"), ((True, True), "1, 0")],
)
def test_factors_in_every_storage_order(turned: tuple[bool, bool], flags: str):
    text = code(product(turned=turned))
    assert text.count("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16") == 4
    assert text.count(f", 1, 1, {flags};") == 4
    assert "1, 1, 1, " + flags in text


@pytest.mark.parametrize(
    ("tile", "turned", "words"),
    [((128, 256, 32), (False, True), 0), ((128, 256, 32), (True, True), 16), ((256, 128, 32), (False, False), 16)],
    ids=str,
)
def test_factors_of_tf32(tile: tuple[int, int, int], turned: tuple[bool, bool], words: int):
    """What lies across K comes from registers, four for each 64 rows and 8 of K."""
    text = code(matrix_product(tile, f32, turned=turned, compute="tf32"))
    found = re.findall(r"(wgmma\.mma_async\S+) \{[^}]*\}, (\{[^}]*\}|\S+), \S+, (.*);", text)
    assert {name for name, _, _ in found} == {"wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32"}
    assert {flags for _, _, flags in found} == {"1, 1, 1"}
    registers = [left.count(",") + 1 for _, left, _ in found if left.startswith("{")]
    assert sum(registers) == words == len(re.findall(r"ld\.shared\.b32", text))
    assert "cvt.rn.tf32" not in text
    # Registers that the hardware still reads are not written in the next round.
    assert ("wgmma.wait_group.sync.aligned 1;" in text) == (words == 0)
