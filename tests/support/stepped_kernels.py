"""Kernels of the tests that step them: of lanes, of tiles, with shared memory, with loops that diverge."""

from typing import Final

import tessera

_TEXT: Final = """
@kernel
def saxpy(x: f32[n], y: mut f32[n], alpha: f32):
    i = tile.linear_id()
    if i < n:
        t = alpha * x[i]
        y[i] = t + y[i]


@kernel
def matmul(A: f32[M, K], B: f32[K, N], C: mut f32[M, N]):
    for m in tile.range(M, step=16):
        for n in tile.range(N, step=8):
            total = tile.zeros((16, 8), f32)
            for k in tile.range(K, step=4):
                total += tile.dot(A[m : m + 16, k : k + 4], B[k : k + 4, n : n + 8])
            C[m : m + 16, n : n + 8] = total


@kernel
def softmax(X: f32[m, n], Y: mut f32[m, n]):
    for r in tile.range(m, step=4):
        rows = X[r : r + 4, 0:16]
        e = tile.exp(rows - tile.max(rows, axis=1, keepdims=True))
        Y[r : r + 4, 0:16] = e / tile.sum(e, axis=1, keepdims=True)


@kernel
def window(A: f32[a, b, c], B: mut f32[a, b, c], i: i32, j: i32, k: i32):
    B[i : i + 2, j : j + 4, k : k + 4] = 2.0 * A[i : i + 2, j : j + 4, k : k + 4]


@kernel
def gather(x: f32[n], index: i32[m], y: mut f32[m]):
    i = tile.linear_id()
    if i < m:
        y[i] = x[index[i]]


@kernel tile[(32,)] shared(8_KiB)
def group_sum(x: f32[n], out: mut f32[grid_groups]):
    smem = tshared.alloc[f32](32)
    i = tile.linear_id()
    acc = 0.0
    for k in range(group_linear_id() * 32 + i, n, group_tile_count() * 32):
        acc += x[k]
    smem[i] = acc
    tbarrier()
    if i == 0:
        out[group_linear_id()] = reduce_sum(smem)


@kernel tile[(32,)]
def staged(x: f32[n], y: mut f32[n]):
    buffer = tshared.alloc[f32](32)
    cp_async.shared.global(buffer, x[0:32])
    tbarrier()
    i = tile.linear_id()
    if i < n:
        y[i] = buffer[31 - i]


@kernel
def halve(x: mut i32[n]):
    i = launch.thread_id()
    while x[i] > 1:
        x[i] = x[i] // 2
"""

_MODULE: Final = tessera.compile_source(_TEXT)
saxpy = _MODULE.saxpy
matmul = _MODULE.matmul
softmax = _MODULE.softmax
window = _MODULE.window
gather = _MODULE.gather
group_sum = _MODULE.group_sum
staged = _MODULE.staged
halve = _MODULE.halve
