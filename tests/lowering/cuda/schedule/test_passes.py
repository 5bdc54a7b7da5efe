"""What is decided about tile kernels, and how it shows."""

import re
from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda.cases import plan_of
from lowering.cuda.hopper import TILE, attention, product
from lowering.cuda.schedule.test_layout_inference import sums
from support.product_programs import matrix_product
from support.simulate import compile_cuda, compile_ptx, ptx_of
from tessera.api.source_module import compile_source
from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import BadKernelOption
from tessera.core.program.program import Program
from tessera.lowering.cuda.resources import resource_report
from tessera.lowering.cuda.schedule.passes import SCHEDULE_PASSES

NAMES = [step.name for step in SCHEDULE_PASSES]


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
    assert plan.schedule.load_balance == 0
    assert plan.schedule.epilogue_stages == 4


@pytest.mark.parametrize(
    ("program", "arch", "kind"),
    [
        (matrix_product((128, 128, 64)), "sm_80", "mma"),
        (matrix_product((128, 128, 64)), "sm_100a", "mma"),
        (matrix_product((128, 128, 16), f32), "sm_90a", "fma"),
    ],
    ids=["sm_80", "sm_100a", "f32"],
)
def test_other_products(program: Program, arch: str, kind: str):
    plan, _ = plan_of(program, arch)
    assert plan is not None
    assert list(plan.products.values()) == [kind]


def test_unaligned_matrices_are_not_for_the_copy_engine():
    plan, _ = plan_of(matrix_product((128, 128, 64), aligned=False, pad_rows=False))
    assert plan is not None
    assert plan.rings == [] or not any(ring.loads for ring in plan.rings)


@pytest.mark.parametrize(("causal", "uneven"), [(False, 0), (True, 1)])
def test_attention(causal: bool, uneven: int):
    plan, _ = plan_of(attention(causal=causal))
    assert plan is not None
    assert [len(ring.loads) for ring in plan.rings] == [2, 1] or [len(ring.loads) for ring in plan.rings] == [1, 1, 1]
    (overlap,) = plan.overlaps.values()
    assert overlap.first != overlap.second
    assert plan.schedule.load_balance == uneven


@pytest.mark.parametrize(("options", "cluster", "shared"), [({}, 1, 0), ({"cluster": 2}, 2, 1)])
def test_clusters_share_what_their_groups_have_in_common(options: dict[str, int], cluster: int, shared: int):
    plan, _ = plan_of(replace(product(), options=options))
    assert plan is not None
    assert (plan.schedule.cluster, len(plan.shared)) == (cluster, shared)


@pytest.mark.parametrize(
    ("tile", "options", "band"),
    [((128, 256, 64), {}, 16), ((64, 256, 64), {}, 32), ((128, 64, 64), {}, 8), (TILE, {"raster_group": 5}, 5),
     (TILE, {"raster_group": 5, "cluster": 2}, 6)],
    ids=str,
)  # fmt: skip
def test_bands_make_what_runs_at_a_time_about_square(tile: tuple[int, int, int], options: dict[str, int], band: int):
    plan, _ = plan_of(replace(product(tile), options=options))
    assert plan is not None
    assert plan.schedule.raster_group == band


def test_the_option_warps_is_obeyed():
    plan, _ = plan_of(product((128, 128, 64), num_warps=4))
    assert plan is not None
    assert plan.bits == 2


def test_a_barrier_of_a_kernel_without_lanes_costs_nothing():
    text = """
@kernel
def weighted(Q: f16[M, 64], K: f16[M, 64], O: mut f16[M, 128]):
    for m in tile.range(M, step=128):
        q, k = Q[m:m+128, :], K[m:m+128, :]
        BARRIER
        O[m:m+128, :] = tile.softmax(tile.dot(q, k.T), axis=-1)
"""
    q, out = np.zeros((256, 64), np.float16), np.zeros((256, 128), np.float16)
    codes: list[str] = []
    for line in ("tile.barrier()", "pass"):
        compiled = compile_source(text.replace("BARRIER", line)).weighted.compile(q, q, out, target="cuda:sm_90a")
        assert compiled.resources().count("HGMMA") == 4
        codes += [one.text for one in compiled.listings if one.level == "ptx"]
    assert codes[0].count("bar.sync") == codes[1].count("bar.sync")


def test_products_that_may_not_overlap_are_waited_for_in_their_round():
    plan, _ = plan_of(product(overlap=False))
    assert plan is not None
    assert [ring.running for ring in plan.rings] == [None]
    plan, _ = plan_of(product())
    assert plan is not None
    assert all(ring.running is not None for ring in plan.rings)


def test_every_decision_is_a_stage_that_shows_what_it_decided():
    compilation = compile_cuda(product(cluster=2))
    stages = {listing.stage: listing.text for listing in compilation.listings if listing.level == "tile"}
    assert [stage for stage in stages if stage.startswith("cuda-")] == [*NAMES, "cuda-fit"]
    assert "instruction wgmma" in stages["cuda-select-mma"]
    assert " num_warps 8 " in stages["cuda-select-warps"]
    assert stages["cuda-pipeline-loads"].count(" pipeline 0") == 2
    assert "in_flight into the next iteration" in stages["cuda-pipeline-loads"]
    assert "shared by the cluster" in stages["cuda-rasterize"]
    assert " raster_group 16 " in stages["cuda-rasterize"]
    assert " grid persistent " in stages["cuda-rasterize"]
    assert "layout registers [1:1, 0:8, 1:8" in stages["cuda-infer-layouts"]
    changed = {record.name: record.changed for record in compilation.passes if record.name in NAMES}
    assert changed["cuda-select-mma"]
    assert not changed["cuda-overlap-mma"]


def test_who_looks_gets_the_same_code():
    compilation = compile_cuda(product())
    (target,) = [listing for listing in compilation.listings if listing.level == "target"]
    assert [word for word in target.text.split() if word.startswith("tessera.")] == ["tessera.buffers"]


def layouts_of(program: Program, arch: str = "sm_90a") -> dict[str, str]:
    """The layouts that the Tile IR shows, by the operation's name; the last one of each."""
    stages = {listing.stage: listing.text for listing in compile_cuda(program, arch).listings}
    found = re.findall(r"tessera\.(\w+) .*? layout ((?:\w+ \[.*?\] ?)+)", stages["cuda-infer-layouts"])
    return {name: layout.strip() for name, layout in found}


@pytest.mark.parametrize(
    ("columns", "layout"),
    [
        (1, "registers [1:1, 0:8, 1:8, 1:16, 1:32, 1:64, 0:64] lanes [1:2, 1:4, 0:1, 0:2, 0:4] warps [0:16, 0:32]"),
        (2, "registers [1:1, 0:8, 1:8, 1:16, 1:32, 0:32, 0:64] lanes [1:2, 1:4, 0:1, 0:2, 0:4] warps [0:16, 1:64]"),
        (4, "registers [1:1, 0:8, 1:8, 1:16, 0:16, 0:32, 0:64] lanes [1:2, 1:4, 0:1, 0:2, 0:4] warps [1:32, 1:64]"),
    ],
)
def test_warps_share_columns_as_the_option_warp_columns_says(columns: int, layout: str):
    assert layouts_of(matrix_product((128, 128, 32), warp_columns=columns), "sm_80")["dot"] == layout


@pytest.mark.parametrize(
    ("program", "arch", "words"),
    [
        (product(warp_columns=2), "sm_90a", "8 warps that share this product of 128 x 256 have warp_columns=1, not 2"),
        (matrix_product((128, 128, 32), warp_columns=8), "sm_80", "have warp_columns=1 or 2 or 4, not 8"),
        (
            matrix_product((32, 128, 16), f32, warp_columns=8, num_warps=8),
            "sm_80",
            "have warp_columns=1 or 2 or 4, not 8",
        ),
    ],
    ids=["warp groups", "mma", "fma"],
)
def test_warps_that_cannot_share_columns_so_are_a_mistake_at_the_product(program: Program, arch: str, words: str):
    with pytest.raises(BadKernelOption, match=words) as caught:
        compile_ptx(program, arch)
    (line,) = (op.span.line for op in program.body.walk() if op.opcode == "dot")
    assert caught.value.span.line == line


@pytest.mark.parametrize(
    ("vector", "layout"),
    [
        (1, "registers [1:128, 1:256, 1:512, 1:1024, 1:2048] lanes [1:1, 1:2, 1:4, 1:8, 1:16] warps [1:32, 1:64]"),
        (2, "registers [1:1, 1:128, 1:256, 1:512, 1:1024, 1:2048] lanes [1:2, 1:4, 1:8, 1:16, 1:32] warps [1:64]"),
        (4, "registers [1:1, 1:2, 1:128, 1:256, 1:512, 1:1024, 1:2048] lanes [1:4, 1:8, 1:16, 1:32, 1:64]"),
        (16, "registers [1:1, 1:2, 1:128, 1:256, 1:512, 1:1024, 1:2048] lanes [1:4, 1:8, 1:16, 1:32, 1:64]"),
    ],
)
def test_a_lane_has_as_many_neighbours_as_the_option_vector_says(vector: int, layout: str):
    """At most what 16 bytes hold; the team has as many warps as then have something to do."""
    assert layouts_of(sums(f32, (1, 4096), 1, vector_width=vector))["load"] == layout


@pytest.mark.parametrize(
    ("program", "arch", "buffers"),
    [
        (product(), "sm_90a", {"pipeline 0": (4, 49152), "stores": (2, 16384)}),
        (product(stages=3), "sm_90a", {"pipeline 0": (3, 49152), "stores": (4, 16384)}),
        (product(stages=7), "sm_90a", {"pipeline 0": (4, 49152), "stores": (2, 16384)}),  # more than there is room for
        (matrix_product((128, 128, 32)), "sm_80", {"copied by the consumer warps": (4, 16384)}),
        (matrix_product((128, 128, 32), stages=1), "sm_80", {"copied by the consumer warps": (1, 16384)}),
    ],
    ids=["scratch", "fewer", "more", "warp_set", "none ahead"],
)
def test_the_target_level_and_the_report_say_how_deep_rings_became(
    program: Program, arch: str, buffers: dict[str, tuple[int, int]]
):
    compilation = compile_cuda(program, arch)
    (target,) = [listing.text for listing in compilation.listings if listing.level == "target"]
    shown = re.search(r"tessera\.buffers = \[(.*?)\]", target)
    assert shown is not None
    found = resource_report(compilation.artifact)
    assert re.findall(r'"(.*?)"', shown[1]) == [str(one) for one in found.buffers]
    assert {one.role: (one.count, one.size) for one in found.buffers} == buffers
    assert sum(one.count * one.size for one in found.buffers) <= found.shared_bytes
    if "pipeline 0" in buffers:  # a barrier for "full" and one for "empty" each
        assert ptx_of(compile_ptx(program, arch)).count("mbarrier.init") == 2 * buffers["pipeline 0"][0]
