"""exp(s - max(s)) over a window that sticks out: one mask, and the numbers of the interpreter."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering.tile.test_mask_absent import LOOP, count, masked
from tessera.api.source_module import compile_source
from tessera.core.settings import overridden

SUM = "out[0] = tile.sum(e)"


def selects(body: str) -> int:
    return count(masked(body), "arith.select")


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_one_mask_serves_the_maximum_and_the_sum(name: str):
    assert selects(LOOP + f"e = tile.{name}(t - tile.max(t))\n    {SUM}") == 1


def test_the_maximum_may_be_one_of_several():
    assert (
        selects(LOOP + f"m = tile.maximum(tile.maximum(1.0, tile.max(t)), 2.0)\n    e = tile.exp(t - m)\n    {SUM}")
        == 1
    )


@pytest.mark.parametrize(
    "e",
    ["tile.exp(t - tile.max(t * 2.0))", "tile.exp(t * 2.0 - tile.max(t))", "tile.exp(tile.max(t) - t)", "t - tile.max(t)",
     "tile.exp(t - tile.minimum(1.0, tile.max(t)))", "tile.exp(t - tile.maximum(1.0, tile.min(t)))"],
)  # fmt: skip
def test_other_differences_have_a_mask_of_their_own(e: str):
    assert selects(LOOP + f"e = {e}\n    {SUM}") == 2


def test_a_row_that_may_be_empty_has_two_masks():
    assert selects(f"t = x[2, c:c+16]\ne = tile.exp(t - tile.max(t))\n{SUM}") == 2


def test_only_the_axis_of_the_maximum_counts():
    rows = "for k in range(0, n, 4):\n    t = x[0:4, k:k+4]\n    m = tile.max(t, axis=1)\n    "
    assert selects(rows + "e = tile.exp(t - m[:, None])\n    out[0:4] = tile.sum(e, axis=1)") == 1
    assert selects(rows + "e = tile.exp(t - m[None, :])\n    out[0:4] = tile.sum(e, axis=1)") == 2


def test_users_that_want_zeros_keep_their_own():
    lines = masked(LOOP + "out[0] = tile.sum(t) + tile.sum(tile.exp(t - tile.max(t)))")
    assert count(lines, "arith.select") == 1
    assert any("reduce sum %t :" in line for line in lines), "a load is 0 where nothing is"


ONLINE = """
@kernel
def k(x: f32[rows, n], y: mut f32[rows], z: mut f32[rows, 16], w: f32[n, 16], first: f32):
    for r in tile.range(rows, step=8):
        top, total, acc = tile.full((8,), first), tile.zeros((8,)), tile.zeros((8, 16))
        for j in tile.range(n, step=16):
            s = x[r:r+8, j:j+16]
            new = tile.maximum(top, tile.max(s, axis=1))
            p = tile.exp(s - new[:, None])
            a = tile.exp(top - new)
            total = total * a + tile.sum(p, axis=1)
            acc = acc * a[:, None] + tile.dot(p, w[j:j+16, :])
            top = new
        y[r:r+8] = total
        z[r:r+8, :] = acc
"""


@pytest.mark.parametrize("first", [-np.inf, -1e30])
@pytest.mark.parametrize("n", [1, 15, 17, 40])
def test_infinities_and_nan_are_those_of_the_interpreter(tmp_path: Path, n: int, first: float):
    """Rows of -inf alone, in the last block alone, of +inf and NaN: what is absent changes none of them."""
    kernel = compile_source(ONLINE).k
    rng = np.random.default_rng(n)
    x = rng.integers(-3, 4, (19, n)).astype(np.float32)
    x[0] = -np.inf
    x[1, -1] = np.inf
    x[2, 0] = np.nan
    x[3, n // 16 * 16 :] = -np.inf
    x[4, : n // 2] = -np.inf
    x[17] = -np.inf
    w = rng.integers(-3, 4, (n, 16)).astype(np.float32)
    found: list[Any] = []
    for target in ("interpret", "cpu"):
        y, z = np.full(19, 7, np.float32), np.full((19, 16), 7, np.float32)
        with overridden(target=target, cache_dir=tmp_path):
            kernel(x, y, z, w, first)
        found.append((y, z))
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)  # NaN and infinities in the same places
