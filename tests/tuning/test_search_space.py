"""What is tried, what is not, and why."""

import dataclasses
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import tessera
from support.artifacts import scale_artifact
from tessera.core.artifact import LaunchRule, Resources
from tessera.core.errors.catalog import BadKernelOption
from tessera.kernels.kernel import Kernel
from tessera.performance.device_model import Machine
from tessera.tuning.results import Config, Trial
from tessera.tuning.search_space import Proposal, beyond, plan_search, propose, suggested_space

SOURCE = """
@kernel
def gemm(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=64, BN=512, BK=16):
        tile.mma_sync(i, j, l)

@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=stages):
        y[t:t+stages] = 2.0 * x[t:t+stages]

@kernel(target="cuda:sm_90a")
def product(A: bf16[m, k], B: bf16[k, n], C: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=64, BN=64, BK=64):
        tile.mma_sync(i, j, l)
"""
MACHINE = Machine("made up", 1, 2, "core", 1e10, 4e10, 1 << 20, {"f32": 1e11}, "made up", step=0.0, launch=0.0)
GPU = dataclasses.replace(
    MACHINE, on_gpu=True, unit="SM", units=100, shared_bytes=200_000, registers=65_536, lanes=2048, step=1e-7
)


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return tessera.compile_source(SOURCE)


def arrays(n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(n, np.float32), np.zeros(n, np.float32)


def configurations(kernel: Kernel, space: dict[str, Any], target: str) -> list[dict[str, Any]]:
    """Everything but the default."""
    plan = plan_search(kernel, space, target)
    return [dict(config) for config in plan.configs if config is not plan.default]


def sorted_out(
    kernel: Kernel, configs: list[Any], values: tuple[Any, ...], machine: Machine | None
) -> tuple[list[Proposal], list[Trial]]:
    made = [propose(kernel, config, values, None, machine) for config in configs]
    return [m for m in made if isinstance(m, Proposal)], [m for m in made if isinstance(m, Trial)]


def test_every_combination(module: ModuleType):
    assert configurations(module.gemm, {"BM": (1, 2), "BN": (3,)}, "cpu") == [{"BM": 1, "BN": 3}, {"BM": 2, "BN": 3}]
    assert configurations(module.gemm, {"BM": (1,), "stages": (2, 3)}, "cpu") == [{"BM": 1}]
    assert configurations(module.doubled, {"stages": (2, 3)}, "cpu") == [
        {"stages": 2}, {"stages": 3},  # its own parameter
    ]  # fmt: skip
    assert configurations(module.product, {"stages": (2, 3), "rows_per_group": (1,)}, "cuda") == [
        {"stages": 2, "rows_per_group": 1}, {"stages": 3, "rows_per_group": 1},
    ]  # fmt: skip
    assert configurations(module.product, {"stages": (2, 3), "rows_per_group": (1,)}, "cpu") == [{"rows_per_group": 1}]


DEFAULTS = """
STEP = 64

@kernel
def free(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = x[t:t+STEP] + OTHER

@kernel
def rows(x: f32[rows, cols], y: mut f32[rows, cols]):
    for r in tile.range(x.shape[0]):
        y[r, :] = x[r, :]

@kernel
def twice(A: f32[m, k], B: f32[k, n], C: mut f32[m, n], D: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=64, BN=32, BK=16):
        tile.mma_sync(i, j, l)
    for i, j, l in tile.mma(A, B, D, BM=32, BN=32, BK=16):
        tile.mma_sync(i, j, l)
"""


def test_the_default_is_what_the_kernel_itself_says(module: ModuleType):
    defaults = tessera.compile_source(DEFAULTS)

    def default(kernel: Kernel, *names: str) -> Config | None:
        plan = plan_search(kernel, dict.fromkeys(names, (1,)), "cpu")
        assert plan.default is None or plan.configs[0] == plan.default
        return plan.default

    assert default(module.gemm, "BM", "BK") == {"BM": 64, "BK": 16}  # keywords
    assert default(module.gemm.variant(BM=128), "BM", "BK") == {"BM": 128, "BK": 16}
    assert default(module.gemm, "BM", "rows_per_group") == {"BM": 64}  # the compiler's own choice of a schedule option
    assert default(module.gemm.variant(rows_per_group=2), "rows_per_group") == {"rows_per_group": 2}
    assert default(defaults.free, "STEP") == {"STEP": 64}  # a name of the program
    assert default(defaults.free, "STEP", "OTHER") is None  # which nothing defines
    assert default(defaults.free.variant(OTHER=1.5), "STEP", "OTHER") == {"STEP": 64, "OTHER": 1.5}
    assert default(defaults.rows, "rows_per_group") == {}  # an extent, which the arguments tell
    assert default(defaults.twice, "BM", "BN") == {"BN": 32}  # BM has two values


def test_the_default_is_tried_once_and_first(module: ModuleType):
    plan = plan_search(module.gemm, {"BM": (32, 64, 128)}, "cpu")
    assert plan.configs == ({"BM": 64}, {"BM": 32}, {"BM": 128})


def test_names_without_an_effect(module: ModuleType):
    plan = plan_search(module.doubled, {"BM": (1, 2), "num_warps": (4, 8), "stages": (1, 2)}, "cpu")
    assert plan.configs == ({"stages": 1}, {"stages": 2})
    assert plan.notes == (
        "BM has no effect: doubled does not use it",
        "num_warps has no effect on the target cpu: warps that share the work of a group",
    )


def test_options_of_layouts_and_stores_are_searched_and_what_clashes_is_left_out(module: ModuleType):
    values = tuple(np.zeros((128, 128), kind) for kind in (bfloat16, bfloat16, np.float32))
    space = {
        "num_warps": (4, 8),
        "warp_columns": (2, 8, 3),
        "vector_width": (4,),
        "epilogue_per_warpgroup": (True, False),
    }
    proposals, refused = sorted_out(module.product, configurations(module.product, space, "cuda"), values, GPU)
    tried = {(p.config["num_warps"], p.config["warp_columns"]) for p in proposals}
    assert tried == {(4, 2), (8, 2), (8, 8)}
    assert {p.config["epilogue_per_warpgroup"] for p in proposals} == {True, False}
    assert {trial.error for trial in refused} == {
        "warp_columns=8 is more than num_warps=4", "warp_columns=3 is not one of 1, 2, 4, 8, 16, 32",
    }  # fmt: skip
    unfit = module.product.with_constants({"num_warps": 4, "warp_columns": 2})
    with pytest.raises(BadKernelOption):  # a trial that is illegal, not one that failed
        unfit.compile_quietly(*values, target="cuda:sm_90a")


def test_suggestions_are_near_what_the_kernel_says(module: ModuleType):
    values = tuple(np.zeros((64, 64), np.float32) for _ in range(3))
    space = suggested_space(module.gemm.source, module.gemm.program(values), "cuda")
    assert space["BM"] == (32, 64, 128)
    assert space["BN"] == (256, 512)
    assert space["BK"] == (16, 32)
    assert space["stages"] == (2, 3, 4)


def test_proposals_carry_predictions_and_refusals_reasons(module: ModuleType):
    proposals, refused = sorted_out(module.doubled, [{"stages": 0}, {"stages": 32}], arrays(), MACHINE)
    assert [(p.config, p.kernel.options.constants) for p in proposals] == [({"stages": 32}, {"stages": 32})]
    assert proposals[0].predicted == pytest.approx(4000 / 1e10)
    assert (proposals[0].flops, proposals[0].traffic) == (512, 4000)
    assert [(t.config, t.status) for t in refused] == [({"stages": 0}, "illegal")]
    assert refused[0].error.startswith("TSR-E")


def test_what_no_multiprocessor_holds_is_not_compiled(module: ModuleType):
    shape = (1024, 1024)
    values = (np.zeros(shape, bfloat16), np.zeros(shape, bfloat16), np.zeros(shape, np.float32))
    configs = [{"BM": 128}, {"BM": 128, "stages": 99}, {"BM": 1024, "BN": 1024}]
    proposals, refused = sorted_out(module.product, configs, values, GPU)
    assert [p.config for p in proposals] == configs[:1]
    assert [(t.status, t.error.split(" ")[0]) for t in refused] == [("illegal", "stages=99"), ("pruned", "one")]
    assert refused[1].predicted is not None


def test_the_kernels_own_values_are_the_kernel_as_it_is(module: ModuleType):
    tuned = module.gemm.variant(BK=32).autotune(space={"BM": [32, 64]})
    made = propose(tuned, {"BM": 64}, arrays(), None, None, own=True)
    assert isinstance(made, Proposal)
    assert made.kernel.options.constants == {"BK": 32}  # so that what a call compiled is used
    assert made.kernel.options.space is None
    assert made.config == {"BM": 64}


def test_without_a_machine_everything_is_tried(module: ModuleType):
    proposals, refused = sorted_out(module.doubled, [{"stages": 0}], arrays(), None)
    assert [p.predicted for p in proposals] == [None]
    assert refused == []


def test_compiled_code_that_does_not_fit():
    rule = LaunchRule("groups", group=(512,))
    small = scale_artifact(launch=rule, resources=Resources(registers=128, shared_bytes=1000))
    assert beyond(small, GPU) == ""
    many = dataclasses.replace(small, resources=Resources(registers=130))
    assert beyond(many, GPU) == "a group needs 69632 registers, there are 65536"
    large = dataclasses.replace(small, resources=Resources(shared_bytes=200_001))
    assert beyond(large, GPU) == "a group needs 200001 bytes of shared memory, there are 200000"
    assert beyond(large, MACHINE) == ""
