"""Kernels as graphs: values and gradients against NumPy, the same mathematics in operators, and finite differences."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tessera
from tessera import op
from tessera.core.errors.catalog import CannotRaise

KERNELS = tessera.compile_source("""
@kernel
def scale(x: f64[n], y: mut f64[n], alpha: f64):
    i = tile.linear_id()
    if i < n:
        y[i] = alpha * x[i] * x[i]

@kernel
def half(x: f16[n], y: mut f16[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = tile.tanh(x[i]) + x[i]

@kernel
def bias(x: f64[M, N], b: f64[N], y: mut f64[M, N]):
    for i in tile.range(M, step=8):
        for j in tile.range(N, step=8):
            y[i:i+8, j:j+8] = max(x[i:i+8, j:j+8] + b[j:j+8], 0.0)

@kernel
def transposed(x: f64[M, N], y: mut f64[N, M]):
    for i in tile.range(M, step=8):
        for j in tile.range(N, step=8):
            y[j:j+8, i:i+8] = tile.transpose(x[i:i+8, j:j+8])

@kernel
def softmax(x: f64[M, N], y: mut f64[M, N]):
    for i in tile.range(M):
        y[i, :] = tile.softmax(x[i, :])

@kernel
def layernorm(x: f64[M, N], g: f64[N], y: mut f64[M, N]):
    for i in tile.range(M):
        row = x[i, :]
        c = row - tile.sum(row) / N
        y[i, :] = c * tile.rsqrt(tile.sum(c * c) / N + 1e-5) * g[:]

@kernel
def rmsnorm(x: f64[M, N], y: mut f64[M, N]):
    i = tile.linear_id()
    if i < M:
        s = f64(0.0)
        for j in range(N):
            s += x[i, j] * x[i, j]
        r = tile.rsqrt(s / N + 1e-6)
        for j in range(N):
            y[i, j] = x[i, j] * r

@kernel
def gemm(a: f64[M, K], b: f64[K, N], c: mut f64[M, N]):
    for i in tile.range(M, step=16):
        for j in tile.range(N, step=16):
            acc = tile.zeros((16, 16), f64)
            for k in tile.range(K, step=8):
                acc = tile.dot(a[i:i+16, k:k+8], b[k:k+8, j:j+16], acc)
            c[i:i+16, j:j+16] = tile.tanh(acc)

@kernel
def batched(a: f64[B, M, K], b: f64[B, K, N], c: mut f64[B, M, N]):
    for n in tile.range(B):
        for i in tile.range(M, step=8):
            for j in tile.range(N, step=8):
                acc = tile.zeros((8, 8), f64)
                for k in tile.range(K, step=8):
                    acc = tile.dot(a[n, i:i+8, k:k+8], b[n, k:k+8, j:j+8], acc)
                c[n, i:i+8, j:j+8] = acc

@kernel
def conv1d(x: f64[n], w: f64[K], y: mut f64[n]):
    i = tile.linear_id()
    if i < n:
        s = f64(0.0)
        for k in range(K):
            s += x[i + k - K // 2] * w[k]
        y[i] = s

@kernel
def conv2d(x: f64[H, W], w: f64[3, 3], y: mut f64[H, W]):
    i = tile.linear_id()
    if i < H * W:
        r = i // W
        c = i % W
        s = f64(0.0)
        for p in range(3):
            for q in range(3):
                s += x[r + p - 1, c + q - 1] * w[p, q]
        y[r, c] = s

@kernel
def stencil(x: f64[n], y: mut f64[n]):
    i = tile.linear_id()
    if i > 0 and i < n - 1:
        y[i] = 0.25 * x[i - 1] + 0.5 * x[i] * x[i] + 0.25 * x[i + 1]

@kernel
def maxpool(x: f64[n], y: mut f64[m]):
    i = tile.linear_id()
    if i < m:
        best = x[2 * i]
        for k in range(1, 2):
            best = max(best, x[2 * i + k])
        y[i] = best

@kernel
def prefix(x: f64[M, N], y: mut f64[M, N]):
    i = tile.linear_id()
    if i < M:
        s = f64(0.0)
        for j in range(N):
            s += x[i, j]
            y[i, j] = s

@kernel
def logsumexp(x: f64[M, N], y: mut f64[M]):
    i = tile.linear_id()
    if i < M:
        m = f64(-1e30)
        l = f64(0.0)
        for j in range(N):
            v = x[i, j]
            mn = max(m, v)
            l = l * tile.exp(m - mn) + tile.exp(v - mn)
            m = mn
        y[i] = m + tile.log(l)

@kernel
def attention(q: f64[S, D], k: f64[T, D], v: f64[T, D], o: mut f64[S, D]):
    for i in tile.range(S, step=4):
        m = tile.full((4,), -1e30, f64)
        l = tile.zeros((4,), f64)
        acc = tile.zeros((4, 4), f64)
        for j in tile.range(T, step=4):
            s = tile.dot(q[i:i+4, 0:4], tile.transpose(k[j:j+4, 0:4]))
            mn = max(m, tile.max(s, axis=1))
            p = tile.exp(s - mn[:, None])
            f = tile.exp(m - mn)
            l = l * f + tile.sum(p, axis=1)
            acc = acc * f[:, None] + tile.dot(p, v[j:j+4, 0:4])
            m = mn
        o[i:i+4, 0:4] = acc / l[:, None]

@kernel
def embedding(t: f64[V, D], ids: i64[n], y: mut f64[n, D]):
    for i in tile.range(n):
        y[i, :] = t[ids[i], :]

@kernel
def square(x: mut f64[n]):
    i = tile.linear_id()
    if i < n:
        x[i] = x[i] * x[i]

@kernel
def both(x: f64[n], s: mut f64[n], c: mut f64[n]):
    i = tile.linear_id()
    if i < n:
        s[i] = tile.sin(x[i])
        c[i] = s[i] * tile.cos(x[i])

@kernel tile[(64,)]
def grouped(x: f64[n], y: mut f64[n]):
    i = tile.group_id(0) * 64 + tile.warp_id() * 32 + tile.lane_id()
    if i < n:
        y[i] = x[i] * 2.0

@kernel
def counts(x: i32[n], y: mut i32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = x[i] * 3 + 1
""")

RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def conv2d(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(x, 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    return np.einsum("hwpq,pq->hw", windows, w)


def stencil(x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    y[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] ** 2 + 0.25 * x[2:]
    return y


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * g


CASES: dict[str, tuple[list[tuple[int, ...]], tuple[int, ...], Callable[..., np.ndarray]]] = {
    "bias": ([(9, 5), (5,)], (9, 5), lambda x, b: np.maximum(x + b, 0)),
    "transposed": ([(9, 5)], (5, 9), np.transpose),
    "softmax": ([(3, 7)], (3, 7), softmax),
    "layernorm": ([(4, 6), (6,)], (4, 6), layernorm),
    "rmsnorm": ([(4, 6)], (4, 6), lambda x: x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6)),
    "gemm": ([(17, 11), (11, 5)], (17, 5), lambda a, b: np.tanh(a @ b)),
    "batched": ([(2, 9, 3), (2, 3, 5)], (2, 9, 5), lambda a, b: a @ b),
    "conv1d": ([(11,), (3,)], (11,), lambda x, w: np.convolve(x, w[::-1], "same")),
    "conv2d": ([(5, 4), (3, 3)], (5, 4), conv2d),
    "stencil": ([(8,)], (8,), stencil),
    "maxpool": ([(10,)], (5,), lambda x: np.max(np.reshape(x, (5, 2)), 1)),
    "prefix": ([(3, 5)], (3, 5), lambda x: np.cumsum(x, 1)),
    "attention": ([(5, 4), (8, 4), (8, 4)], (5, 4), lambda q, k, v: softmax(q @ np.transpose(k)) @ v),
    "logsumexp": ([(3, 6)], (3,), lambda x: np.log(np.exp(x).sum(1))),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str):
    shapes, result, oracle = CASES[name]
    kernel = getattr(KERNELS, name)
    inputs = [normal(*shape) for shape in shapes]
    zeros, weights = np.zeros(result), normal(*result)
    graph = tessera.raise_kernel(kernel)
    assert_allclose(graph(*inputs, zeros), oracle(*inputs), rtol=1e-9, atol=1e-12)
    assert not zeros.any()

    def loss(*given: np.ndarray) -> object:
        y = op.full(result, 0.0, dtype="f64")
        kernel(*given, y)
        return op.sum(y * weights)

    slopes = tessera.grad(loss, argnums=tuple(range(len(inputs))))(*inputs)
    for number, slope in enumerate(slopes):
        assert_allclose(slope, differences(oracle, inputs, number, weights), rtol=1e-5, atol=1e-7)


def differences(
    oracle: Callable[..., np.ndarray], inputs: list[np.ndarray], number: int, weights: np.ndarray
) -> np.ndarray:
    found = np.zeros_like(inputs[number])
    for place in np.ndindex(found.shape):
        sides: list[float] = []
        for step in (1e-6, -1e-6):
            moved = [x.copy() for x in inputs]
            moved[number][place] += step
            sides.append((oracle(*moved) * weights).sum())
        found[place] = (sides[0] - sides[1]) / 2e-6
    return found


def test_numbers_are_part_of_the_graph():
    x = normal(5)
    graph = tessera.raise_kernel(KERNELS.scale)
    for alpha in (2.0, -1.5):
        assert_allclose(graph(x, np.zeros(5), alpha), alpha * x * x)


def test_a_tiled_product_is_one_contraction():
    graph = tessera.raise_kernel(KERNELS.batched)
    a, b = normal(2, 9, 3), normal(2, 3, 5)
    assert graph.graph_for(a, b, np.zeros((2, 9, 5))).graph.nodes[0].op == "contract"
    assert len(graph.executable.traced.nodes) == 1


def test_sixteen_bits_and_integers():
    x = normal(7).astype(np.float16)
    made = tessera.raise_kernel(KERNELS.half)(x, np.zeros(7, np.float16))
    wanted = np.zeros(7, np.float16)
    KERNELS.half(x, wanted)
    np.testing.assert_array_equal(made, wanted)
    n = np.arange(-3, 4, dtype=np.int32)
    np.testing.assert_array_equal(tessera.raise_kernel(KERNELS.counts)(n, np.zeros(7, np.int32)), n * 3 + 1)


def test_rows_picked_by_an_index_argument():
    table, ids = normal(6, 3), np.array([1, 5, 0, 1])
    graph = tessera.raise_kernel(KERNELS.embedding)
    assert_allclose(graph(table, ids, np.zeros((4, 3))), table[ids])
    weights = normal(4, 3)
    slope = tessera.grad(lambda t: op.sum(graph(t, ids, np.zeros((4, 3))) * weights))(table)
    wanted = np.zeros_like(table)
    np.add.at(wanted, ids, weights)
    assert_allclose(slope, wanted)


def test_kernels_in_place_and_of_several_outputs():
    x = normal(6)

    def squared(x: np.ndarray) -> object:
        y = x * 1.0
        KERNELS.square(y)
        return op.sum(y)

    assert_allclose(tessera.grad(squared)(x), 2 * x)
    s, c = tessera.raise_kernel(KERNELS.both)(x, np.zeros(6), np.zeros(6))
    assert_allclose(s, np.sin(x))
    assert_allclose(c, np.sin(x) * np.cos(x))


@pytest.mark.parametrize("extent", [0, 1, 33])
def test_empty_single_and_ragged_extents(extent: int):
    a, b = normal(extent, 3), normal(3, 4)
    assert_allclose(tessera.raise_kernel(KERNELS.gemm)(a, b, np.zeros((extent, 4))), np.tanh(a @ b), atol=1e-12)
    x, y = normal(2, extent), normal(extent, 3)
    assert_allclose(tessera.raise_kernel(KERNELS.gemm)(x, y, np.zeros((2, 3))), np.tanh(x @ y), atol=1e-12)


def test_kernels_with_a_grid():
    x, y = normal(150), np.zeros(150)
    assert_allclose(tessera.raise_kernel(KERNELS.grouped[3, 64])(x, y), 2 * x)
    with pytest.raises(CannotRaise, match="a grid must be given"):
        tessera.raise_kernel(KERNELS.grouped)(x, y)


def test_kernels_that_ran_before():
    x, y = normal(6), np.zeros(6)
    KERNELS.stencil(x, y)
    assert_allclose(y, stencil(x))

    def loss(x: np.ndarray) -> object:
        y = op.full((6,), 0.0, dtype="f64")
        KERNELS.stencil(x, y)
        return op.sum(y)

    assert_allclose(tessera.grad(loss)(x)[2], 0.5 + x[2])


REFUSED = tessera.compile_source("""
@kernel
def until(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        v = x[i]
        while v > 1.0:
            v = v * 0.5
        y[i] = v

@kernel
def scattered(x: f32[n], ids: i64[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[ids[i]] = x[i]

@kernel
def repeated(x: f32[n], ends: i64[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        s = 0.0
        for j in range(ends[i]):
            s += x[j]
        y[i] = s

@kernel
def recurrence(x: f32[n, m], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        s = 0.0
        for j in range(m):
            s = tile.tanh(s + x[i, j])
        y[i] = s

@kernel
def raced(x: f32[n], y: mut f32[1]):
    i = tile.linear_id()
    if i < n:
        y[0] = x[i]
""")


@pytest.mark.parametrize(
    ("name", "arguments", "reason", "line"),
    [
        ("until", [4, 4], "values say so", 7),
        ("scattered", [4, -4, 4], "at an index that is computed", 15),
        ("repeated", [4, -4, 4], "depends on values", 22),
        ("recurrence", [(4, 100), 4], "no sum, max or min", 31),
        ("raced", [4, 1], "side by side", 39),
    ],
)
def test_refusals_point_at_the_line(name: str, arguments: list[int | tuple[int, ...]], reason: str, line: int):
    given = [np.zeros(4, np.int64) if a == -4 else np.ones(a, np.float32) for a in arguments]
    with pytest.raises(CannotRaise, match=reason) as caught:
        tessera.raise_kernel(getattr(REFUSED, name))(*given)
    assert caught.value.span.line == line
    assert "op.custom" in caught.value.hint


def test_what_is_no_kernel():
    with pytest.raises(CannotRaise, match="is no kernel"):
        tessera.raise_kernel(len)  # pyright: ignore[reportArgumentType]


def test_short_recurrences_are_taken_trip_by_trip():
    x = normal(3, 5).astype(np.float32)
    state = np.zeros(3, np.float32)
    for column in x.T:
        state = np.tanh(state + column)
    assert_allclose(tessera.raise_kernel(REFUSED.recurrence)(x, np.zeros(3, np.float32)), state, rtol=1e-5)


def test_outputs_belong_to_the_graph():
    kept = np.zeros(4)
    with pytest.raises(CannotRaise, match="writes y, an array outside of the graph"):
        tessera.grad(lambda x: KERNELS.stencil(x, kept))(normal(4))

    def aliased(x: np.ndarray) -> object:
        KERNELS.stencil(x, x)
        return op.sum(x)

    with pytest.raises(CannotRaise, match="one array twice"):
        tessera.grad(aliased)(normal(4))
