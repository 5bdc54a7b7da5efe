"""Counted work against what a person, or a plain loop, counts."""

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from support import programs
from support.product_programs import matrix_product
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Program
from tessera.core.work import Dot, Shape
from tessera.performance.launch_shape import bound_extents
from tessera.performance.work_count import BRANCHES, EVEN, LENGTHS, count_work, spread_loops

SOURCE = """
@kernel
def causal(x: f32[n, 16], y: mut f32[n, 16]):
    for q in tile.range(n, step=32):
        acc = tile.zeros((32, 16), f32)
        for k in tile.range(q + 32, step=32):
            acc = acc + x[k:k+32, :]
        y[q:q+32, :] = acc

@kernel
def activated(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=64):
        y[t:t+64] = tile.exp(x[t:t+64]) * 2.0

@kernel
def clamped(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        if x[i] > 0.0:
            y[i] = x[i]

@kernel
def collatz(x: i32[n], y: mut i32[n]):
    i = tile.linear_id()
    if i < n:
        v = x[i]
        c = 0
        while v > 1:
            v = v // 2
            c = c + 1
        y[i] = c

@kernel(tile=(64,))
def striped(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    for k in range(i, n, 64):
        y[k] = x[k] + 1.0

@kernel(tile=(8, 4))
def grid2(x: f32[n, m], y: mut f32[n, m]):
    r = tile.group_id(0)
    c = tile.group_id(1)
    if r < n:
        if c < m:
            y[r, c] = x[r, c]
"""


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return tessera.compile_source(SOURCE)


def program(kernel: tessera.Kernel, *values: object) -> tuple[Program, dict[str, int]]:
    found = kernel.program(values)
    return found, bound_extents(found, kernel.described(values).arguments)


@pytest.mark.parametrize("n", [100, 256, 3000, (1 << 24) + 5])
def test_lanes(n: int):
    work = count_work(programs.saxpy(), Shape({"n": n}, -(-n // 256), lanes=256, whole=n))
    assert work.groups == -(-n // 256)
    assert work.read.sum() == 8 * n
    assert work.written.sum() == 4 * n
    assert work.read[-1] == 8 * (n - 256 * (work.groups - 1))
    assert work.by_kind == {"f32": 2 * n}
    assert (work.least_read, work.least_written) == (8 * n, 4 * n)
    assert work.notes == ()


@settings(max_examples=30)
@given(*(st.integers(1, 150) for _ in range(3)))
def test_products(m: int, n: int, k: int):
    rows, columns, steps = -(-m // 64), -(-n // 64), -(-k // 32)
    work = count_work(programs.matmul(), Shape({"M": m, "N": n, "K": k}, rows * columns, ranges=2))
    heights = [min(64, m - 64 * r) for r in range(rows)]
    widths = [min(64, n - 64 * c) for c in range(columns)]
    np.testing.assert_allclose(work.read, [4 * k * (h + w) for h in heights for w in widths])
    np.testing.assert_allclose(work.written, [4 * h * w for h in heights for w in widths])
    np.testing.assert_allclose(work.flops, 2 * 64 * 64 * 32 * steps)
    assert work.by_kind == {"dot f32": 2 * 64 * 64 * 32 * steps * rows * columns}
    assert work.least_bytes == 4 * (m * k + k * n + m * n)
    assert work.dots == (Dot(64, 64, 32, "f32"),)
    assert work.steps == rows * columns * (2 + 3 * steps)
    assert work.requested_bytes == work.read.sum() + work.written.sum()


def test_products_of_tf32_have_a_rate_of_their_own():
    program = matrix_product((64, 64, 32), f32, compute="tf32")
    work = count_work(program, Shape({"M": 64, "N": 64, "K": 64}, 1, ranges=2))
    assert work.by_kind == {"dot tf32": 2 * 64 * 64 * 64}
    (dot,) = work.dots
    assert (dot.dtype, dot.operand_bytes) == ("tf32", 4 * 2 * 64 * 32)


def test_loops_that_are_shorter_in_some_groups(module: ModuleType):
    n = 100
    x = np.zeros((n, 16), np.float32)
    found, extents = program(module.causal, x, x.copy())
    work = count_work(found, Shape(extents, 4, ranges=1))
    np.testing.assert_allclose(work.read, [64 * min(n, 32 * (g + 1)) for g in range(4)])
    np.testing.assert_allclose(work.flops, [32 * 16 * (g + 1) for g in range(4)])
    assert work.least_bytes == 2 * x.nbytes
    assert work.notes == ()


def test_special_functions_have_a_kind_of_their_own(module: ModuleType):
    x = np.zeros(100, np.float32)
    found, extents = program(module.activated, x, x.copy())
    assert count_work(found, Shape(extents, 2, ranges=1)).by_kind == {"special": 128, "f32": 128}


def test_branches_on_data_are_taken(module: ModuleType):
    x = np.zeros(100, np.float32)
    found, extents = program(module.clamped, x, x.copy())
    work = count_work(found, Shape(extents, 1, lanes=128, whole=100))
    assert work.written.sum() == 400
    assert work.notes == (BRANCHES,)


def test_endless_loops_are_one_turn(module: ModuleType):
    x = np.zeros(100, np.int32)
    found, extents = program(module.collatz, x, x.copy())
    work = count_work(found, Shape(extents, 1, lanes=128, whole=100))
    assert (work.read.sum(), work.written.sum(), work.total_flops) == (400, 400, 0)
    assert LENGTHS in work.notes


def test_lanes_that_stride(module: ModuleType):
    x = np.zeros(1000, np.float32)
    found, extents = program(module.striped, x, x.copy())
    work = count_work(found, Shape(extents, 1, lanes=64))
    assert (work.read.sum(), work.written.sum(), work.total_flops) == (4000, 4000, 1000)


def test_what_a_group_does_once(module: ModuleType):
    x = np.zeros((3, 2), np.float32)
    found, extents = program(module.grid2, x, x.copy())
    work = count_work(found, Shape(extents, 12, (4, 3, 1), lanes=32))
    inside = [4.0 if group // 3 < 3 and group % 3 < 2 else 0.0 for group in range(12)]
    np.testing.assert_array_equal(work.read, inside)
    np.testing.assert_array_equal(work.written, inside)


def test_groups_with_shared_memory():
    work = count_work(programs.group_sum(), Shape({"n": 500, "grid_groups": 3}, 3, (3, 1, 1), 128))
    np.testing.assert_array_equal(work.read, [2000.0] * 3)
    np.testing.assert_array_equal(work.written, [4.0] * 3)
    assert work.least_read == 2000  # three groups read one array
    assert work.by_kind == {"f32": 3 * (500 + 128)}


def test_work_that_is_spread_by_rows_is_divided_evenly():
    work = count_work(programs.tile_copy(), Shape({"n": 256}, 8, (1, 1, 1)))
    np.testing.assert_array_equal(work.read, [128.0] * 8)
    assert work.notes == (EVEN,)


def test_softmax():
    work = count_work(programs.softmax_rows(), Shape({"R": 20}, 3, ranges=1))
    assert work.by_kind == {"special": 3 * 8 * 256, "f32": 4 * 3 * 8 * 256}
    np.testing.assert_array_equal(work.read, [8192, 8192, 4096])


def test_nothing_to_do():
    work = count_work(programs.saxpy(), Shape({"n": 0}, 0, lanes=256, whole=0))
    assert (work.groups, work.requested_bytes, work.total_flops, work.least_bytes) == (0, 0, 0, 0)


def test_spread_loops():
    assert len(spread_loops(programs.matmul())) == 2
    assert len(spread_loops(programs.tile_copy())) == 1
    assert spread_loops(programs.saxpy()) == ()
