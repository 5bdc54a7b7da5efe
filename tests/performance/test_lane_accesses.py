"""Distances between neighbouring lanes, and the memory that a warp touches, of kernels where both are known."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tessera
from tessera.core.settings import overridden
from tessera.performance.lane_accesses import LaneAccess, lane_accesses

SOURCE = """
@kernel
def columns(A: f32[M, K], x: f32[K], y: mut f32[M]):
    i = launch.thread_id()
    if i < M:
        total = 0.0
        for k in range(K):
            total += A[i, k] * x[k]
        y[i] = total

@kernel
def turned(A: f32[M, N], B: mut f32[N, M]):
    r, c = launch.thread_id(0), launch.thread_id(1)
    if r < M and c < N:
        B[c, r] = A[r, c]

@kernel
def gathered(x: f32[n], at: i64[n], y: mut f32[n]):
    i = launch.thread_id()
    if i < n:
        y[i] = x[at[i]]

@kernel
def on_tiles(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=64):
        y[t:t+64] = x[t:t+64]

@kernel tile[(4, 8)]
def grouped(A: f32[M, N], B: mut f32[M, N]):
    i, j = launch.thread_id(0), launch.thread_id(1)
    if i < M and j < N:
        B[i, j] = A[i, j]
"""


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[ModuleType]:
    with overridden(cache_dir=tmp_path):
        yield tessera.compile_source(SOURCE)


def found(kernel: tessera.Kernel, *arguments: object, segment_bytes: int = 64) -> dict[str, LaneAccess]:
    profile = tessera.profile(kernel)(*arguments)
    origin = profile.origin
    assert origin is not None
    accesses = lane_accesses(origin.compiled.program, origin.shape, segment_bytes)
    return {each.access.memory.name: each for each in accesses}


def test_rows_apart_and_one_element_for_all(kernels: ModuleType):
    A, x, y = np.ones((64, 100), np.float32), np.ones(100, np.float32), np.zeros(64, np.float32)
    seen = found(kernels.columns, A, x, y)
    assert (seen["A"].distance, seen["A"].segments, seen["A"].least, seen["A"].trips) == (100, 32, 2, 100)
    assert (seen["x"].distance, seen["x"].segments, seen["x"].least, seen["x"].trips) == (0, 1, 1, 100)
    assert (seen["y"].distance, seen["y"].segments, seen["y"].least, seen["y"].trips) == (1, 2, 2, 1)


def test_sectors_are_smaller_than_cache_lines(kernels: ModuleType):
    A, x, y = np.ones((64, 100), np.float32), np.ones(100, np.float32), np.zeros(64, np.float32)
    assert found(kernels.columns, A, x, y, segment_bytes=32)["y"].segments == 4


def test_a_transpose_is_apart_on_one_side(kernels: ModuleType):
    seen = found(kernels.turned, np.ones((48, 64), np.float32), np.zeros((64, 48), np.float32))
    assert (seen["A"].distance, seen["B"].distance) == (1, 48)
    assert (seen["A"].segments, seen["B"].segments) == (2, 32)


def test_a_group_with_two_axes_has_lanes_in_several_rows(kernels: ModuleType):
    seen = found(kernels.grouped, np.ones((64, 128), np.float32), np.zeros((64, 128), np.float32))
    assert seen["A"].distance == 1
    assert (seen["A"].segments, seen["A"].least) == (4, 2)


def test_places_that_depend_on_data_are_not_known(kernels: ModuleType):
    x = np.ones(64, np.float32)
    seen = found(kernels.gathered, x, np.arange(64), x.copy())
    assert set(seen) == {"at", "y"}


def test_arrays_with_gaps_and_kernels_on_tiles_are_left_out(kernels: ModuleType):
    A, x, y = np.ones((64, 200), np.float32)[:, ::2], np.ones(100, np.float32), np.zeros(64, np.float32)
    assert set(found(kernels.columns, A, x, y)) == {"x", "y"}
    assert found(kernels.on_tiles, np.ones(256, np.float32), np.ones(256, np.float32)) == {}
