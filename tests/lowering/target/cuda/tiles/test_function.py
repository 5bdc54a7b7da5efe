"""The whole function of a tile kernel: who does what, when they wait, and what comes out on a GPU."""

import re

import numpy as np
import pytest

from lowering.target.cuda.tiles.hopper import COPY, attention, code, places, product
from support.simulate import compile_cuda, compile_ptx
from tessera.core.dtypes import bf16, f16


def test_roles_of_a_product():
    text = code(product())
    assert ".reqntid 384, 1, 1" in text  # two warp groups and the copying one
    assert text.count("setmaxnreg.dec.sync.aligned.u32 40;") == 1
    assert text.count("setmaxnreg.inc.sync.aligned.u32 232;") == 1
    assert len(places(text, re.escape(COPY))) == 1 + 4  # A in one panel, B in four of 64 columns
    assert len(places(text, "cp.async.bulk.tensor.2d.global.shared::cta")) == 8  # f32: 32 columns at a time


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
    assert boxes == [(128, 64), (64, 64), (128, 32)]


def test_no_spills_and_no_serialised_products():
    for program in (product(), product((128, 128, 64)), product((64, 256, 64)), attention(), attention(causal=True)):
        resources = compile_cuda(program).artifact.resources
        assert (resources.spill_bytes, resources.stack_bytes) == (0, 0), program.name


def test_the_second_product_of_attention_runs_behind_the_exponentials():
    """ptxas would move the wait in front of them, so the machine code is what counts."""
    (sass,) = [one.text for one in compile_cuda(attention()).listings if one.level == "sass"]
    lines = [line for line in sass.splitlines() if re.search(r"HGMMA|MUFU\.EX2|DEPBAR\.LE gsb0", line)]
    story = "".join(
        "h" if "HGMMA" in line else "e" if "MUFU" in line else "0" if "0x0" in line else "1" for line in lines
    )
    # first round: one product, then exponentials; every other round: both products, wait for one, exponentials, the other
    assert re.search(r"h{8}0e{64,70}h{16}1e{60,70}0", story), story


CASES = [((128, 256, 64), (384, 512, 320)), ((128, 128, 64), (200, 136, 72)), ((64, 64, 32), (640, 72, 1000))]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize(("tile", "shape"), CASES, ids=str)
@pytest.mark.parametrize("options", [{}, {"cluster": 2}, {"stages": 2}], ids=str)
def test_products_on_a_gpu(tile, shape, turned, dtype, options: dict[str, int]):
    from support.hardware import simulate  # noqa: PLC0415 - needs a GPU
    from support.product_programs import matrix_product  # noqa: PLC0415

    m, n, k = shape
    random = np.random.default_rng(m + n + k)
    left, right = (random.standard_normal(s).astype(dtype.numpy) for s in ((m, k), (k, n)))
    stored = [np.ascontiguousarray(x.T) if flag else x for x, flag in zip((left, right), turned, strict=True)]
    if any(x.shape[-1] * 2 % 16 for x in stored):
        pytest.skip("not aligned")
    out = np.full((m, n), np.nan, np.float32)
    simulate(matrix_product(tile, dtype, turned=turned, **options), [*stored, out])
    want = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(out, want, rtol=0, atol=2e-6 * k * np.abs(want).max())
