"""What is decided about tile kernels, and how it shows."""

import pytest

from lowering.target.cuda.tiles.cases import plan_of
from lowering.target.cuda.tiles.hopper import TILE, attention, product
from support.product_programs import matrix_product
from support.simulate import compile_cuda
from tessera.core.dtypes import f32
from tessera.lowering.target.cuda.tiles.decisions import DECISIONS

NAMES = [decision.name for decision in DECISIONS]


def test_a_product_of_aligned_matrices_goes_to_warp_groups_with_a_copying_warp():
    plan, _ = plan_of(product())
    assert plan is not None
    assert list(plan.products.values()) == ["wgmma"]
    assert plan.bits == 3
    (ring,) = plan.rings
    assert [str(load.name) for load in ring.loads] == ["tessera.load", "tessera.load"]
    assert ring.in_loop
    assert ring.running is not None
    assert plan.specialised
    assert plan.uneven == 0
    assert plan.stored == 4


@pytest.mark.parametrize(
    ("program", "arch", "kind"),
    [
        (matrix_product((128, 128, 64)), "sm_80", "mma"),
        (matrix_product((128, 128, 64)), "sm_100a", "mma"),
        (matrix_product((128, 128, 16), f32), "sm_90a", "fma"),
    ],
    ids=["sm_80", "sm_100a", "f32"],
)
def test_other_products(program, arch: str, kind: str):
    plan, _ = plan_of(program, arch)
    assert plan is not None
    assert list(plan.products.values()) == [kind]


def test_unaligned_matrices_are_not_for_the_copy_engine():
    plan, _ = plan_of(matrix_product((128, 128, 64), aligned=False, realign=False))
    assert plan is not None
    assert plan.rings == [] or not any(ring.loads for ring in plan.rings)


@pytest.mark.parametrize(("causal", "uneven"), [(False, 0), (True, 1)])
def test_attention(causal: bool, uneven: int):
    plan, _ = plan_of(attention(causal=causal))
    assert plan is not None
    assert [len(ring.loads) for ring in plan.rings] == [2, 1] or [len(ring.loads) for ring in plan.rings] == [1, 1, 1]
    (overlap,) = plan.overlaps.values()
    assert overlap.first != overlap.second
    assert plan.uneven == uneven


@pytest.mark.parametrize(("options", "cluster", "shared"), [({}, 1, 0), ({"cluster": 2}, 2, 1)])
def test_clusters_share_what_their_groups_have_in_common(options: dict[str, int], cluster: int, shared: int):
    plan, _ = plan_of(product(**options))
    assert plan is not None
    assert (plan.cluster, len(plan.shared)) == (cluster, shared)


@pytest.mark.parametrize(
    ("tile", "options", "band"),
    [((128, 256, 64), {}, 16), ((64, 256, 64), {}, 32), ((128, 64, 64), {}, 8), (TILE, {"band": 5}, 5),
     (TILE, {"band": 5, "cluster": 2}, 6)],
    ids=str,
)  # fmt: skip
def test_bands_make_what_runs_at_a_time_about_square(tile: tuple[int, int, int], options: dict[str, int], band: int):
    plan, _ = plan_of(product(tile, **options))
    assert plan is not None
    assert plan.band == band


def test_the_option_warps_is_obeyed():
    plan, _ = plan_of(product((128, 128, 64), warps=4))
    assert plan is not None
    assert plan.bits == 2


def test_every_decision_is_a_stage_that_shows_what_it_decided():
    compilation = compile_cuda(product(cluster=2))
    stages = {listing.stage: listing.text for listing in compilation.listings if listing.level == "tile"}
    assert [stage for stage in stages if stage.startswith("cuda-")] == NAMES
    assert "product wgmma" in stages["cuda-choose-products"]
    assert "warps 8" in stages["cuda-choose-team"]
    assert stages["cuda-copy-ahead"].count(" ring 0") == 2
    assert "runs_on into the next round" in stages["cuda-copy-ahead"]
    assert "shared by the cluster" in stages["cuda-order-groups"]
    assert " band 16 " in stages["cuda-order-groups"]
    assert " grid persistent " in stages["cuda-order-groups"]
    assert "layout registers [1:1, 0:8, 1:8" in stages["cuda-assign-layouts"]
    changed = {record.name: record.changed for record in compilation.passes if record.name in NAMES}
    assert changed["cuda-choose-products"]
    assert not changed["cuda-overlap-products"]


def test_who_looks_gets_the_same_code():
    compilation = compile_cuda(product())
    (target,) = [listing for listing in compilation.listings if listing.level == "target"]
    assert "tessera." not in target.text
