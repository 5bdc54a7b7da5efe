"""Arrays without elements on every target: what NumPy gives, and nothing launched where there is nothing to do."""

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from agreement.test_targets import EVERY_TARGET
from tessera import compile_source, graph
from tessera.core.settings import TARGETS, overridden
from tessera.kernels.matrix import gemm
from tessera.lowering.target.toolchain import find_tool
from tessera.runtime.memory import to_device

KERNELS = compile_source('''
@kernel
def product(A: bf16[M, K], B: bf16[K, N], C: mut f32[M, N]):
    """C = A B + 1, stored at once."""
    for m in tile.range(M, step=128):
        for n in tile.range(N, step=64):
            total = tile.zeros((128, 64))
            for k in range(0, K, 64):
                total = tile.dot(A[m:m+128, k:k+64], B[k:k+64, n:n+64], total)
            C[m:m+128, n:n+64] = total + 1.0

@kernel
def rounded(A: bf16[M, K], B: bf16[K, N], C: mut bf16[M, N]):
    """C = A B, stored while the next group's first products run."""
    for m in tile.range(M, step=128):
        for n in tile.range(N, step=128):
            total = tile.zeros((128, 128))
            for k in range(0, K, 64):
                total = tile.dot(A[m:m+128, k:k+64], B[k:k+64, n:n+128], total)
            C[m:m+128, n:n+128] = tile.cast(total, bf16)

@kernel
def unconditional(A: bf16[M, K], B: bf16[K, N], C: mut f32[M, N]):
    """C = A B + 1 of at most 64 columns and steps: even what is not there is loaded and stored."""
    for m in tile.range(M, step=128):
        C[m:m+128, 0:64] = tile.dot(A[m:m+128, 0:64], B[0:64, 0:64]) + 1.0

@kernel
def in_place(X: mut bf16[M, K], B: bf16[L, N], C: mut f32[M, N]):
    """C = X B of 64 steps, then X = 7."""
    for m in tile.range(M, step=128):
        C[m:m+128, 0:64] = tile.dot(X[m:m+128, 0:64], B[0:64, 0:64])
        X[m:m+128, 0:64] = tile.cast(tile.dot(X[m:m+128, 0:64], B[0:64, 0:64]) + 7.0, bf16)

@kernel
def weighted(Q: bf16[S, 64], K: bf16[T, 64], V: bf16[T, 64], O: mut f32[S, 64]):
    """O = exp2(Q K' - largest) V: two products in a row."""
    for m in tile.range(S, step=128):
        q, out, top = Q[m:m+128, :], tile.zeros((128, 64)), tile.full((128, 1), -1e30)
        for n in range(0, T, 128):
            scores = tile.dot(q, K[n:n+128, :].T)
            above = tile.maximum(top, tile.max(scores, axis=1, keepdims=True))
            weights = tile.exp2(scores - above)
            out = tile.dot(tile.cast(weights, bf16), V[n:n+128, :], out * tile.exp2(top - above))
            top = above
        O[m:m+128, :] = out
''')  # fmt: skip
PRODUCTS = (KERNELS.product, KERNELS.rounded, KERNELS.unconditional)
SHAPES = (
    (128, 64, 0), (200, 64, 0), (0, 64, 64), (128, 0, 64), (128, 0, 0), (0, 0, 64), (0, 64, 0), (0, 0, 0), (130, 41, 0),
)  # fmt: skip


def product_of(kernel: Any, m: int, n: int, k: int) -> list[np.ndarray]:
    """A and B of ones, and what C holds before."""
    dtype = bfloat16 if kernel is KERNELS.rounded else np.float32
    return [np.ones((m, k), bfloat16), np.ones((k, n), bfloat16), np.full((m, n), 7, dtype)]


def answer(kernel: Any, m: int, n: int, k: int) -> np.ndarray:
    """What becomes of C."""
    return np.ones((m, k)) @ np.ones((k, n)) + (0 if kernel is KERNELS.rounded else 1)


@pytest.fixture(params=EVERY_TARGET)
def target(request: pytest.FixtureRequest):
    """Each target, while it is the one that kernels are compiled for."""
    if request.param not in TARGETS:
        pytest.skip(f"this build has no target {request.param}")
    if request.param == "cuda_tile" and find_tool("tileiras") is None:
        pytest.skip("no tileiras: pip install nvidia-cuda-tileiras")
    with overridden(target=request.param):
        yield request.param


def placed(target: str, arrays: list[np.ndarray]) -> list[Any]:
    """The arrays, on the GPU where that is the target."""
    return [to_device(array) for array in arrays] if target.startswith("cuda") else arrays


def fetched(array: Any) -> np.ndarray:
    """An array of `placed` as NumPy's."""
    return np.asarray(array if isinstance(array, np.ndarray) else array.get()).astype(np.float32)


@pytest.mark.parametrize("kernel", PRODUCTS, ids=("product", "rounded", "unconditional"))
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_products(target: str, kernel: Any, m: int, n: int, k: int):
    arrays = product_of(kernel, m, n, k)
    kernel(*arrays)
    np.testing.assert_array_equal(fetched(arrays[2]), answer(kernel, m, n, k))


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_the_librarys_products(target: str, dtype: Any):
    bias = np.linspace(-2, 2, 90).astype(np.float32)
    found = gemm(np.ones((70, 0), dtype), np.ones((0, 90), dtype), bias=bias, activation="relu", dtype="f32")
    np.testing.assert_array_equal(found, np.tile(np.maximum(bias, 0), (70, 1)))
    assert gemm(np.ones((0, 64), dtype), np.ones((64, 90), dtype)).shape == (0, 90)


def test_calls_like_the_last_one(target: str):
    """Of which a GPU's launcher makes graphs of one kernel."""
    for m, n, k in ((128, 64, 0), (0, 64, 64)):
        for _ in range(6):
            arrays = placed(target, product_of(KERNELS.product, m, n, k))
            KERNELS.product(*arrays)
            np.testing.assert_array_equal(fetched(arrays[2]), answer(KERNELS.product, m, n, k))


def test_what_is_stored_is_not_loaded_again(target: str):
    """An array without elements is zeros wherever it is loaded, whatever was stored there before."""
    x, b, c = np.ones((128, 0), bfloat16), np.ones((64, 64), bfloat16), np.full((128, 64), 7, np.float32)
    for _ in range(2):
        KERNELS.in_place(x, b, c)
        assert not c.any()


def test_two_products_in_a_row(target: str):
    q, k, out = np.ones((200, 64), bfloat16), np.ones((0, 64), bfloat16), np.full((200, 64), 7, np.float32)
    KERNELS.weighted(q, k, k.copy(), out)
    assert not out.any()


@pytest.mark.parametrize("shapes", [[(128, 64, 0), (0, 64, 64)], [(0, 64, 64)]])
def test_graphs(target: str, shapes: list[tuple[int, int, int]]):
    calls = [placed(target, product_of(KERNELS.product, *shape)) for shape in shapes]
    with graph.capture() as captured:
        for arrays in calls:
            KERNELS.product(*arrays)
    graph.launch(captured)
    for shape, arrays in zip(shapes, calls, strict=True):
        np.testing.assert_array_equal(fetched(arrays[2]), answer(KERNELS.product, *shape))
