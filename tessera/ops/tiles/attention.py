# pyright: basic
# The language's names have no Python types: what is checked strictly is everything around kernels.
"""The kernels behind `flash_attention` and its backward pass, on arrays [batch, heads, length, width].

`scale` comes with log2(e) in it: all exponentials are powers of two.  `share` query heads use one head of keys.  Where
attention is causal, query i sees the keys up to i + (keys - queries): the last query sees them all.  On GPUs powers of
two are the hardware's (2 ulp).
"""

from __future__ import annotations

import math
from typing import Final

from tessera import f32, i64, kernel, mut, tensor, tile

# What a launch fixes by its operands (`variant`): the values here only let each name stand for something.
CAUSAL: Final = False
KEPT: Final = True
ROWS: Final = 128
BM: Final = 128
BN: Final = 128

SLACK: Final = 8.0
"""How far, in powers of two, a weight may exceed one: 256 times as much changes no rounding."""


def attend(Q, K, V, b, h, m, scale, share):
    """Attention of the queries m : m + BM of one head: results, not yet divided, scores they are relative to, weights.

    Keys come BN at a time, with everything relative to a score that is at most SLACK below the largest so far (online
    softmax): while it stays, nothing is rescaled.  Weights are added for every eighth key apart, and together at the
    end.  Blocks past the last visible key are not visited, and only those that are partly visible are masked.
    """
    queries, width = Q.shape[2], Q.shape[3]
    keys = K.shape[2]
    first = m + (keys - queries)
    stop = min(keys, first + BM) if CAUSAL else keys
    whole = min(keys, first + 1) if CAUSAL else keys
    q = Q[b, h, m : m + BM, :]
    top = tile.full((BM,), -math.inf, f32)
    total = tile.zeros((BM, 8), f32)
    acc = tile.zeros((BM, width), f32)
    for n in tile.range(stop, step=BN):
        s = tile.dot(q, tile.load(K[b, h // share, n : n + BN, :], other=0).T)
        if n + BN > whole:
            j = tile.arange(n, n + BN)[None, :]
            # Where attention is causal, no query sees keys past the end.
            visible = j <= tile.arange(first, first + BM)[:, None] if CAUSAL else j < keys
            s = tile.where(visible, s, -math.inf)
        grown = tile.maximum(top, tile.max(s, axis=1) * scale)
        bound = tile.where(grown - top <= SLACK, top, grown)
        p = tile.exp2(tile.fma(s, scale, -bound[:, None]))
        shrink = tile.exp2(top - bound)
        total = total * shrink[:, None] + tile.sum(tile.reshape(p, (BM, BN // 8, 8)), axis=1)
        acc = acc * shrink[:, None]
        acc += tile.dot(tile.cast(p, V.dtype), tile.load(V[b, h // share, n : n + BN, :], other=0))
        top = bound
    return acc, top, tile.sum(total, axis=1)


@kernel(fast=True)
def attention_forward(Q: tensor, K: tensor, V: tensor, out: mut[tensor], scale: f32, share: i64):
    """out = softmax(scale Q K^T) V."""
    for b in tile.range(Q.shape[0]):
        for h in tile.range(Q.shape[1]):
            for m in tile.range(Q.shape[2], step=BM):
                acc, _, total = attend(Q, K, V, b, h, m, scale, share)
                out[b, h, m : m + BM, :] = tile.cast(acc * (1.0 / total)[:, None], out.dtype)


@kernel(fast=True)
def attention_forward_with_lse(
    Q: tensor, K: tensor, V: tensor, out: mut[tensor], LSE: mut[tensor], scale: f32, share: i64
):
    """Compute O as `attention_forward` does, and LSE = log(sum(exp(scale Q K^T))) of each query, natural logarithm."""
    for b in tile.range(Q.shape[0]):
        for h in tile.range(Q.shape[1]):
            for m in tile.range(Q.shape[2], step=BM):
                acc, top, total = attend(Q, K, V, b, h, m, scale, share)
                out[b, h, m : m + BM, :] = tile.cast(acc * (1.0 / total)[:, None], out.dtype)
                LSE[b, h, m : m + BM] = (top + tile.log2(total)) * math.log(2.0)


@kernel
def attention_delta(out: tensor, dO: tensor, LSE: tensor, base: mut[tensor], delta: mut[tensor]):
    """delta = -sum(out dO) of each query, what the gradient of the softmax adds, and base = -LSE log2(e).

    Both may be longer than the queries, by less than a block: zeros follow.
    """
    for b in tile.range(out.shape[0]):
        for h in tile.range(out.shape[1]):
            for m in tile.range(out.shape[2], step=BM):
                o, do = tile.load(out[b, h, m : m + BM, :], other=0), tile.load(dO[b, h, m : m + BM, :], other=0)
                delta[b, h, m : m + BM] = -tile.sum(tile.cast(o, f32) * tile.cast(do, f32), axis=1)
                base[b, h, m : m + BM] = tile.load(LSE[b, h, m : m + BM], other=0) * -math.log2(math.e)


@kernel(fast=True)
def attention_backward_keys(  # noqa: PLR0913, PLR0917 - everything it needs is an array
    Q: tensor, K: tensor, V: tensor, dO: tensor, base: tensor, delta: tensor, dS: mut[tensor], dK: mut[tensor],
    dV: mut[tensor], scale: f32, share: i64,
):  # fmt: skip
    """dK and dV of BN keys at a time: over all query heads that use them, over all queries that see them, in order.

    Where the gradients of the scores are kept, dS, [batch, key heads, query heads of each, keys, queries], gets them,
    except where ROWS queries see none of the keys.
    Products are kept transposed, keys by queries, so that weights and their gradients are the left operands of the
    products that follow.  Queries past the end are zeros, and so is what they add.
    """
    queries, keys, width = Q.shape[2], K.shape[2], Q.shape[3]
    for b in tile.range(K.shape[0]):
        for g in tile.range(K.shape[1]):
            for n in tile.range(keys, step=BN):
                k, v = tile.load(K[b, g, n : n + BN, :], other=0), tile.load(V[b, g, n : n + BN, :], other=0)
                shift = keys - queries
                begin = max(0, n - shift) // ROWS * ROWS if CAUSAL else 0
                dk, dv = tile.zeros((BN, width), f32), tile.zeros((BN, width), f32)
                for r in range(share):
                    h = g * share + r
                    for m in range(begin, queries, BM):
                        q = tile.load(Q[b, h, m : m + BM, :], other=0)
                        do = tile.load(dO[b, h, m : m + BM, :], other=0)
                        s = tile.dot(k, q.T)
                        if CAUSAL:  # noqa: SIM102 - this one is decided when the kernel is compiled
                            if n + BN > m + shift + 1:
                                i = tile.arange(m + shift, m + shift + BM)
                                s = tile.where(tile.arange(n, n + BN)[:, None] <= i[None, :], s, -math.inf)
                        # Behind the branch: this product's instructions may be mixed with the exponentials.
                        dp = tile.dot(v, do.T)
                        p = tile.exp2(tile.fma(s, scale, tile.load(base[b, h, m : m + BM], other=0)[None, :]))
                        dv += tile.dot(tile.cast(p, V.dtype), do)
                        slope = p * dp
                        rest = tile.load(delta[b, h, m : m + BM], other=0)
                        ds = tile.cast(tile.fma(p, rest[None, :], slope), K.dtype)
                        dk += tile.dot(ds, q)
                        if KEPT:
                            dS[b, g, r, n : n + BN, m : m + BM] = ds
                dK[b, g, n : n + BN, :] = tile.cast(dk * (scale * math.log(2.0)), dK.dtype)
                dV[b, g, n : n + BN, :] = tile.cast(dv, dV.dtype)


@kernel(fast=True)
def attention_backward_product(dS: tensor, K: tensor, dQ: mut[tensor], scale: f32, share: i64):
    """dQ = scale dS K, BM queries at a time, from what `attention_backward_keys` kept."""
    queries, keys, width = dQ.shape[2], K.shape[2], K.shape[3]
    for b in tile.range(dQ.shape[0]):
        for h in tile.range(dQ.shape[1]):
            for m in tile.range(queries, step=BM):
                stop = min(keys, m + BM + (keys - queries)) if CAUSAL else keys
                dq = tile.zeros((BM, width), f32)
                for n in tile.range(stop, step=BN):
                    ds = tile.load(dS[b, h // share, h % share, n : n + BN, m : m + BM], other=0)
                    dq += tile.dot(ds.T, tile.load(K[b, h // share, n : n + BN, :], other=0))
                dQ[b, h, m : m + BM, :] = tile.cast(dq * (scale * math.log(2.0)), dQ.dtype)


@kernel(fast=True)
def attention_backward_queries(  # noqa: PLR0913, PLR0917 - everything it needs is an array
    Q: tensor, K: tensor, V: tensor, dO: tensor, base: tensor, delta: tensor, dQ: mut[tensor], scale: f32, share: i64
):
    """dQ of BM queries at a time, over all keys that they see, in order."""
    queries, keys, width = Q.shape[2], K.shape[2], Q.shape[3]
    for b in tile.range(Q.shape[0]):
        for h in tile.range(Q.shape[1]):
            for m in tile.range(queries, step=BM):
                first = m + (keys - queries)
                stop = min(keys, first + BM) if CAUSAL else keys
                whole = min(keys, first + 1) if CAUSAL else keys
                q, do = Q[b, h, m : m + BM, :], dO[b, h, m : m + BM, :]
                below, rest = base[b, h, m : m + BM], delta[b, h, m : m + BM]
                dq = tile.zeros((BM, width), f32)
                for n in tile.range(stop, step=BN):
                    k = tile.load(K[b, h // share, n : n + BN, :], other=0)
                    s = tile.dot(q, k.T)
                    if n + BN > whole:
                        j = tile.arange(n, n + BN)[None, :]
                        # Where attention is causal, no query sees keys past the end.
                        visible = j <= tile.arange(first, first + BM)[:, None] if CAUSAL else j < keys
                        s = tile.where(visible, s, -math.inf)
                    p = tile.exp2(tile.fma(s, scale, below[:, None]))
                    dp = tile.dot(do, tile.load(V[b, h // share, n : n + BN, :], other=0).T)
                    ds = p * (dp + rest[:, None])
                    dq += tile.dot(tile.cast(ds, K.dtype), k)
                dQ[b, h, m : m + BM, :] = tile.cast(dq * (scale * math.log(2.0)), dQ.dtype)
