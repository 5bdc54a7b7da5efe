"""Who computes a product, and how its sums are shared among warps."""

import re

import pytest

from lowering.cuda.cases import plan_of
from support import programs
from support.product_programs import matrix_product
from support.simulate import compile_ptx, ptx_of
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64
from tessera.core.layouts import coordinates
from tessera.lowering.cuda.schedule.mma_selection import FMA, MMA, WGMMA

KINDS = [
    ("sm_90a", (128, 128, 64), bf16, WGMMA), ("sm_90a", (64, 16, 16), f16, WGMMA), ("sm_90a", (32, 128, 64), bf16, MMA),
    ("sm_80", (128, 128, 64), bf16, MMA), ("sm_89", (16, 8, 16), f16, MMA), ("sm_100a", (128, 128, 64), bf16, MMA),
    ("sm_80", (8, 32, 32), bf16, FMA), ("sm_80", (64, 64, 32), f32, FMA), ("sm_90a", (64, 64, 32), f32, FMA),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "tile", "dtype", "kind"), KINDS, ids=str)
def test_kinds(arch: str, tile: tuple[int, int, int], dtype: DType, kind: str):
    plan, _ = plan_of(matrix_product(tile, dtype), arch)
    assert plan is not None
    assert list(plan.products.values()) == [kind]


BOTH, LEFT, RIGHT, NEITHER = (False, True), (False, False), (True, True), (True, False)
"""How matrices are stored (`turned`) for K to be contiguous in both factors, in one of them, or in none."""
TF32 = [
    ("sm_90a", (128, 256, 32), BOTH, True, WGMMA), ("sm_90a", (128, 256, 32), RIGHT, True, WGMMA),
    ("sm_90a", (32, 64, 32), LEFT, True, WGMMA), ("sm_90a", (64, 32, 32), LEFT, True, MMA),
    ("sm_90a", (128, 128, 32), NEITHER, True, MMA), ("sm_90a", (64, 64, 4), BOTH, True, None),
    ("sm_90a", (8, 8, 8), BOTH, True, FMA), ("sm_80", (128, 128, 32), BOTH, True, MMA),
    ("sm_89", (16, 8, 8), LEFT, False, MMA), ("sm_100a", (64, 64, 32), RIGHT, True, MMA),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "tile", "turned", "aligned", "kind"), TF32, ids=str)
def test_kinds_of_products_of_tf32(
    arch: str, tile: tuple[int, int, int], turned: tuple[bool, bool], aligned: bool, kind: str | None
):
    """Warp groups compute the transpose where K is contiguous in the left factor alone."""
    plan, layouts = plan_of(matrix_product(tile, f32, turned=turned, aligned=aligned, compute="tf32"), arch)
    if kind is None:
        assert plan is None
        return
    assert plan is not None
    assert list(plan.products.values()) == [kind]
    assert len(plan.rounded) == (2 if kind == WGMMA else 0)
    (layout,) = layouts["tessera.dot"]
    assert layout.covers()


def test_what_goes_another_way():
    """Extents that are no powers of two, and elements without tensor cores or chains in f32."""
    assert plan_of(matrix_product((48, 64, 32), f32), "sm_80")[0] is None
    assert plan_of(programs.matmul(64, 64, 32, f64), "sm_80")[0] is None


TEAMS = [
    ("sm_80", (128, 128, 32), bf16, 4, (64, 64)), ("sm_80", (128, 256, 32), bf16, 8, (64, 64)),
    ("sm_80", (64, 64, 32), bf16, 4, (32, 32)), ("sm_80", (128, 128, 32), f32, 8, (32, 64)),
    ("sm_90a", (128, 256, 64), bf16, 8, (128, 256)),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "tile", "dtype", "warps", "block"), TEAMS, ids=str)
def test_warps_have_square_blocks(
    arch: str, tile: tuple[int, int, int], dtype: DType, warps: int, block: tuple[int, int]
):
    """Which reads the least; warp groups have their rows in the order of the hardware."""
    plan, layouts = plan_of(matrix_product(tile, dtype), arch)
    assert plan is not None
    assert 1 << plan.bits == warps
    (layout,) = layouts["tessera.dot"]
    assert layout.covers()
    if block == tile[:2]:
        assert all(basis >= tile[1] for basis in layout.warps)
        return
    places = [coordinates(layout.element(r, lane), layout.shape) for r in range(layout.count) for lane in range(32)]
    assert tuple(len({place[axis] for place in places}) for axis in (0, 1)) == block


@pytest.mark.parametrize(
    ("tile", "warps", "kind"),
    [
        ((64, 64, 64), 2, MMA), ((64, 64, 64), 4, WGMMA), ((64, 64, 64), 8, MMA), ((128, 128, 64), 8, WGMMA),
        ((128, 128, 64), 16, MMA), ((256, 128, 64), 16, WGMMA), ((512, 64, 64), 32, MMA),
    ],
    ids=str,
)  # fmt: skip
def test_the_warps_that_somebody_asks_for_multiply(tile: tuple[int, int, int], warps: int, kind: str):
    """Warp groups where each has 64 rows and there is room for one that copies, else single warps."""
    text = ptx_of(compile_ptx(matrix_product(tile, bf16, num_warps=warps)))
    assert f".reqntid {32 * warps + 128 * (kind == WGMMA)}, 1, 1" in text
    assert {"wgmma.mma": WGMMA, "mma.sync": MMA}[min(re.findall(r"wgmma\.mma|mma\.sync", text))] == kind
