"""`tile.cumsum`, `tile.cummax` and `tile.cummin` on every target: the documented association, bit for bit."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.every_target import everywhere
from tessera import compile_source
from tessera.core.base import dtypes
from tessera.core.base.reductions import tree_cumsum
from tessera.core.errors.catalog import BadAxis


def numbers(dtype: str, seed: int, *shape: int) -> np.ndarray[Any, Any]:
    draw, kind = np.random.default_rng(seed), dtypes.BY_NAME[dtype]
    if kind.is_float:
        return cast("np.ndarray[Any, Any]", draw.standard_normal(shape).astype(kind.numpy))
    return cast("np.ndarray[Any, Any]", draw.integers(0, 2 if kind.kind == "bool" else 100, shape).astype(kind.numpy))


def cumulated(x: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """NumPy's, in the association of running sums; 16-bit floats in f32."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
    with np.errstate(over="ignore"):
        return tree_cumsum(wide, axis).astype(x.dtype)


@pytest.mark.parametrize(
    ("dtype", "extent"),
    [
        *(("f32", extent) for extent in (1, 8, 17, 64, 96)),
        ("f16", 64),
        ("bf16", 17),
        ("f64", 32),
        ("i8", 16),
        ("u32", 48),
    ],
)
def test_running_sums(dtype: str, extent: int):
    text = f"""
@kernel
def k(x: {dtype}[m, {extent}], y: mut {dtype}[m, {extent}], z: mut {dtype}[{extent}, m]):
    for r in tile.range(m, step=2):
        y[r:r+2, :] = tile.cumsum(x[r:r+2, :], axis=1)
        z[:, r:r+2] = tile.cumsum(x[r:r+2, :].T, axis=0)
"""
    x = numbers(dtype, extent, 3, extent)
    want = cumulated(x, 1)
    everywhere(text, (x, np.zeros_like(x), np.zeros_like(x.T, order="C")), (x, want, want.T))


@settings(max_examples=4, deadline=None)
@given(st.integers(1, 80), st.sampled_from([4, 16, 32, 48]), st.integers(0, 2**16))
def test_ragged_ends_and_extremes(n: int, step: int, seed: int):
    """What is absent is left out, and absent of the result."""
    text = f"""
@kernel
def k(x: f32[n], sums: mut f32[n], more: mut f32[n], top: mut f32[n], low: mut f32[n]):
    for t in tile.range(n, step={step}):
        sums[t:t+{step}] = tile.cumsum(x[t:t+{step}])
        more[t:t+{step}] = tile.fill(tile.cumsum(x[t-1:t+{step}-1]), -1.0)
        top[t:t+{step}] = tile.cummax(x[t:t+{step}])
        low[t:t+{step}] = tile.cummin(x[t:t+{step}])
"""
    x = numbers("f32", seed, n)
    padded = np.zeros(-(-n // step) * step + 1, np.float32)
    padded[1 : n + 1] = x
    blocks, shifted = padded[1:].reshape(-1, step), padded[:-1].reshape(-1, step)
    more = tree_cumsum(np.where(np.arange(shifted.size).reshape(shifted.shape) == 0, np.float32(-0.0), shifted), 1)
    more[0, 0] = -1
    parts = [x[t : t + step] for t in range(0, n, step)]
    want = (
        x, tree_cumsum(blocks, 1).ravel()[:n], more.ravel()[:n],
        np.concatenate([np.maximum.accumulate(p) for p in parts]),
        np.concatenate([np.minimum.accumulate(p) for p in parts]),
    )  # fmt: skip
    everywhere(text, (x, *(np.full(n, 9, np.float32) for _ in range(4))), want)


def test_bools_are_counted_and_infinities_stay_where_they_are():
    text = """
@kernel
def k(x: f32[32], count: mut i64[32], y: mut f32[32]):
    count[:] = tile.cumsum(x[:] > 0.0)
    y[:] = tile.cumsum(x[:])
"""
    x = np.array([-0.0, -0.0, 1, -2, np.inf, 3, -np.inf, 1] * 4, np.float32)
    with np.errstate(invalid="ignore"):
        everywhere(
            text, (x, np.zeros(32, np.int64), np.zeros(32, np.float32)), (x, np.cumsum(x > 0), tree_cumsum(x, 0))
        )


def test_an_axis_that_there_is_not():
    module = compile_source("@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    y[:] = tile.cumsum(x[:], axis=1)\n")
    with pytest.raises(BadAxis, match="has no axis 1"):
        module.k(np.zeros(4, np.float32), np.zeros(4, np.float32))
