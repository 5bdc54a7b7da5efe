"""The size of a launch, compiled and guessed."""

from types import ModuleType

import numpy as np
import pytest

import tessera
from support import programs
from tessera.core.errors.catalog import MissingSchedule
from tessera.core.program.program import Domain
from tessera.core.targets import Target
from tessera.core.work import Shape
from tessera.performance.launch_shape import bound_extents, estimated_shape, launch_shape
from tessera.runtime.binding.grid import Grid

CPU, CUDA = Target("cpu", ""), Target("cuda", "")
SOURCE = """
@kernel
def gemm(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=32, BN=32, BK=32):
        tile.mma_sync(i, j, l)

@kernel
def rows(x: f32[n, m], y: mut f32[n, m]):
    y[:, :] = tile.softmax(x[:, :], axis=-1)

@kernel
def added(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = x[i] + y[i]

@kernel(tile=(32,))
def grouped(x: f32[n], y: mut f32[n]):
    i = tile.group_id(0) * 32 + tile.linear_id()
    if i < n:
        y[i] = x[i] + y[i]
"""
ARRAYS = {
    "gemm": [np.zeros((100, 40), np.float32), np.zeros((40, 70), np.float32), np.zeros((100, 70), np.float32)],
    "rows": [np.zeros((64, 32), np.float32), np.zeros((64, 32), np.float32)],
    "added": [np.zeros(20_000, np.float32), np.zeros(20_000, np.float32)],
    "grouped": [np.zeros(100, np.float32), np.zeros(100, np.float32)],
}


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return tessera.compile_source(SOURCE)


def shapes(module: object, name: str, grid: Grid | None = None) -> tuple[Shape, Shape]:
    kernel, values = getattr(module, name), ARRAYS[name]
    compiled = kernel.compile(*values, target="cpu")
    extents = bound_extents(compiled.program, kernel.described(tuple(values)).arguments)
    return (
        launch_shape(compiled.artifact, compiled.program, extents, grid),
        estimated_shape(compiled.program, extents, CPU, grid),
    )


def test_spread_loops(module: ModuleType):
    made, guessed = shapes(module, "gemm")
    assert made == guessed == Shape({"m": 100, "k": 40, "n": 70}, 12, (12, 1, 1), 1, None, 2)


def test_lanes(module: ModuleType):
    made, guessed = shapes(module, "added")
    assert made == guessed == Shape({"n": 20_000}, 3, (3, 1, 1), 8192, 20_000, 0)


def test_groups(module: ModuleType):
    made, guessed = shapes(module, "grouped", Grid((4,), None))
    assert made == guessed == Shape({"n": 100}, 4, (4, 1, 1), 32, None, 0)


def test_rows_that_the_compiler_spreads_are_one_piece_of_work(module: ModuleType):
    made, guessed = shapes(module, "rows")
    assert made.axes == guessed.axes == (1, 1, 1)
    assert made.groups > 1


def test_scaled_symbols(module: ModuleType):
    assert bound_extents(programs.matmul(), module.gemm.described(tuple(ARRAYS["gemm"])).arguments) == {
        "M": 100, "K": 40, "N": 70,
    }  # fmt: skip


def test_a_gpu_has_smaller_pieces():
    assert estimated_shape(programs.saxpy(), {"n": 1000}, CUDA).groups == 4


def test_a_grid_that_must_be_given():
    program = programs.saxpy()
    without = type(program)(
        program.name, program.parameters, program.body, program.symbols, Domain("lanes", ()), source=program.source
    )
    with pytest.raises(MissingSchedule):
        estimated_shape(without, {"n": 1000}, CUDA)
