"""Loops over tiles that people write, spread over groups on every target, with NumPy's values."""

# The names of shapes in kernels are bound at launch, and the language reads the bodies, not Python.
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.every_target import everywhere
from support.simulate import compile_ptx, launch, launch_phases
from tessera import f32, i64, kernel, mut, tile
from tessera.core.base.reductions import tree_sum
from tessera.core.errors.catalog import OverlappingArrays
from tessera.core.program.expressions import to_text
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel

random = np.random.default_rng(7)


@kernel
def scale_before(x: f32[rows, cols], w: f32[cols], y: mut[f32[rows, cols]]):
    scale = w[:] * 2.0
    for r in tile.range(rows):
        y[r, :] = x[r, :] * scale


@kernel
def rows_in_blocks(x: f32[rows, cols], w: f32[cols], y: mut[f32[rows, cols]]):
    for m in tile.range(rows, step=32):
        for r in range(m, m + 32):
            y[r, :] = x[r, :] * w[:]


@kernel
def ragged_blocks(x: f32[rows, cols], w: f32[cols], y: mut[f32[rows, cols]]):
    for g in tile.range((rows + 31) // 32):
        for r in range(g * 32, min(rows, (g + 1) * 32)):
            y[r, :] = x[r, :] * w[:]


@kernel
def reversed_rows(x: f32[rows, cols], w: f32[cols], y: mut[f32[rows, cols]]):
    for r in tile.range(rows):
        y[rows - 1 - r, :] = x[r, :] * w[:]


@kernel
def inner_rows(x: f32[rows, cols], w: f32[cols], y: mut[f32[rows, cols]]):
    for r in tile.range(1, rows - 1, step=8):
        y[r : r + 8, :] = x[r : r + 8, :] * w[:]


@kernel
def cumulative(x: f32[rows, cols], w: f32[cols], y: mut[f32[rows, cols]]):
    i = tile.arange(cols)
    ones = tile.where(i[:, None] <= i[None, :], 1.0, 0.0)
    for r in tile.range(rows, step=16):
        y[r : r + 16, :] = tile.dot(x[r : r + 16, :], ones)


def inner(x: np.ndarray, w: np.ndarray):
    y = np.zeros_like(x)
    last = min(len(x), 1 + -(-(len(x) - 2) // 8) * 8)
    y[1:last] = (x * w)[1:last]
    return y


@kernel
def scattered(x: f32[rows, cols], w: f32[cols], to: i64[rows], y: mut[f32[rows, cols]]):
    for r in tile.range(rows, parallel=True):
        y[to[r], :] = x[r, :] * w[:]


@kernel
def two_loops(x: f32[rows, cols], w: f32[cols], h: mut[f32[rows, cols]], y: mut[f32[rows, cols]]):
    for r in tile.range(rows):
        h[r, :] = x[r, :] * w[:]
    first = h[0, :]
    for r in tile.range(rows):
        y[r, :] = h[rows - 1 - r, :] + first


@kernel
def everything(x: f32[rows, cols], w: f32[cols], out: mut[f32[1]]):
    out[0] += 1.0
    for r in tile.range(rows):
        for c in tile.range(cols, step=32):
            out[0] += tile.sum(x[r, c : c + 32])


@kernel
def layer_norm_sums(x: f32[rows, cols], w: f32[cols], y: mut[f32[rows, cols]], dw: mut[f32[cols]], top: mut[f32[1]]):
    for g in tile.range((rows + 31) // 32):
        for r in range(g * 32, min(rows, (g + 1) * 32)):
            y[r, :] = x[r, :] * w[:]
    for r in tile.range(rows):
        dw[:] += x[r, :] * w[:]
        top[0] = max(top[0], tile.max(x[r, :]))


@dataclass(frozen=True)
class Case:
    kernel: Any
    expected: Callable[..., np.ndarray]
    groups: str
    rows: int = 75
    cols: int = 48
    more: tuple[Any, ...] = ()

    @property
    def arguments(self) -> tuple[np.ndarray, ...]:
        x = random.integers(-8, 8, (self.rows, self.cols)).astype(np.float32)
        w = random.integers(-8, 8, self.cols).astype(np.float32)
        return x, w, *self.more, np.zeros_like(x)

    def __str__(self) -> str:
        return self.kernel.source.name


def product(x: np.ndarray, w: np.ndarray):
    return x * w


PLACES = random.permutation(75)
CASES = [
    Case(scale_before, lambda x, w: x * w * 2, "rows"),
    Case(rows_in_blocks, product, "rows"),
    Case(ragged_blocks, product, "(rows + 31) // 32"),
    Case(reversed_rows, lambda x, w: (x * w)[::-1], "rows"),
    Case(inner_rows, inner, "rows - 2"),
    Case(scattered, lambda x, w: (x * w)[PLACES.argsort()], "rows", more=(PLACES,)),
    Case(cumulative, lambda x, w: x.cumsum(axis=1), "rows"),
]
EVERY_TARGET = ("interpret", "cpu", *(pytest.param(name, marks=pytest.mark.gpu) for name in ("cuda", "cuda_tile")))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET)
def test_values(case: Case, target: str):
    with overridden(target=target):
        arguments = case.arguments
        case.kernel(*arguments)
        np.testing.assert_array_equal(arguments[-1], case.expected(*arguments[:2]))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90a", "cuda_tile:sm_90"])
def test_groups(case: Case, target: str):
    rule = case.kernel.compile(*case.arguments, target=target).artifact.launch
    assert rule.kind == "ranges"
    assert [to_text(length) for length, _ in rule.ranges] == [case.groups]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ptx(case: Case):
    arguments = case.arguments
    with overridden(target="cuda:sm_90a"):
        program = case.kernel.program(arguments)
    launch(compile_ptx(program), arguments)
    np.testing.assert_array_equal(arguments[-1], case.expected(*arguments[:2]))


# -- several launches in one call --------------------------------------------------------------------------------------


def doubled(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
    h = x * w
    return h, h[::-1] + h[0]


def summed(x: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, ...]:
    """Every trip's sum, added as all reductions are: over 32 elements, then over the trips."""
    parts = np.zeros((len(x), -(-x.shape[1] // 32) * 32), np.float32)
    parts[:, : x.shape[1]] = x
    trips = tree_sum(parts.reshape(-1, 32), 1)
    return ((np.float32(1) + tree_sum(trips, 0)).reshape(1),)


def normalised(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
    return x * w, tree_sum(x * w, 0), x.max().reshape(1)


PHASED = [
    (two_loops, doubled, ["rows", "rows"]),
    (everything, summed, [
        "(rows * ((cols + 31) // 32) + 4095) // 4096 * 128", "(rows * ((cols + 31) // 32) + 4095) // 4096", "1",
    ]),
    (layer_norm_sums, normalised, [
        "(rows + 31) // 32", "(rows + 4095) // 4096 * 128", "(rows + 4095) // 4096 * 2", "(rows + 4095) // 4096", "1",
    ]),
]  # fmt: skip
NAMES = [one.source.name for one, _, _ in PHASED]


def phased_arguments(rows: int, cols: int, results: int) -> tuple[np.ndarray, ...]:
    x = random.standard_normal((rows, cols)).astype(np.float32)
    w = random.standard_normal(cols).astype(np.float32)
    shapes = {1: [(1,)], 2: [(rows, cols)] * 2, 3: [(rows, cols), (cols,), (1,)]}[results]
    return x, w, *(np.zeros(shape, np.float32) for shape in shapes)


@pytest.mark.parametrize(("called", "expected", "groups"), PHASED, ids=NAMES)
@pytest.mark.parametrize("rows", [1, 75, 5000])
@pytest.mark.parametrize("target", EVERY_TARGET)
def test_the_same_bits_in_phases(
    called: Kernel, expected: Callable[..., tuple[np.ndarray, ...]], groups: list[str], rows: int, target: str
):
    with overridden(target=target):
        arguments = phased_arguments(rows, 48, len(expected(np.ones((1, 1), np.float32), np.ones(1, np.float32))))
        want = expected(*arguments[:2])
        called(*arguments)
        for result, one in zip(arguments[2:], want, strict=True):
            np.testing.assert_array_equal(result, one)


@pytest.mark.parametrize(("called", "expected", "groups"), PHASED, ids=NAMES)
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90a", "cuda_tile:sm_90"])
def test_groups_of_phases(
    called: Kernel, expected: Callable[..., tuple[np.ndarray, ...]], groups: list[str], target: str
):
    results = len(expected(np.ones((1, 1), np.float32), np.ones(1, np.float32)))
    compiled = called.compile(*phased_arguments(9, 48, results), target=target)
    counts = [artifact.launch.groups for artifact in compiled.artifacts]
    assert [None if count is None else to_text(count) for count in counts] == groups
    assert all(artifact.remarks == () for artifact in compiled.artifacts)


@pytest.mark.parametrize(("called", "expected", "groups"), PHASED, ids=NAMES)
def test_ptx_in_phases(called: Kernel, expected: Callable[..., tuple[np.ndarray, ...]], groups: list[str]):
    results = len(expected(np.ones((1, 1), np.float32), np.ones(1, np.float32)))
    arguments = phased_arguments(40, 48, results)
    want = expected(*arguments[:2])
    with overridden(target="cuda:sm_90a"):
        program = called.program(arguments)
    launch_phases(program, arguments)
    for result, one in zip(arguments[2:], want, strict=True):
        np.testing.assert_array_equal(result, one)


# -- one array for two parameters --------------------------------------------------------------------------------------


@kernel
def less_first(x: f32[rows, cols], y: mut[f32[rows, cols]]):
    first = x[0, :]
    for r in tile.range(rows):
        y[r, :] = x[r, :] - first


@kernel
def turned(x: f32[rows, cols], y: mut[f32[rows, cols]]):
    for r in tile.range(rows):
        y[rows - 1 - r, :] = x[r, :]


@pytest.mark.parametrize("target", EVERY_TARGET)
def test_in_place_with_what_stands_before_the_loop(target: str):
    with overridden(target=target):
        x = random.integers(-8, 8, (600, 32)).astype(np.float32)
        want = x - x[0]
        less_first(x, x)
        np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("target", EVERY_TARGET[1:])
def test_what_trips_read_of_each_other_is_refused(target: str):
    with overridden(target=target):
        x = random.integers(-8, 8, (600, 32)).astype(np.float32)
        y = np.zeros_like(x)
        turned(x, y)
        np.testing.assert_array_equal(y, x[::-1])
        with pytest.raises(OverlappingArrays, match="y is written, and y and x are one memory, of which trips"):
            turned(x, x)


def test_a_sum_of_short_floats_that_begins_with_a_literal():
    """In bf16 a sum of ones stops at 256."""
    text = """
@kernel
def k(x: bf16[n], y: mut f32[2]):
    acc, least = 0.0, 3.0
    for j in range(n):
        acc += x[j]
        least = min(least, x[j])
    y[0] = acc
    y[1] = least
"""
    x = np.ones(300, ml_dtypes.bfloat16)
    everywhere(text, [x, np.zeros(2, np.float32)], [x, np.array([300, 1], np.float32)])
