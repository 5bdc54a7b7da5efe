"""Arrays without elements on every target: what NumPy gives, and nothing launched where there is nothing to do."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16
from numpy.typing import DTypeLike

from agreement.test_targets import EVERY_TARGET
from tessera import compile_source, graph
from tessera.core.settings import overridden
from tessera.core.targets import TARGETS
from tessera.kernels.kernel import Kernel
from tessera.lowering.base.cuda_toolkit import find_tool
from tessera.ops.matrix import gemm
from tessera.runtime.memory.owned import DeviceArray, to_device

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


def product_of(kernel: Kernel, m: int, n: int, k: int) -> list[np.ndarray]:
    """A and B of ones, and what C holds before."""
    dtype = bfloat16 if kernel is KERNELS.rounded else np.float32
    return [np.ones((m, k), bfloat16), np.ones((k, n), bfloat16), np.full((m, n), 7, dtype)]


def answer(kernel: Kernel, m: int, n: int, k: int) -> np.ndarray:
    """What becomes of C."""
    return np.ones((m, k)) @ np.ones((k, n)) + (0 if kernel is KERNELS.rounded else 1)


@pytest.fixture(params=EVERY_TARGET)
def target(request: pytest.FixtureRequest) -> Iterator[str]:
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


def fetched(array: np.ndarray | DeviceArray) -> np.ndarray:
    """An array of `placed` as NumPy's."""
    return np.asarray(array if isinstance(array, np.ndarray) else array.get()).astype(np.float32)


@pytest.mark.parametrize("kernel", PRODUCTS, ids=("product", "rounded", "unconditional"))
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_products(target: str, kernel: Kernel, m: int, n: int, k: int):
    arrays = product_of(kernel, m, n, k)
    kernel(*arrays)
    np.testing.assert_array_equal(fetched(arrays[2]), answer(kernel, m, n, k))


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_the_librarys_products(target: str, dtype: DTypeLike):
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


WHOLE = compile_source('''
@kernel
def elementwise(a: f32[m, n], b: f32[m, n], out: mut f32[m, n]):
    """Whole arrays as tiles."""
    out[:, :] = tile.where(a > b, a * 2.0, tile.maximum(a, b) // 3.0) + tile.exp(a) * 0.0

@kernel
def rows(a: f32[m, n], b: f32[m, n], out: mut f32[m, n]):
    """Each row less its sum, its largest and its smallest."""
    total = tile.sum(a, axis=1, keepdims=True)
    out[:, :] = a - total + tile.max(b, axis=1, keepdims=True) - tile.min(b, axis=1, keepdims=True)

@kernel
def columns(a: f32[m, n], b: f32[m, n], out: mut f32[m, n]):
    """Each element and what its column holds."""
    out[:, :] = a + tile.sum(b, axis=0) + tile.max(tile.cast(b, f16), axis=0)

@kernel
def everything(a: f32[m, n], b: f32[m, n], out: mut f32[m, n]):
    """Reductions to one number."""
    out[:, :] = a + tile.sum(b) - tile.max(tile.cast(b, i32)) + tile.min(tile.cast(b, i32))

@kernel
def turned(a: f32[m, n], b: f32[m, n], out: mut f32[m, n]):
    """A product over the rows, and one over the columns, from what was there."""
    out[:, :] = tile.dot(tile.dot(a, b.T), b, out[:, :])

@kernel
def carried(a: f32[m, n], b: f32[m, n], out: mut f32[m, n]):
    """A tile that a loop hands on, and one that a branch sets."""
    total = a[:, :]
    for i in range(3):
        total = total * 0.5 + b
    if m > 1:
        total = total + 1.0
    out[:, :] = total

@kernel
def normalised(a: f32[m, n], b: f32[m, n], out: mut f32[m, n]):
    """Softmax along each axis."""
    out[:, :] = tile.softmax(a, axis=1) + tile.softmax(b, axis=0)

@kernel
def pieces(a: f32[m, n], b: f32[m, n], out: mut f32[m, n]):
    """Blocks of four rows of arrays that may have none."""
    for t in tile.range(m, step=4):
        out[t:t+4, :] = a[t:t+4, :] + tile.max(b[t:t+4, :], axis=1, keepdims=True)
''')  # fmt: skip
COMPILED = ("cpu", "cuda:sm_90a", "cuda:sm_80", "cuda_tile:sm_90")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_tiles_of_whole_arrays_that_may_be_empty(data: st.DataObject):
    """Extents of 0 and 1 among others: the CPU gives the interpreter's bits, GPUs have code too."""
    name = data.draw(st.sampled_from(sorted(vars(WHOLE).keys() & WHOLE_NAMES)))
    m, n = (data.draw(st.sampled_from([0, 1, 2, 5])) for _ in range(2))
    generator = np.random.default_rng(m * 10 + n)
    a, b = (generator.standard_normal((m, n)).astype(np.float32) for _ in range(2))
    kernel = getattr(WHOLE, name)
    found: dict[str, np.ndarray] = {}
    for target in ("interpret", "cpu"):
        out = np.full((m, n), 7, np.float32)
        with overridden(target=target):
            kernel(a, b, out)
        found[target] = out
    if name == "normalised":  # `exp` has a last place of its own on each target
        np.testing.assert_allclose(found["cpu"], found["interpret"], rtol=1e-6)
    else:
        np.testing.assert_array_equal(found["interpret"].view(np.uint32), found["cpu"].view(np.uint32))
    if 0 in (m, n):
        kernel.compile(a, b, out, target=data.draw(st.sampled_from(COMPILED)))


WHOLE_NAMES = {"elementwise", "rows", "columns", "everything", "turned", "carried", "normalised", "pieces"}


@pytest.mark.parametrize("dtype", ["f32", "f16", "i32", "u8"])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_a_reduction_of_nothing_is_its_identity(kind: str, dtype: str):
    text = f"@kernel\ndef k(x: {dtype}[n], y: mut {dtype}[m]):\n    y[:] = tile.cast(tile.{kind}(x), {dtype})\n"
    like = np.dtype({"f32": "float32", "f16": "float16", "i32": "int32", "u8": "uint8"}[dtype])
    least, most = -np.inf, np.inf
    if not dtype.startswith("f"):
        least, most = np.iinfo(like).min, np.iinfo(like).max
    for target in ("interpret", "cpu"):
        y = np.ones(3, like)
        with overridden(target=target):
            compile_source(text).k(np.ones(0, like), y)
        assert (y == {"sum": 0, "max": least, "min": most}[kind]).all()
