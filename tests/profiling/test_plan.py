"""Plans of launches: real compilations for the CPU and, without a GPU, for CUDA."""

import numpy as np
import pytest

import tessera
from support.profiles import MACHINE
from tessera.core.settings import overridden
from tessera.performance.launch_shape import bound_extents, launch_shape
from tessera.performance.work_count import count_work
from tessera.profiling.plan import LaunchPlan, launch_plan

SOURCE = """
@kernel
def gemm(A: f16[m, k], B: f16[k, n], C: mut f16[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=128, BN=128, BK=64):
        tile.mma_sync(i, j, l)
"""


def plan(target: str) -> LaunchPlan:
    kernel = tessera.compile_source(SOURCE).gemm
    arrays = [np.zeros((1024, 512), np.float16), np.zeros((512, 512), np.float16), np.zeros((1024, 512), np.float16)]
    compiled = kernel.compile(*arrays, target=target)
    extents = bound_extents(compiled.program, kernel.described(tuple(arrays)).arguments)
    shape = launch_shape(compiled.artifact, compiled.program, extents)
    return launch_plan(compiled, shape, count_work(compiled.program, shape), MACHINE)


@pytest.fixture(scope="module")
def on_gpu(tmp_path_factory: pytest.TempPathFactory) -> LaunchPlan:
    with overridden(cache_dir=tmp_path_factory.mktemp("cache")):
        return plan("cuda:sm_90a")


def test_axes_and_array(on_gpu: LaunchPlan):
    assert [(axis.name, axis.size, axis.step) for axis in on_gpu.axes] == [("m", 8, 128), ("n", 4, 128)]
    assert on_gpu.array is not None
    assert (on_gpu.array.name, on_gpu.array.shape) == ("C", (1024, 512))
    assert on_gpu.lines == (4, 5)


def test_occupancy_and_its_limit_are_numbers(on_gpu: LaunchPlan):
    assert on_gpu.occupancy is not None
    assert on_gpu.per_unit == on_gpu.occupancy.blocks >= 1
    told = on_gpu.limited_by.split(" and ")
    assert [text.partition(" (")[0] for text in told] == list(on_gpu.occupancy.limited_by)
    assert all(" of " in text for text in told)


def test_the_schedule_of_the_passes_decides_the_order(on_gpu: LaunchPlan):
    assert on_gpu.schedule is not None
    assert on_gpu.schedule.stages >= 2
    assert set(on_gpu.tiles.group.tolist()) == set(range(32))
    assert on_gpu.order.startswith(("in bands of", "by number"))
