# pyright: basic
# The language's names have no Python types: what is checked strictly is everything around kernels.
"""The kernel behind `cholesky` on a GPU: a triangular factor turned."""

from __future__ import annotations

from typing import Final

from tessera import kernel, mut, tensor, tile

# What a launch replaces by its schedule (`variant`).
BM: Final = 64
BN: Final = 64


@kernel
def lower_of_upper(u: tensor, made: mut[tensor]):
    """made[M, M] = the transposed upper triangle of u, 0 above its diagonal."""
    M = u.shape[0]
    for m in tile.range(M, step=BM):
        for n in tile.range(M, step=BN):
            kept = tile.arange(BN)[None, :] + n <= tile.arange(BM)[:, None] + m
            made[m : m + BM, n : n + BN] = tile.where(kept, u[n : n + BN, m : m + BM].T, 0.0)
