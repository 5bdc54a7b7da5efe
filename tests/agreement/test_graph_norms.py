"""Normalizations before products, against f64: where they are moved behind, and that no bit changes without permission."""

# Operators take arrays of any library.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from support.targets import RUNNABLE
from tessera import graph, op
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction

TARGETS = pytest.mark.parametrize("target", RUNNABLE)
BF16 = ml_dtypes.bfloat16
Array = NDArray[Any]


def drawn(*shape: int, dtype: DTypeLike = BF16, mean: float = 0.0, seed: int = 0) -> Array:
    return (mean + np.random.default_rng([seed, *shape]).standard_normal(shape)).astype(dtype)


def weights(k: int, n: int, dtype: DTypeLike = BF16, seed: int = 1) -> Array:
    return (np.random.default_rng([seed, k, n]).standard_normal((k, n)) / k**0.5).astype(dtype)


def rms(x: Array, gain: Array | float = 1.0) -> Array:
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * np.asarray(gain).astype(np.float64)


def layer(x: Array, gain: Array | float = 1.0, bias: Array | float = 0.0) -> Array:
    x = x.astype(np.float64)
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * np.asarray(gain).astype(np.float64) + np.asarray(bias).astype(np.float64)


def kinds(module: GraphFunction[..., Any]) -> list[str]:
    return [group.kind for group in module.executable.plan.groups]


def largest(module: GraphFunction[..., Any]) -> int:
    """Return the bytes of the largest value that one kernel writes for another."""
    groups = module.executable.plan.groups
    outputs = module.executable.plan.graph.outputs
    return max((v.type.bytes for group in groups for v in group.outputs if v not in outputs), default=0)


def error(got: object, want: Array) -> float:
    return float(np.linalg.norm(np.asarray(got).astype(np.float64) - want) / np.linalg.norm(want))


@TARGETS
@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("shape", [(64, 128, 300), (57, 130, 257), (33, 1000, 513)])
def test_the_scale_of_rows_is_behind_the_product(shape: tuple[int, int, int], dtype: DTypeLike, target: str):
    """The rows are read as they are; one number a row is what goes through memory."""
    m, k, n = shape
    x, w = drawn(m, k, dtype=dtype), weights(k, n, dtype)
    found: dict[str, float] = {}
    for algebra in ("bits", "real"):
        module = graph.module("rms", algebra=algebra)(lambda x, w: op.gemm(op.rmsnorm(x), w))
        with overridden(target=target):
            found[algebra] = error(module(x, w), rms(x) @ w.astype(np.float64))
        assert kinds(module) == ["rows", "product"]
        assert largest(module) == (4 * m if algebra == "real" else x.nbytes)
    assert found["real"] <= 1.02 * found["bits"]


@TARGETS
def test_a_batch_has_rows_too(target: str):
    x, w = drawn(3, 17, 96), weights(96, 264)
    module = graph.module("batch", algebra="real")(lambda x, w: op.matmul(op.rmsnorm(x), w))
    with overridden(target=target):
        assert error(module(x, w), rms(x) @ w.astype(np.float64)) < 2.5e-3
    assert largest(module) == 4 * 3 * 17


@TARGETS
def test_siblings_share_the_scale(target: str):
    """SwiGLU: one product of the raw rows with two sums, both scaled in its epilogue."""
    x, a, b = drawn(100, 2000), weights(2000, 300), weights(2000, 300, seed=2)

    def gated(x: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        y = op.rmsnorm(x)
        return op.silu(op.gemm(y, a)) * op.gemm(y, b)

    left, right = (rms(x) @ each.astype(np.float64) for each in (a, b))
    module = graph.module("gated", algebra="real")(gated)
    with overridden(target=target):
        assert error(module(x, a, b), left / (1 + np.exp(-left)) * right) < 6e-3
    assert kinds(module) == ["rows", "product"]
    assert largest(module) == 4 * 100


@TARGETS
def test_queries_keys_and_values_share_the_scale(target: str):
    x, *projections = drawn(48, 320), *(weights(320, 272, seed=seed) for seed in range(3))

    def projected(x: Any, *weights: Any) -> Any:  # noqa: ANN401
        y = op.rmsnorm(x)
        return tuple(op.gemm(y, each) for each in weights)

    module = graph.module("projected", algebra="real")(projected)
    with overridden(target=target):
        made = module(x, *projections)
    for got, each in zip(made, projections, strict=True):
        assert error(got, rms(x) @ each.astype(np.float64)) < 2.5e-3
    assert largest(module) == 4 * 48


LARGE: dict[str, tuple[Callable[..., Any], Callable[..., Array], int]] = {
    "rms with a gain": (lambda x, w, g, b: op.gemm(op.rmsnorm(x, g), w), lambda x, g, b: rms(x, g), 272),
    "layer": (lambda x, w, g, b: op.gemm(op.layernorm(x), w), lambda x, g, b: layer(x), 24),
    "layer with a gain and a bias": (
        lambda x, w, g, b: op.gemm(op.layernorm(x, g, b), w), layer, 24
    ),
}  # fmt: skip


@pytest.mark.parametrize("mean", [0.0, 100.0])
@pytest.mark.parametrize("name", LARGE)
def test_many_rows_pay_for_prepared_weights(name: str, mean: float):
    """Gains are in the weights, shifts behind the product, as long as the rows outweigh what that costs."""
    make, exact, n = LARGE[name]
    m, k = 40960, 256
    x, w, g, b = drawn(m, k, mean=mean), weights(k, n), drawn(k, seed=3), drawn(k, seed=4)
    wanted = exact(x[:512], g, b) @ w.astype(np.float64)
    found: dict[str, float] = {}
    for algebra in ("bits", "real"):
        module = graph.module("large", algebra=algebra)(make)
        with overridden(target="cpu"):
            found[algebra] = error(module(x, w, g, b)[:512], wanted)
        assert (largest(module) < x.nbytes / 10) == (algebra == "real")
    assert found["real"] <= 1.05 * found["bits"]


@pytest.mark.parametrize("m", [8, 1024])
def test_a_few_rows_do_not(m: int):
    """Weights that are larger than the rows would cost more to prepare than the rows to write."""
    x, w, g = np.zeros((m, 512), np.float16), np.zeros((512, 2048), np.float16), np.zeros(512, np.float16)
    module = graph.module("few", algebra="real")(lambda x, w, g: op.gemm(op.rmsnorm(x, g), w))
    assert [group.kind for group in module.executable_for(x, w, g).plan.groups] == ["rows", "product"]
    assert all(len(group.inputs) == 2 for group in module.executable_for(x, w, g).plan.groups)


@TARGETS
@pytest.mark.parametrize("mean", [0.0, 100.0, 1e6])
def test_f32_is_as_accurate_with_every_permission(mean: float, target: str):
    """A mean far from 0 is taken away before anything is multiplied: rows of f32 have digits behind it."""
    x, w = drawn(64, 300, dtype=np.float32, mean=mean), weights(300, 40, np.float32)
    wanted = layer(x) @ w.astype(np.float64)
    found: list[NDArray[Any]] = []
    for algebra in ("bits", "real"):
        module = graph.module("wide", algebra=algebra)(lambda x, w: op.gemm(op.layernorm(x), w))
        with overridden(target=target):
            found.append(np.asarray(module(x, w)))
    assert error(found[0], wanted) < 2e-7 * (2 + mean)
    assert error(found[1], wanted) <= 1.1 * error(found[0], wanted)


def test_on_a_gpu_the_product_is_the_fast_one():
    """Warp groups and the copy engine, with the scale in the epilogue, and nothing in memory but arrays."""
    x, w = np.zeros((512, 512), np.float16), np.zeros((512, 512), np.float16)
    module = graph.module("fast", algebra="real")(lambda x, w: op.gemm(op.rmsnorm(x), w))
    with overridden(target="interpret"):
        module(x[:], w)
    statistics, product = (kernel.compiled for kernel in module.kernels("cuda:sm_90a"))
    assert statistics is not None
    assert product is not None
    for text in (str(statistics.resources()), str(product.resources())):
        assert "spilled                   0 bytes" in text
    assert "HGMMA" in str(product.resources())
    assert "UTMALDG" in str(product.resources())
