"""`tile.argmax` and `tile.argmin` on every target: NumPy's positions, ties, NaN and ragged ends included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.every_target import everywhere
from tessera import compile_source
from tessera.core.base import dtypes
from tessera.core.errors.catalog import BadAxis

DTYPES = ("f32", "f16", "bf16", "f64", "i8", "u32", "i64")


def few(dtype: str, shape: tuple[int, ...], seed: int, special: bool) -> np.ndarray:
    """Numbers of which many are equal; with `special`, zeros of both signs, infinities and NaN among them."""
    draw = np.random.default_rng(seed)
    element = dtypes.BY_NAME[dtype].numpy
    if not dtypes.BY_NAME[dtype].is_float:
        return draw.integers(0, 5, shape).astype(element)
    numbers = [0.0, -0.0, 1.5, -2.0, -np.inf, np.inf, np.nan] if special else [-1.0, -0.0, 0.0]
    return draw.choice(np.array(numbers, np.float32), shape).astype(element)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=2, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 2**16), st.booleans())
def test_along_an_axis(name: str, dtype: str, rows: int, columns: int, seed: int, special: bool):
    text = f"""
@kernel
def k(x: {dtype}[m, n], rows: mut i64[m], columns: mut i64[n], kept: mut i64[m, 1]):
    for r in tile.range(m, step=4):
        rows[r:r+4] = tile.{name}(x[r:r+4, 0:64], axis=1)
        kept[r:r+4, :] = x[r:r+4, 0:64].{name}(axis=-1, keepdims=True)
    for c in tile.range(n, step=8):
        columns[c:c+8] = tile.{name}(x[0:16, c:c+8], axis=0)
"""
    x = few(dtype, (rows, columns), seed, special)
    find = getattr(np, name)
    wide = x.astype(np.float64) if dtypes.BY_NAME[dtype].is_float else x
    want = (x, find(wide, axis=1), find(wide, axis=0), find(wide, axis=1)[:, None])
    everywhere(text, (x, np.full(rows, -9), np.full(columns, -9), np.full((rows, 1), -9)), want)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_without_an_axis_rows_follow_each_other(name: str):
    text = f"@kernel\ndef k(x: f32[4, 8], out: mut i64[1]):\n    out[0] = tile.{name}(x)\n"
    x = few("f32", (4, 8), 3, False)
    everywhere(text, (x, np.zeros(1, np.int64)), (x, np.array([getattr(np, name)(x)])))


def test_of_no_elements_it_is_zero():
    text = "@kernel\ndef k(x: f32[n], out: mut i64[2]):\n    out[0] = tile.argmax(x[n:n+8])\n    out[1] = tile.argmin(x[n-1:n+7])\n"
    x = np.ones(5, np.float32)
    everywhere(text, (x, np.full(2, -9)), (x, np.zeros(2, np.int64)))


def test_an_axis_that_there_is_not():
    module = compile_source("@kernel\ndef k(x: f32[n, m], y: mut i64[n]):\n    y[:] = tile.argmax(x[:], axis=2)\n")
    with pytest.raises(BadAxis, match="has no axis 2"):
        module.k(np.zeros((4, 4), np.float32), np.zeros(4, np.int64))
