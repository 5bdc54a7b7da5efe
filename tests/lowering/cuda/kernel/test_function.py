"""The whole function of a tile kernel: who does what, when they wait, and what comes out on a GPU."""

import re
from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda.hopper import COPY, attention, code, places, product
from support.product_programs import matrix_product
from support.simulate import compile_cuda, compile_ptx
from tessera.core.base.dtypes import DType, bf16, f16


def test_roles_of_a_product():
    text = code(product())
    assert ".reqntid 384, 1, 1" in text  # two warp groups and the copying one
    assert text.count("setmaxnreg.dec.sync.aligned.u32 40;") == 1
    assert text.count("setmaxnreg.inc.sync.aligned.u32 232;") == 1
    assert len(places(text, re.escape(COPY))) == 1 + 4  # A in one panel, B in four of 64 columns
    assert len(places(text, "cp.async.bulk.tensor.2d.global.shared::cta")) == 8  # f32: 32 columns at a time


def test_four_warp_groups_share_what_five_begin_with():
    text = code(product((256, 64, 64), num_warps=16))
    assert ".reqntid 640, 1, 1" in text
    assert text.count("setmaxnreg.dec.sync.aligned.u32 24;") == 1
    assert text.count("setmaxnreg.inc.sync.aligned.u32 112;") == 1
    assert 4 * 112 + 24 <= 5 * 96


def test_barriers_are_made_before_anybody_uses_them():
    text = code(product())
    stages = len(places(text, r"mbarrier\.init")) // 2
    assert stages >= 3
    assert len(places(text, r"mbarrier\.init\.shared::cta\.b64 \[%r\d+\], 8;")) == stages  # a warp an arrival
    last = places(text, r"mbarrier\.init")[-1]
    assert last < places(text, r"fence\.mbarrier_init")[0] < places(text, r"mbarrier\.try_wait")[0]


def test_a_running_product_is_waited_for_a_round_later():
    text = code(product())
    committed = places(text, r"wgmma\.commit_group")
    waits = places(text, r"wgmma\.wait_group\.sync\.aligned \d")
    assert len(committed) == 1
    assert [text[place:].split(";")[0][-1] for place in waits] == ["1", "0"]


def test_each_warp_group_stores_its_rows_without_waiting_for_the_other():
    text = code(product())
    assert not places(text, r"bar\.sync\s+1, 256")  # the barrier of the team
    blocks = 8
    assert len(places(text, r"bar\.sync %r\d+, 128;")) == 2 * blocks  # two buffers: before one is written, and behind
    boxes = [slot.tensor_map.box for slot in compile_ptx(product()).slots if slot.tensor_map is not None]
    assert boxes[-1] == (64, 32)
    assert len(places(text, r"cp\.async\.bulk\.wait_group\.read 1;")) == blocks
    assert len(places(text, r"cp\.async\.bulk\.wait_group\.read 0;")) == 1  # at the end


def test_a_tile_that_fits_its_buffers_is_gathered_without_waiting_in_between():
    text = code(product((128, 128, 64), epilogue_stages=4))
    assert len(places(text, r"bar\.sync %r\d+, 128;")) == 1 + 4
    assert len(places(text, r"cp\.async\.bulk\.commit_group")) == 4


def test_a_product_that_runs_on_has_four_stages_before_it_has_room_for_all_that_is_stored():
    stages = [len(places(code(product(stages=most)), r"mbarrier\.init")) // 2 for most in (3, 4, 7)]
    assert stages == [3, 4, 4]


def test_blocks_may_be_there_before_the_kernel_in_front_has_ended():
    text = code(product())
    assert compile_ptx(product()).launch.early
    (waited,), (allowed,) = places(text, r"griddepcontrol\.wait"), places(text, r"griddepcontrol\.launch_dependents")
    assert places(text, r"mbarrier\.init")[-1] < waited < allowed < places(text, re.escape(COPY))[0]


def test_tensor_maps_are_fetched_before_anything_else():
    text = code(product())
    fetched = places(text, r"prefetch\.tensormap")
    assert len(fetched) == 3
    assert fetched[-1] < places(text, r"mbarrier\.init")[0]


def test_the_place_of_a_group_takes_two_divisions_of_32_bits():
    text = code(product())
    assert len(places(text, r"div\.u32")) == 2 * 2  # in each role
    assert not places(text, r"(div|rem)\.[us]64|rem\.u32")


def test_the_launch_is_persistent():
    launch = compile_ptx(product()).launch
    assert (launch.persistent, launch.cluster, launch.lanes_per_group) == (True, 1, 384)


def test_a_cluster_multicasts_what_it_shares():
    artifact = compile_ptx(product(cluster=2))
    text = code(product(cluster=2))
    assert artifact.launch.cluster == 2
    assert len(places(text, r"multicast::cluster")) == 2  # half of B's four panels each
    assert "mapa.shared::cluster.u32" in text
    assert "barrier.cluster.arrive" in text
    boxes = [slot.tensor_map.box for slot in artifact.slots if slot.tensor_map is not None]
    assert boxes == [(128, 64), (64, 64), (64, 32)]


def test_no_spills_and_no_serialised_products():
    for program in (product(), product((128, 128, 64)), product((64, 256, 64)), attention(), attention(causal=True)):
        resources = compile_cuda(program).artifact.resources
        assert (resources.spill_bytes, resources.stack_bytes) == (0, 0), program.name


CASES = [((128, 256, 64), (384, 512, 320)), ((128, 128, 64), (200, 136, 72)), ((64, 64, 32), (640, 72, 1000))]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize(("tile", "shape"), CASES, ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"cluster": 2}, {"stages": 2}, {"raster_group": 3, "epilogue_stages": 1}], ids=str
)
def test_products_on_a_gpu(
    tile: tuple[int, int, int],
    shape: tuple[int, int, int],
    turned: tuple[bool, bool],
    dtype: DType,
    options: dict[str, int],
):
    from support.hardware import simulate  # noqa: PLC0415 - needs a GPU

    m, n, k = shape
    random = np.random.default_rng(m + n + k)
    left, right = (random.standard_normal(s).astype(dtype.numpy) for s in ((m, k), (k, n)))
    stored = [np.ascontiguousarray(x.T) if flag else x for x, flag in zip((left, right), turned, strict=True)]
    if any(x.shape[-1] * 2 % 16 for x in stored):
        pytest.skip("not aligned")
    out = np.full((m, n), np.nan, np.float32)
    simulate(replace(matrix_product(tile, dtype, turned=turned), options=options), [*stored, out])
    want = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(out, want, rtol=0, atol=2e-6 * k * np.abs(want).max())


@pytest.mark.gpu
@pytest.mark.parametrize("depth", [128, 256, 328], ids=str)
@pytest.mark.parametrize("options", [{}, {"cluster": 2}, {"defer_epilogue": False}, {"epilogue_stages": 1}], ids=str)
def test_more_groups_than_blocks_on_a_gpu(depth: int, options: dict[str, int]):
    """Results wait for the next group, where its loop has a round for each of their column blocks."""
    from support.hardware import simulate  # noqa: PLC0415 - needs a GPU

    random = np.random.default_rng(depth)
    left, right = (random.standard_normal(s).astype(bf16.numpy) for s in ((2500, depth), (depth, 2600)))
    out = np.full((2500, 2600), np.nan, bf16.numpy)
    simulate(replace(matrix_product((128, 256, 64), result=bf16), options=options), [left, right, out])
    want = left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_allclose(out.astype(np.float32), want, rtol=0, atol=4e-3 * np.abs(want).max())
