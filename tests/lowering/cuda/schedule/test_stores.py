"""Who gathers what is stored, and how that shows."""

import pytest

from lowering.cuda.cases import plan_of
from lowering.cuda.hopper import TILE, code, convolution, places, product
from support.product_programs import matrix_product
from support.simulate import compile_cuda
from tessera.core.base.dtypes import bf16


@pytest.mark.parametrize(
    ("tile", "per_warpgroup"), [((128, 256, 64), True), ((128, 64, 64), True), ((64, 256, 64), False)], ids=str
)
def test_warp_groups_store_apart_where_each_has_rows_of_its_own(tile: tuple[int, int, int], per_warpgroup: bool):
    plan, _ = plan_of(product(tile, num_warps=8))
    assert plan is not None
    assert plan.epilogue_per_warpgroup == per_warpgroup


def test_the_option_apart_leaves_stores_to_the_team():
    """Then no result is delayed either: it would have to wait for the other group's products."""
    plan, _ = plan_of(product(TILE, epilogue_per_warpgroup=False))
    assert plan is not None
    assert (plan.epilogue_per_warpgroup, plan.deferred) == (False, None)
    program = matrix_product(TILE, result=bf16, epilogue_per_warpgroup=False)
    stages = {listing.stage: listing.text for listing in compile_cuda(program).listings}
    assert "stored by the consumer warps" in stages["cuda-split-epilogue"]
    assert "deferred" not in stages["cuda-defer-epilogue"]
    text = code(program)
    assert places(text, r"bar\.sync\s+1, 256")
    assert not places(text, r"bar\.sync %r\d+, 128;")


def test_both_decisions_show_at_the_store():
    stages = {listing.stage: listing.text for listing in compile_cuda(matrix_product(TILE, result=bf16)).listings}
    assert "stored by each warpgroup" in stages["cuda-split-epilogue"]
    assert "delayed until the next group" not in stages["cuda-split-epilogue"]
    assert "deferred into the next group's main loop" in stages["cuda-defer-epilogue"]


@pytest.mark.parametrize(("images", "filters", "rows"), [((256, 14, 14, 64), 256, 128), ((256, 28, 28, 64), 128, 256)])
def test_boxes_of_pixels_are_stored_by_the_copy_engine(images: tuple[int, ...], filters: int, rows: int):
    """128 rows at a time, by each warp group, while the next group's first products run."""
    program = convolution(images, filters)
    plan, _ = plan_of(program)
    assert plan is not None
    assert (plan.epilogue_per_warpgroup, plan.deferred is not None) == (True, True)
    assert plan.gathered == (rows // 128 * filters * 2 // 128,)
    text = code(program)
    assert places(text, "cp.async.bulk.tensor.4d.global")
    assert not places(text, "st.global")


def test_boxes_that_warp_groups_cannot_share_are_stored_by_the_team():
    """Two warp groups have 64 rows each of every 128: of one image with 256 rows of pixels, that is no box."""
    plan, _ = plan_of(convolution((1, 4, 128, 64), 128, {0: 2, 1: 128}))
    assert plan is not None
    assert (plan.epilogue_per_warpgroup, plan.deferred) == (False, None)
