"""Kernels as people write them, on blocks that stick out: right as written, against NumPy, on every target."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tessera.core.settings import overridden

TEXT = """
@kernel
def softmax(x: bf16[rows, n], y: mut f32[rows, n], scale: f32):
    for r in tile.range(rows):
        y[r, 0:1024] = tile.softmax(tile.cast(x[r, 0:1024], f32) * scale)

@kernel
def moments(x: bf16[rows, n], out: mut f32[rows, 4], scale: f32):
    for r in tile.range(rows):
        row = tile.cast(x[r, 0:1024], f32)
        centred = row - tile.sum(row) / n
        out[r, 0] = tile.sum(centred * centred) / n
        out[r, 1] = tile.max(row)
        out[r, 2] = tile.min(-row)
        out[r, 3] = tile.sum(row + scale)

@kernel
def columns(x: bf16[rows, n], out: mut f32[n], scale: f32):
    for c in tile.range(n, step=64):
        total = tile.zeros((64, 64))
        for r in range(0, rows, 64):
            total += tile.cast(x[r:r+64, c:c+64], f32) + scale
        out[c:c+64] = tile.sum(total, axis=0)

@kernel
def shifted(x: bf16[rows, n], y: mut f32[rows, m], scale: f32):
    for r in tile.range(rows, step=16):
        for c in tile.range(m, step=128):
            y[r:r+16, c:c+128] = tile.cast(x[r-1:r+15, c-3:c+125], f32) * scale

@kernel
def attention(q: bf16[queries, 64], k: bf16[keys, 64], v: bf16[keys, 64], out: mut f32[queries, 64], scale: f32):
    for i in tile.range(queries, step=64):
        top, total = tile.full((64,), -1e30), tile.zeros((64,))
        acc = tile.zeros((64, 64))
        for j in range(0, keys, 64):
            s = tile.dot(q[i:i+64, :], k[j:j+64, :].T) * scale
            new = tile.maximum(top, tile.max(s, axis=1))
            p = tile.exp(s - new[:, None])
            shrink = tile.exp(top - new)
            total = total * shrink + tile.sum(p, axis=1)
            acc = acc * shrink[:, None]
            acc += tile.dot(tile.cast(p, bf16), v[j:j+64, :])
            top = new
        out[i:i+64, :] = acc / total[:, None]

@kernel
def product(a: bf16[rows, k1], b: bf16[k2, n], c: mut f32[more, n], scale: f32):
    for i in tile.range(more, step=64):
        for j in tile.range(n, step=64):
            acc = tile.zeros((64, 64))
            for k in tile.range(k1, step=64):
                acc += tile.dot(tile.cast(tile.cast(a[i:i+64, k:k+64], f32) + scale, bf16), b[k:k+64, j:j+64])
            c[i:i+64, j:j+64] = acc
"""


def normal(*shape: int) -> np.ndarray:
    """Negative numbers: a 0 in a maximum would show."""
    values = np.random.default_rng(sum(shape)).standard_normal(shape) - 4.0
    return values.astype(ml_dtypes.bfloat16)


def softmax(rows: int, n: int) -> tuple[list[Any], Callable[[], Any], float]:
    x = normal(rows, n)
    weights = np.exp(2.0 * (x.astype(np.float64) - x.max(1, keepdims=True).astype(np.float64)))
    return [x, np.zeros((rows, n), np.float32), 2.0], lambda: weights / weights.sum(1, keepdims=True), 1e-5


def moments(rows: int, n: int) -> tuple[list[Any], Callable[[], Any], float]:
    x = normal(rows, n)
    w = x.astype(np.float64)
    want = np.stack([w.var(1), w.max(1), -w.max(1), w.sum(1) + n], axis=1)
    return [x, np.zeros((rows, 4), np.float32), 1.0], lambda: want, 1e-5


def columns(rows: int, n: int) -> tuple[list[Any], Callable[[], Any], float]:
    x = normal(rows, n)
    return [x, np.zeros(n, np.float32), 1.0], lambda: x.astype(np.float64).sum(0) + rows, 1e-4


def shifted(rows: int, n: int) -> tuple[list[Any], Callable[[], Any], float]:
    x = normal(rows, n)
    want = np.full((rows, n + 100), 9, np.float32)
    want[1:, 3 : n + 3] = x[: rows - 1].astype(np.float32) * 2
    return [x, np.full((rows, n + 100), 9, np.float32), 2.0], lambda: want, 0.0


def attention(rows: int, n: int) -> tuple[list[Any], Callable[[], Any], float]:
    q, k, v = normal(rows, 64), normal(n, 64) + ml_dtypes.bfloat16(4), normal(n, 64)

    def want() -> np.ndarray:
        s = q.astype(np.float32) @ k.astype(np.float32).T * np.float32(0.125)
        weights = np.exp(s - s.max(1, keepdims=True))
        return weights @ v.astype(np.float32) / weights.sum(1, keepdims=True)

    return [q, k, v, np.zeros((rows, 64), np.float32), 0.125], want, 2e-2


def product(rows: int, n: int) -> tuple[list[Any], Callable[[], Any], float]:
    a, b = normal(rows, 200), normal(230, n)
    c = np.full((rows + 70, n), 9, np.float32)
    whole = np.zeros((rows + 70, n))
    shown = (a.astype(np.float32) + 1).astype(ml_dtypes.bfloat16).astype(np.float64)
    whole[:rows] = shown @ b[:200].astype(np.float64)
    return [a, b, c, 1.0], lambda: whole, 1e-3


CASES = {f.__name__: f for f in (softmax, moments, columns, shifted, attention, product)}


def check(name: str, rows: int, n: int, target: str) -> None:
    arguments, want, tolerance = CASES[name](rows, n)
    with overridden(target=target):
        getattr(tessera.compile_source(TEXT), name)(*arguments)
    expected = np.asarray(want(), np.float64)
    error = float(np.abs(arguments[-2] - expected).max() / np.abs(expected).max())
    assert error <= tolerance, f"{name} on {target}: off by {error:.2e}"


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_right_as_written(name: str, target: str) -> None:
    check(name, 70, 130, target)


@pytest.mark.gpu
@pytest.mark.parametrize("target", ["cuda", "cuda_tile"])
@pytest.mark.parametrize(("rows", "n"), [(20_000, 1000), (9_001, 777), (33, 65)])
@pytest.mark.parametrize("name", CASES)
def test_right_on_a_gpu(name: str, rows: int, n: int, target: str) -> None:
    check(name, rows, n, target)
