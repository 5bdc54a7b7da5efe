"""Kernels with a flaw that can be read off them get the advice that names its line; those without it get none."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tessera
from tessera.core.settings import overridden
from tessera.profiling.advice.model import Advice
from tessera.profiling.advice.program_rules import scalar_product, strided_lanes, sum_in_memory
from tessera.profiling.results import Profile

Matrix = np.ndarray[Any, Any]
SOURCE = """
@kernel
def rows_first(A: f32[M, K], B: f32[K, N], C: mut f32[M, N]):
    j, i = launch.thread_id(0), launch.thread_id(1)
    if j < N and i < M:
        total = 0.0
        for k in range(K):
            total += A[i, k] * B[k, j]
        C[i, j] = total

@kernel
def columns_first(A: f32[M, K], B: f32[K, N], C: mut f32[M, N]):
    i, j = launch.thread_id(0), launch.thread_id(1)
    if i < M and j < N:
        total = 0.0
        for k in range(K):
            total = tile.fma(A[i, k], B[k, j], total)
        C[i, j] = total

@kernel
def by_transposes(A: f16[K, M], B: f16[N, K], C: mut f32[M, N]):
    for i in tile.range(M):
        for j in range(N):
            total = 0.0
            for k in range(K):
                total += f32(B[j, k]) * f32(A[k, i])
            C[i, j] = total

@kernel
def matvec(A: f32[M, K], x: f32[K], y: mut f32[M]):
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
def in_memory(A: f32[M, K], B: f32[K, N], C: mut f32[M, N]):
    for m in tile.range(M, step=32):
        for n in tile.range(N, step=32):
            for k in range(0, K, 32):
                C[m:m+32, n:n+32] += tile.dot(A[m:m+32, k:k+32], B[k:k+32, n:n+32])

@kernel
def outer_products(A: f32[M, K], B: f32[K, N], C: mut f32[M, N]):
    for k in tile.range(K, step=32):
        for m in tile.range(M, step=32):
            for n in tile.range(N, step=32):
                C[m:m+32, n:n+32] += tile.dot(A[m:m+32, k:k+32], B[k:k+32, n:n+32])

@kernel
def in_a_variable(A: f32[M, K], B: f32[K, N], C: mut f32[M, N]):
    for m in tile.range(M, step=32):
        for n in tile.range(N, step=32):
            total = tile.zeros((32, 32), f32)
            for k in range(0, K, 32):
                total += tile.dot(A[m:m+32, k:k+32], B[k:k+32, n:n+32])
            C[m:m+32, n:n+32] = total

@kernel
def in_place(x: f32[n], out: mut f32[1]):
    for t in tile.range(n, step=64):
        out[0] += tile.sum(x[t:t+64])

@kernel
def scanned(x: f32[n], y: mut f32[m]):
    for t in tile.range(m, step=64):
        for k in range(0, n):
            y[t:t+64] = y[t:t+64] + y[t+1:t+65] + x[k]

@kernel
def in_turns(x: f32[n], y: mut f32[m]):
    for t in tile.range(m, step=64):
        for k in range(0, n):
            first = 64 * (k // 4) + t
            y[first:first+64] += x[k]
"""
SLOW = 1.0
"""Seconds that a launch is said to take: far from any limit."""


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[ModuleType]:
    with overridden(cache_dir=tmp_path):
        yield tessera.compile_source(SOURCE)


def launched(kernel: tessera.Kernel, *arguments: object) -> Profile:
    return dataclasses.replace(tessera.profile(kernel)(*arguments), plain=(SLOW,))


def matrices(dtype: type[np.generic] = np.float32, size: int = 128) -> tuple[Matrix, Matrix, Matrix]:
    return np.ones((size, size), dtype), np.ones((size, size), dtype), np.zeros((size, size), np.float32)


def only(rule: Callable[[Profile], Iterator[Advice]], profile: Profile) -> Advice:
    (advice,) = rule(profile)
    return advice


def test_lanes_along_rows_read_apart(kernels: ModuleType):
    profile = launched(kernels.rows_first, *matrices())
    advice = only(strided_lanes, profile)
    assert advice.lines == (8,)
    assert "Neighbouring lanes read A[i, k] 128 elements apart (line 8)" in advice.text
    assert "touch 32 cache lines where 2 would do. Lanes are numbered along the last axis" in advice.text
    # 128 trips of 32 lines for A and 1 for B, and 32 for C once, where 2, 1 and 2 are enough.
    assert advice.gain == pytest.approx(1 - (128 * 3 + 2) / (128 * 33 + 32))
    assert str(advice.evidence[0]) == "distance between lanes 128 elements"


def test_a_transpose_is_told_to_move_tiles(kernels: ModuleType):
    profile = launched(kernels.turned, np.ones((96, 64), np.float32), np.zeros((64, 96), np.float32))
    advice = only(strided_lanes, profile)
    assert "Neighbouring lanes write B[c, r] 96 elements apart (line 42)" in advice.text
    assert "tile.transpose" in advice.text


def test_lanes_side_by_side_are_left_alone(kernels: ModuleType):
    assert list(strided_lanes(launched(kernels.columns_first, *matrices()))) == []
    assert list(strided_lanes(launched(kernels.in_memory, *matrices()))) == []


@pytest.mark.parametrize(("name", "line"), [("rows_first", 8), ("columns_first", 17)])
def test_a_product_of_elements_is_told_of_tiles(kernels: ModuleType, name: str, line: int):
    profile = launched(getattr(kernels, name), *matrices())
    advice = only(scalar_product, profile)
    assert advice.lines == (line,)
    assert "tile.dot(A[m:m+32, k:k+32], B[k:k+32, n:n+32]) in loops over m, n and k" in advice.text
    assert advice.gain == pytest.approx(1 - profile.attained)
    assert "loads of each multiply-add 2" in map(str, advice.evidence)


def test_the_example_turns_factors_that_lie_the_other_way(kernels: ModuleType):
    advice = only(scalar_product, launched(kernels.by_transposes, *matrices(np.float16, 32)))
    assert "tile.dot(B[m:m+32, k:k+32], A[k:k+32, n:n+32])" in advice.text
    assert advice.lines == (26,)


def test_a_matrix_times_a_vector_is_no_matrix_product(kernels: ModuleType):
    vector = np.ones(128, np.float32)
    assert list(scalar_product(launched(kernels.matvec, np.ones((128, 128), np.float32), vector, vector.copy()))) == []


def test_a_product_of_tiles_is_none_of_elements(kernels: ModuleType):
    assert list(scalar_product(launched(kernels.in_a_variable, *matrices()))) == []


def test_a_sum_in_memory_names_its_place_and_its_loop(kernels: ModuleType):
    profile = launched(kernels.in_memory, *matrices())
    advice = only(sum_in_memory, profile)
    assert advice.lines == (49, 48)
    assert "in each of the 4 trips of the loop in line 48, which does not move it. Keep the sum" in advice.text
    # Of 4 trips, each of which asks for A, B and C and writes C, three of C's reads and writes are not needed.
    tile = 32 * 32 * 4
    share = 3 * 2 * tile / (4 * 4 * tile)
    assert advice.gain == pytest.approx((1 - profile.attained) * share)
    assert "of all that groups ask for 38%" in map(str, advice.evidence)


def test_a_loop_outside_is_told_to_be_the_innermost(kernels: ModuleType):
    with pytest.warns(RuntimeWarning, match="run one after the other"):
        profile = launched(kernels.outer_products, *matrices(size=1024))
    advice = only(sum_in_memory, profile)
    assert advice.lines == (56, 53)
    assert "in each of the 32 trips" in advice.text
    assert "Make that loop the innermost one, and keep the sum" in advice.text


def test_sums_that_are_not_in_memory_are_left_alone(kernels: ModuleType):
    assert list(sum_in_memory(launched(kernels.in_a_variable, *matrices()))) == []
    assert list(sum_in_memory(launched(kernels.in_turns, np.ones(8, np.float32), np.ones(256, np.float32)))) == []
    assert list(sum_in_memory(launched(kernels.in_place, np.ones(4096, np.float32), np.zeros(1, np.float32)))) == []


def test_a_place_whose_neighbours_are_read_must_be_in_memory(kernels: ModuleType):
    assert list(sum_in_memory(launched(kernels.scanned, np.ones(8, np.float32), np.ones(256, np.float32)))) == []


def test_a_profile_of_records_alone_says_nothing(kernels: ModuleType):
    profile = dataclasses.replace(launched(kernels.in_memory, *matrices()), origin=None)
    assert [each for rule in (strided_lanes, scalar_product, sum_in_memory) for each in rule(profile)] == []
