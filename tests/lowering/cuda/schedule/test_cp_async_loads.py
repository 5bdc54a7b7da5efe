"""Which loads the team copies itself, and how many buffers they have."""

from unittest.mock import sentinel

import pytest

from lowering.cuda.cases import plan_of
from support.product_programs import matrix_product
from tessera.core.base.dtypes import bf16, f32
from tessera.lowering.cuda.schedule.cp_async_loads import CopyPlan


def test_factors_share_a_ring_of_their_loop():
    plan, _ = plan_of(matrix_product((64, 64, 32)), "sm_80")
    assert plan is not None
    (copy,) = plan.copies
    assert len(copy.loads) == 2
    assert copy.loop is not None
    assert not plan.rings


def test_small_teams_share_a_multiprocessor_and_copy_by_themselves():
    for arch, tile in (("sm_90a", (32, 128, 64)), ("sm_100a", (128, 128, 32))):
        plan, _ = plan_of(matrix_product(tile), arch)
        assert plan is not None
        assert (len(plan.rings), len(plan.copies)) == (0, 1)


@pytest.mark.parametrize(("arch", "tile"), [("sm_90a", (64, 64, 32)), ("sm_100a", (128, 128, 32))], ids=str)
def test_the_copy_engine_comes_first(arch: str, tile: tuple[int, int, int]):
    plan, _ = plan_of(matrix_product(tile, bf16 if arch == "sm_90a" else f32), arch)
    assert plan is not None
    assert [len(ring.loads) for ring in plan.rings] == [2]
    assert not plan.copies


def test_rows_that_are_not_aligned_are_copied_by_the_team():
    plan, _ = plan_of(matrix_product((16, 64, 32), aligned=False), "sm_90a")
    assert plan is not None
    assert not plan.rings
    assert len(plan.copies) == 1


@pytest.mark.parametrize(
    ("stage", "depth", "stages"),
    [(16 << 10, 7, 4), (24 << 10, 7, 3), (32 << 10, 7, 3), (32 << 10, 2, 2), (32 << 10, 1, 1), (4 << 10, 3, 3)],
)
def test_stages(stage: int, depth: int, stages: int):
    """Two blocks on a multiprocessor of 163 KiB where three buffers fit; fewer where there is no room."""
    plan = CopyPlan([], sentinel.block, loop=sentinel.loop)
    assert plan.stages(stage, depth, 163 << 10) == stages
    assert CopyPlan([], sentinel.block).stages(stage, depth, 163 << 10) == 1


def test_a_buffer_that_is_still_read_is_filled_a_round_later():
    assert CopyPlan([], sentinel.block, loop=sentinel.loop).prefetch_distance(4) == 3
