"""Attention with heads as narrow as the columns in which sums of rows are carried: two products share a tile's shape."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from support.operators import drawn
from support.simulate import simulate
from tessera import op
from tessera.ops.tiles.attention import attention_forward

LOG2_E = 1.4426950408889634


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("width", "queries", "keys", "block"), [(8, 64, 64, 64), (8, 9, 13, 32), (12, 33, 40, 64)])
def test_both_products_have_their_layouts(width: int, queries: int, keys: int, block: int, dtype: type):
    q, k, v = (drawn((1, 1, rows, width), dtype, n) for n, rows in enumerate((queries, keys, keys)))
    out = np.zeros_like(q)
    arguments = (q, k, v, out, np.float32(LOG2_E / width**0.5), 1)
    program = attention_forward.variant(BM=64, BN=block).program(arguments)
    # The simulator has no approximations of its own.
    exact = replace(program, options={name: value for name, value in program.options.items() if name != "fast"})
    simulate(exact, list(arguments))
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / width**0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out.astype(np.float64), wanted, atol=2e-3 if dtype == np.float16 else 1.6e-2)


def test_capped_scores_in_f16():
    """Weights far below the cap are not 0 in a type of few exponents."""
    q, k, v = (3 * drawn((1, 2, 150, 24), np.float16, n) for n in range(3))
    scores = 15 * np.tanh(q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / 24**0.5 / 15)
    scores = np.where(np.arange(150) <= np.arange(150)[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    found = np.asarray(op.flash_attention(q, k, v, causal=True, softcap=15.0)).astype(np.float64)
    np.testing.assert_allclose(found, wanted, atol=1e-2)
