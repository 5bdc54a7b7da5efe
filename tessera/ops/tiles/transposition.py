# pyright: basic
# The language's names have no Python types: what is checked strictly is everything around kernels.
"""The kernel behind `transpose`."""

from __future__ import annotations

from typing import Final

from tessera import kernel, mut, tensor, tile

BLOCK: Final = 64  # what a launch replaces by its schedule (`variant`)


@kernel
def transpose_matrices(x: tensor, y: mut[tensor]):
    """y[b, n, m] = x[b, m, n], in squares that are read row by row and written row by row."""
    for b in tile.range(x.shape[0]):
        for m in tile.range(x.shape[1], step=BLOCK):
            for n in tile.range(x.shape[2], step=BLOCK):
                y[b, n : n + BLOCK, m : m + BLOCK] = x[b, m : m + BLOCK, n : n + BLOCK].T
