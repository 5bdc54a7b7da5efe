"""Loops over tiles that people write, spread over groups on every target, with NumPy's values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from support.simulate import compile_ptx, launch
from tessera import f32, i64, kernel, mut, tile
from tessera.core.program.expressions import to_text
from tessera.core.settings import overridden

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


def inner(x, w):
    y = np.zeros_like(x)
    last = min(len(x), 1 + -(-(len(x) - 2) // 8) * 8)
    y[1:last] = (x * w)[1:last]
    return y


@kernel
def scattered(x: f32[rows, cols], w: f32[cols], to: i64[rows], y: mut[f32[rows, cols]]):
    for r in tile.range(rows, parallel=True):
        y[to[r], :] = x[r, :] * w[:]


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


def product(x, w):
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
