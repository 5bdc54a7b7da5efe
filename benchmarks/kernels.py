"""The kernels the CPU benchmarks time: ordinary Tessera, nothing tuned by hand but block sizes."""

# The names of shapes in kernels are bound at launch, and the language reads the bodies, not Python.
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from tessera import f32, kernel, mut, reduce_sum, tile


@kernel
def saxpy(x: f32[n], y: mut[f32[n]], alpha: f32):
    """`y = alpha x + y`, one element a lane."""
    i = tile.linear_id()
    if i < n:
        y[i] = alpha * x[i] + y[i]


@kernel
def softmax_rows(x: f32[m, n], y: mut[f32[m, n]]):
    """Softmax of each row."""
    for row in tile.range(x, axis=0, step=1):
        y[row] = tile.softmax(x[row], axis=-1)


@kernel
def layer_norm(x: f32[m, n], gamma: f32[n], beta: f32[n], y: mut[f32[m, n]]):
    """Layer norm of each row."""
    for row in tile.range(x, axis=0, step=1):
        centered = x[row] - tile.sum(x[row], axis=1, keepdims=True) * (1.0 / n)
        variance = tile.sum(centered * centered, axis=1, keepdims=True) * (1.0 / n)
        y[row] = centered * tile.rsqrt(variance + 1e-5) * gamma + beta


@kernel
def matmul(a: f32[m, k], b: f32[k, n], c: mut[f32[m, n]]):
    """`c = a b`, in blocks of 512 x 512, 256 steps of K at a time."""
    for i in tile.range(m, step=512):
        for j in tile.range(n, step=512):
            acc = tile.zeros((512, 512))
            for p in range(0, k, 256):
                acc += tile.dot(a[i : i + 512, p : p + 256], b[p : p + 256, j : j + 512])
            c[i : i + 512, j : j + 512] = acc


@kernel
def attention(q: f32[heads, s, d], k: f32[heads, s, d], v: f32[heads, s, d], out: mut[f32[heads, s, d]]):
    """Attention forward with an online softmax, 128 queries against 128 keys at a time."""
    for h in tile.range(heads):
        for i in tile.range(s, step=128):
            block = q[h, i : i + 128, :] * 0.125
            largest = tile.full((128, 1), -1e30)
            total = tile.zeros((128, 1))
            acc = tile.zeros((128, d))
            for j in range(0, s, 128):
                scores = tile.dot(block, k[h, j : j + 128, :].T)
                bound = tile.maximum(largest, tile.max(scores, axis=1, keepdims=True))
                weights = tile.exp(scores - bound)
                shrink = tile.exp(largest - bound)
                total = total * shrink + tile.sum(weights, axis=1, keepdims=True)
                acc = acc * shrink
                acc += tile.dot(weights, v[h, j : j + 128, :])
                largest = bound
            out[h, i : i + 128, :] = acc / total


@kernel
def reduce_all(x: f32[n], out: mut[f32[1]]):
    """The sum of a vector, with the fixed association."""
    out[0] = reduce_sum(x)
