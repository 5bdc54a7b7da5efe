"""Masks of places in users' own attention: computed where they are used, and no registers spilled for them."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from support.simulate import compile_cuda
from tessera import compile_source
from tessera.core.program.program import Program

# Keys past the end are zeros, and masked: what is below the diagonal is above the end.
_ATTENTION = """
@kernel(fast=True)
def attention(Q: bf16[H, S, WIDTH], K: bf16[H, S, WIDTH], V: bf16[H, S, WIDTH], O: mut bf16[H, S, WIDTH], scale: f32):
    for h in tile.range(H):
        for m in tile.range(S, step=128):
            q = Q[h, m:m+128, :]
            top, total = tile.full((128, 1), -1e30), tile.zeros((128, 1))
            out = tile.zeros((128, WIDTH))
            for n in range(0, m + 128, 128):
                scores = tile.dot(q, tile.load(K[h, n:n+128, :], other=0.0).T) * scale
                if CONDITION:
                    rows, columns = PLACES
                    scores = tile.where(rows[:, None] >= columns, scores, -1e30)
                above = tile.maximum(top, tile.max(scores, axis=1, keepdims=True))
                p, shrink = tile.exp2(scores - above), tile.exp2(top - above)
                total = total * shrink + tile.sum(p, axis=1, keepdims=True)
                out = tile.dot(tile.cast(p, bf16), V[h, n:n+128, :], out * shrink)
                top = above
            O[h, m:m+128, :] = out / total
"""
_MASKS = {
    "relative": ("n == m", "tile.arange(128), tile.arange(128)"),  # one tile, seen as a column and as a row
    "absolute": ("n == m", "m + tile.arange(128), n + tile.arange(128)"),
    "always": ("True", "tile.arange(m, m + 128), n + tile.arange(128)"),
}


def attention(mask: str, width: int) -> Program:
    """Causal attention with one of the masks."""
    text = _ATTENTION.replace("WIDTH", str(width))
    for name, form in zip(("CONDITION", "PLACES"), _MASKS[mask], strict=True):
        text = text.replace(name, form)
    q = np.zeros((2, 256, width), bfloat16)
    return compile_source(text).attention.program((q, q, q, q.copy(), 0.1))


@pytest.mark.parametrize("mask", _MASKS)
@pytest.mark.parametrize("width", [64, 128])
def test_causal_masks_of_users_spill_nothing(mask: str, width: int):
    compiled = compile_cuda(attention(mask, width))
    assert compiled.artifact.resources.spill_bytes == 0
    (ptx,) = (listing.text for listing in compiled.listings if listing.level == "ptx")
    assert "st.shared.v2.b64" not in ptx  # places handed from lane to lane


_TURNED = """
@kernel
def product(A: bf16[M, K], B: bf16[K, N], C: mut DTYPE[N, M]):
    for m in tile.range(M, step=128):
        for n in tile.range(N, step=64):
            total = tile.zeros((128, 64))
            for k in tile.range(K, step=64):
                total += tile.dot(A[m:m+128, k:k+64], B[k:k+64, n:n+64])
            C[n:n+64, m:m+128] = total.T
"""


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_that_are_stored_turned_around_are_rounded_in_pairs(dtype: str):
    """One by one, ptxas takes them for readers of products that still run, and has all of those wait."""
    a = np.zeros((512, 512), bfloat16)
    out = a if dtype == "bf16" else a.astype(np.float16)
    kernel = compile_source(_TURNED.replace("DTYPE", dtype)).product
    compiled = kernel.compile(a, a, out, target="cuda:sm_90a")
    ptx = next(one.text for one in compiled.listings if one.level == "ptx")
    assert ptx.count(f"cvt.rn.{dtype}x2.f32") == 16
    assert f"cvt.rn.{dtype}.f32" not in ptx
    assert compiled.artifact.resources.notes == ()
    assert "in_flight into the next iteration" in compiled.ir("tile", "cuda-pipeline-loads")
