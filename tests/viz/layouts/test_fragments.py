"""Fragments of MMA instructions, against the formulas of the PTX ISA (9.7.14.5, 9.7.15.5)."""

from collections.abc import Callable

import pytest

from tessera.core.layouts import coordinates
from tessera.viz.layouts.fragments import Fragment

Place = tuple[int, int]


# As the PTX ISA writes them: g = groupID = lane >> 2, t = threadID_in_group = lane % 4, i the number of the element.
def a16(g: int, t: int, i: int) -> Place:
    return g if 0 <= i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (8 if i >= 4 else 0)


def b16(g: int, t: int, i: int) -> Place:
    return t * 2 + (i & 1) + (8 if i >= 2 else 0), g


def a16_half(g: int, t: int, i: int) -> Place:
    return g if i < 2 else g + 8, t * 2 + (i & 1)


def b16_half(g: int, t: int, i: int) -> Place:
    return t * 2 + i, g


def a_tf32(g: int, t: int, i: int) -> Place:
    return g if i in (0, 2) else g + 8, t if i < 2 else t + 4


def b_tf32(g: int, t: int, i: int) -> Place:
    return t if i == 0 else t + 4, g


def a8(g: int, t: int, i: int) -> Place:
    return g if 0 <= i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (16 if i >= 8 else 0)


def b8(g: int, t: int, i: int) -> Place:
    return t * 4 + (i & 3) + (16 if i >= 4 else 0), g


def c(g: int, t: int, i: int) -> Place:
    return g if i < 2 else g + 8, t * 2 + (i & 1)


@pytest.mark.parametrize(
    ("name", "dtype", "operand", "count", "formula"),
    [
        ("mma.sync.m16n8k16", "f16", "A", 8, a16),
        ("mma.sync.m16n8k16", "bf16", "B", 4, b16),
        ("mma.sync.m16n8k16", None, "accumulator", 4, c),
        ("mma.m16n8k8", "f16", "A", 4, a16_half),
        ("mma.m16n8k8", "f16", "B", 2, b16_half),
        ("mma.m16n8k8", "tf32", "A", 4, a_tf32),
        ("mma.m16n8k8", "tf32", "B", 2, b_tf32),
        ("mma.m16n8k32", "i8", "A", 16, a8),
        ("mma.m16n8k32", "f8e4m3", "B", 8, b8),
    ],
)
def test_fragments_of_mma_sync(
    name: str, dtype: str | None, operand: str, count: int, formula: Callable[[int, int, int], Place]
):
    fragment = Fragment.of(name, operand, dtype)
    assert fragment.registers == count
    for lane in range(32):
        for i in range(count):
            place = coordinates(fragment.layout.element(i, lane), fragment.layout.shape)
            assert place == formula(lane >> 2, lane % 4, i)


@pytest.mark.parametrize("n", [8, 24, 128, 192, 256])
def test_accumulators_of_wgmma(n: int):
    # row = 16 * warp + groupID + 8 * (i / 2 % 2), column = 8 * (i / 4) + 2 * threadID_in_group + i % 2
    fragment = Fragment.of(f"wgmma.m64n{n}k16")
    assert fragment.registers == n // 2
    for warp in range(4):
        for lane in range(32):
            for i in range(n // 2):
                place = coordinates(fragment.layout.element(i, lane, warp), fragment.layout.shape)
                assert place == (16 * warp + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2)


def test_a_of_wgmma_is_that_of_mma_sync_for_each_warp():
    fragment = Fragment.of("wgmma.m64n128k16", "A")
    for warp in range(4):
        for lane in range(32):
            for i in range(8):
                row, column = a16(lane >> 2, lane % 4, i)
                assert coordinates(fragment.layout.element(i, lane, warp), (64, 16)) == (16 * warp + row, column)


@pytest.mark.parametrize(
    ("name", "operand", "dtype", "why"),
    [
        ("mma.m8n8k4", "A", None, "mma.sync has m16n8"),
        ("mma.m16n8k32", "A", "f16", "for 16 bits k16 or k8"),
        ("wgmma.m64n12k16", "A", None, "n a multiple of 8 up to 256"),
        ("wgmma.m64n128k16", "B", None, "read from shared memory"),
        ("wgmma.m64n128k16", "D", None, "an operand is one of A, B, accumulator"),
        ("wgmma.m64n128k16", "A", "f64", "not 'f64'"),
        ("dot", "A", None, "is no MMA instruction"),
    ],
)
def test_what_there_is_not(name: str, operand: str, dtype: str | None, why: str):
    with pytest.raises(ValueError, match=why):
        Fragment.of(name, operand, dtype)
