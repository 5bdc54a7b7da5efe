"""Every single-device kernel of the documents, word for word, on both CPU targets against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

import tessera
from support.documents import BLOCKS, KERNELS
from tessera.core.base.reductions import tree_sum
from tessera.core.errors.catalog import BadGrid
from tessera.core.settings import overridden


@pytest.fixture(params=["interpret", "cpu"], autouse=True)
def target(request: pytest.FixtureRequest):
    """Run each test on both targets."""
    with overridden(target=request.param):
        yield request.param


def load(name: str):
    """The kernel of a block of the documents."""
    text = KERNELS[name]
    host = text.find("\nlaunch.grid(")  # the host's own lines run in the test, on the test's data
    module = tessera.compile_source(text if host < 0 else text[:host])
    return next(value for value in vars(module).values() if isinstance(value, tessera.Kernel))


def normal(*shape: int, dtype: DTypeLike = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("n", [1, 31, 128, 1000])
def test_scale(n: int):
    x, y = normal(n), np.full(n, np.nan, np.float32)
    load("scale")(x, y, 0.3)
    np.testing.assert_array_equal(y, np.float32(0.3) * x)


@pytest.mark.parametrize("n", [1, 33, 4097])
def test_saxpy(n: int):
    x, y = normal(n), normal(n) + 1
    want = np.float32(0.3) * x + y
    load("saxpy")(x, y, 0.3)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("n", [1, 1000])
def test_saxpy_with_an_explicit_grid(n: int):
    x, y, out = normal(n), normal(n) + 1, np.full(n, np.nan, np.float32)
    kernel = load("saxpy_launch")
    tessera.launch.grid(blocks=(tessera.ceil_div(n, 256),), threads=(256,))(kernel)(0.3, x, y, out)
    np.testing.assert_array_equal(out, np.float32(0.3) * x + y)
    out[:] = np.nan
    kernel[tessera.ceil_div(n, 256), 256](0.3, x, y, out)
    np.testing.assert_array_equal(out, np.float32(0.3) * x + y)
    out[:] = np.nan
    kernel(0.3, x, y, out)
    np.testing.assert_array_equal(out, np.float32(0.3) * x + y)


@pytest.mark.parametrize(("n", "groups"), [(1, 1), (1000, 3), (128, 2)])
def test_group_sum(n: int, groups: int):
    x, out = normal(n), np.full(groups, np.nan, np.float32)
    load("group_sum")(x, out)
    lanes = np.zeros(128, np.float32)
    for lane in range(128):
        total = np.float32(0)
        for value in x[lane::128]:
            total += value
        lanes[lane] = total
    np.testing.assert_array_equal(out, np.full(groups, tree_sum(lanes, 0)))


def test_group_sum_with_a_grid_that_does_not_fit_its_array():
    x, out = normal(10), np.zeros(1, np.float32)
    with pytest.raises(BadGrid, match="launched with 2 groups, and its arrays say grid_groups = 1"):
        load("group_sum")[2, 128](x, out)
    assert out[0] == 0


def axpy(x: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    """What the pipelines of the documents compute: the last block of 128 is copied and never used."""
    out, last = y.copy(), (len(x) - 1) // 128 * 128
    out[:last] = np.float16(alpha) * x[:last] + y[:last]
    return out


@pytest.mark.parametrize("name", ["axpy_tiled", "tp_axpy"])
@pytest.mark.parametrize("n", [128, 512, 700])
def test_the_double_buffered_pipelines(name: str, n: int):
    x, y = normal(n, dtype=np.float16), normal(n, dtype=np.float16)
    want = axpy(x, y, 0.5)
    load(name)(x, y, 0.5)
    np.testing.assert_array_equal(y, want)


def close(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    """Equal up to `tolerance` of the largest value."""
    assert np.abs(got.astype(np.float64) - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize("shape", [(128, 128, 32), (200, 150, 70)])
def test_gemm_tc(shape: tuple[int, int, int]):
    m, n, k = shape
    a, b, c = (
        normal(m, k, dtype=ml_dtypes.bfloat16),
        normal(k, n, dtype=ml_dtypes.bfloat16),
        np.full((m, n), np.nan, np.float32),
    )
    load("gemm_tc")(a, b, c)
    close(c, a.astype(np.float64) @ b.astype(np.float64), 1e-6)


def test_flash_attention():
    q, k, v = (normal(256, 64, dtype=np.float16) + np.float16(0.1 * i) for i in range(3))
    o = np.full((256, 64), np.nan, np.float16)
    load("flash_attention")(q, k, v, o)
    want = np.zeros((256, 64))
    for at in range(0, 256, 128):
        s = q[at : at + 128].astype(np.float64) @ k[at : at + 128].astype(np.float64).T
        p = np.exp(s - s.max(axis=1, keepdims=True))
        want[at : at + 128] = p / p.sum(axis=1, keepdims=True) @ v[at : at + 128].astype(np.float64)
    close(o, want, 2e-3)


@pytest.mark.parametrize("warps", [1, 5])
def test_warp_reduce_sum(warps: int):
    x, out = normal(32 * warps), np.full(warps, np.nan, np.float32)
    load("warp_reduce_sum")(x, out)
    total = x.reshape(warps, 32).copy()
    for offset in (16, 8, 4, 2, 1):
        total[:, :offset] += total[:, offset : 2 * offset]
    np.testing.assert_array_equal(out, total[:, 0])


def test_pipeline():
    a, b, c = normal(64, 512), normal(512, 96), normal(64, 96)
    want = a.astype(np.float64) @ b.astype(np.float64) + c
    load("pipeline")(a, b, c)
    close(c, want, 1e-6)


def test_coop_example():
    x = normal(100)
    want = x.copy()
    want[:64] += 1
    load("coop_example")(x)
    np.testing.assert_array_equal(x, want)


def test_fused_mlp():
    x, w1, b1, w2, b2 = normal(70, 40), normal(40, 130), normal(130), normal(130, 24), normal(24)
    out = np.full((70, 24), np.nan, np.float32)
    load("fused_mlp")(x, w1, b1, w2, b2, out)
    h = np.maximum(x.astype(np.float64) @ w1 + b1, 0)
    close(out, h @ w2 + b2, 1e-6)


SWIZZLED = """
@kernel tile[(128,)] shared(32_KiB)
def swizzled(A: f16[M, K], B: f16[K, N], out: mut f32[M, N]):
    BM, BN, BK = 64, 64, 32
    for m in tile.range(M, step=BM):
        for n in tile.range(N, step=BN):
            C = tile.zeros((BM, BN))
            for k in range(0, K, BK):
                A_tile = A[m:m+BM, k:k+BK]
{fragment}
            out[m:m+BM, n:n+BN] = C
"""


def test_the_swizzled_gemm_fragment():
    fragment = BLOCKS["swizzled_gemm"].replace("A_tile)", "A[m:m+BM, k:k+BK])").replace("B_tile)", "B[k:k+BK, n:n+BN])")
    body = "\n".join(" " * 16 + line for line in [*fragment.strip().splitlines(), "tbarrier()"])
    text = SWIZZLED.format(fragment=body).replace("                A_tile = A[m:m+BM, k:k+BK]\n", "")
    (kernel,) = [v for v in vars(tessera.compile_source(text)).values() if isinstance(v, tessera.Kernel)]
    a, b, out = (
        normal(128, 64, dtype=np.float16),
        normal(64, 64, dtype=np.float16),
        np.full((128, 64), np.nan, np.float32),
    )
    kernel(a, b, out)
    close(out, a.astype(np.float64) @ b.astype(np.float64), 1e-6)


def test_ir_can_be_inspected_as_the_documents_do():
    kernel = load("scale")
    kernel(normal(8), normal(8), 2.0)
    assert "tessera.write" in str(kernel.inspect_ir("tile"))
    assert "llvm" in str(kernel.inspect_ir("target"))


def test_autotune_search_as_the_documents_do():
    kernel = load("gemm_tc")
    c = np.zeros((128, 128), np.float32)
    a = normal(128, 128, dtype=ml_dtypes.bfloat16)
    kernel(a, a, c)
    result = tessera.autotune.search(
        kernel=kernel, params={"BM": [64, 128], "BN": [64, 128], "BK": [16, 32]}, objective="runtime"
    )
    assert set(result.config) == {"BM", "BN", "BK"}
    assert len(result.trials) == 8
    assert all(trial.status == "measured" for trial in result.trials)
