"""The schedule view: plans for the CPU and, without a GPU, for CUDA."""

from pathlib import Path

import numpy as np
import pytest

import tessera
from support.operator_graphs import ROWS, attention, classify
from tessera.core.errors.catalog import NothingToShow
from tessera.core.settings import overridden
from tessera.viz import fusion, schedule
from tessera.viz.profile.schedule import ScheduleView

SOURCE = """
@kernel
def gemm(A: f16[m, k], B: f16[k, n], C: mut f16[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=128, BN=128, BK=64):
        tile.mma_sync(i, j, l)
"""


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ScheduleView]:
    arrays = [np.zeros((2048, 512), np.float16), np.zeros((512, 2048), np.float16), np.zeros((2048, 2048), np.float16)]
    with overridden(cache_dir=tmp_path_factory.mktemp("cache")):
        kernel = tessera.compile_source(SOURCE).gemm
        return {target: schedule(kernel, *arrays, target=target) for target in ("cpu", "cuda:sm_90a")}


def test_waves_account_for_all_groups(views: dict[str, ScheduleView]):
    for view in views.values():
        launch = view.data.launch
        assert launch.predicted is not None
        assert sorted(set(launch.predicted.group.tolist())) == list(range(256))
        assert launch.measured is None
        assert "times the predicted ones in the median of 10 kernels" in dict(launch.figures)["error of predictions"]
    assert sum(wave.groups for wave in views["cuda:sm_90a"].data.launch.waves) == 256


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90a"])
def test_a_kernel_of_operators_has_a_plan(target: str, tmp_path: Path):
    q = np.zeros((600, 64), np.float16)
    with overridden(cache_dir=tmp_path):
        view = schedule(attention, q, q, q, target=target)
    assert view.text().startswith("schedule of matmul_softmax for ")
    assert view.data.launch.predicted is not None
    assert view.data.group == fusion(attention, q, q, q).data.group
    assert (view.data.limits == ()) == (target == "cpu")


def test_one_kernel_of_several_is_chosen():
    assert "schedule of softmax for " in schedule(classify, *ROWS, kernel=1, target="cpu").text()
    with pytest.raises(NothingToShow, match="classify is 3 kernels, and 7 is none"):
        schedule(classify, *ROWS, kernel=7, target="cpu")


def test_one_limit_decides(views: dict[str, ScheduleView]):
    model = views["cuda:sm_90a"].data
    assert {limit.cause for limit in model.limits} == {"warps", "registers", "shared memory", "blocks"}
    assert {limit.blocks for limit in model.limits if limit.limits} == {model.per_unit}
    assert views["cpu"].data.limits == ()


def test_a_pipeline_is_drawn_where_there_is_one(views: dict[str, ScheduleView]):
    model = views["cuda:sm_90a"].data
    assert model.stages >= 2
    assert [step.name for step in model.pipeline[:2]] == ["load", "product"]
    assert views["cpu"].data.pipeline == ()


def test_forms(views: dict[str, ScheduleView], tmp_path: Path):
    view = views["cuda:sm_90a"]
    assert view.text().startswith("schedule of gemm for cuda: 256 groups, ")
    assert "shared memory" in view.plain_html()
    assert "<script" not in view.plain_html()
    assert view.save(tmp_path / "page.html").stat().st_size < 100_000


def test_of_several_launches_the_first_is_shown(tmp_path: Path):
    source = """
@kernel
def phased(x: f32[n, 16], y: mut f32[n, 16], total: mut f32[16]):
    for t in tile.range(n, step=16):
        y[t:t+16, :] = x[t:t+16, :] * 2.0
    for r in tile.range(n):
        total[:] += y[r, :]
"""
    x, y, total = np.zeros((64, 16), np.float32), np.zeros((64, 16), np.float32), np.zeros(16, np.float32)
    with overridden(cache_dir=tmp_path):
        view = schedule(tessera.compile_source(source).phased, x, y, total)
    assert view.title.endswith("; the first of the call's 4 launches")
    assert view.text() == "schedule of phased for cpu: 4 groups, by number; the first of the call's 4 launches"
