"""Random numbers: the same bits everywhere, the right distributions, and every way to ask for wrong ones."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.operators import TARGETS, Array, close, drawn
from tessera import graph, op
from tessera.core.base.philox import ROUNDS, random_bits
from tessera.core.errors.catalog import NotOnCudaTile, OperandMismatch
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.runtime.interpret.graph import evaluate

KEY = op.key(42)


@pytest.mark.parametrize("target", [*TARGETS, *(pytest.param(t, marks=pytest.mark.gpu) for t in ("cuda", "cuda_tile"))])
@pytest.mark.parametrize(
    "draw",
    [
        lambda k: op.random_bits((3, 50), k),
        lambda k: op.uniform((3, 50), k, -1.0, 2.0),
        lambda k: op.uniform((7,), k, dtype="f64"),
        lambda k: op.uniform((2, 3), k, dtype="bf16"),
        lambda k: op.randn((500,), k),
        lambda k: op.randn((2, 100), k, "f64"),
        lambda k: op.randn((1,), k, "f16"),
        lambda k: op.poisson(4.5, (200,), k),
        lambda k: op.split_key(k, 5),
        lambda k: op.fold_in(k, 1 << 40),
        lambda k: op.dropout(op.randn((40,), op.split_key(k)[0]), 0.3, k),
    ],
)
def test_the_same_bits_everywhere(target: str, draw: Callable[[Array], Array]):
    same_bits(target, draw)


RATES: list[Callable[[Array], Array]] = [
    lambda k: op.poisson(op.uniform((7, 1), k, 0.0, 50.0), (7, 30), k),
    lambda k: op.poisson(op.uniform((90,), k, 5.0, 20.0, "f16"), None, k, "i32"),
]
"""Counts of a rate for each lane: a loop whose length the lane decides."""


@pytest.mark.parametrize("target", [*TARGETS, pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("draw", RATES)
def test_counts_of_many_rates_have_the_same_bits(target: str, draw: Callable[[Array], Array]):
    same_bits(target, draw)


@pytest.mark.gpu
@pytest.mark.parametrize("draw", RATES)
def test_cuda_tile_refuses_loops_of_lanes(draw: Callable[[Array], Array]):
    with overridden(target="cuda_tile"), pytest.raises(NotOnCudaTile, match='compile this one for "cuda"'):
        GraphFunction(draw)(KEY)


def same_bits(target: str, draw: Callable[[Array], Array]) -> None:
    """Assert that numbers drawn on a target have the oracle's bits."""
    function = GraphFunction(draw)
    (want,) = evaluate(function.graph_for(KEY).graph, [KEY])
    with overridden(target=target):
        got = np.asarray(function(KEY))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.view(np.uint8), np.asarray(want).view(np.uint8))


def test_keys():
    np.testing.assert_array_equal(op.key(2**32 * 7 + 5), np.array([5, 7], np.uint32))
    keys = {tuple(each) for each in np.asarray(op.split_key(KEY, 50))}
    keys |= {tuple(np.asarray(op.fold_in(KEY, number))) for number in (0, 1, 2, 1 << 33, -1)}
    keys |= {tuple(np.asarray(op.fold_in(op.key(43), 0)))}
    assert len(keys) == 56
    np.testing.assert_array_equal(op.fold_in(KEY, 7), op.fold_in(KEY, np.array(7)))
    np.testing.assert_array_equal(op.fold_in(KEY, -3), op.fold_in(KEY, np.array(-3, np.int32)))


def test_numbers_do_not_depend_on_what_else_is_drawn():
    def model(k: Array) -> tuple[Array, Array]:
        x = op.randn((4, 6), k)
        return x, op.sum(x @ op.randn((6, 5), op.fold_in(k, 1)))

    np.testing.assert_array_equal(GraphFunction(model)(KEY)[0], op.randn((4, 6), KEY))


def moments(x: NDArray[Any]) -> tuple[float, ...]:
    x = x.astype(np.float64)
    return (float(x.mean()), float(x.var()), float(((x - x.mean()) ** 3).mean()))


@pytest.mark.parametrize(
    ("draw", "mean", "variance", "third"),
    [
        (lambda n: op.uniform((n,), KEY), 0.5, 1 / 12, 0.0),
        (lambda n: op.uniform((n,), KEY, -3.0, 1.0, "f64"), -1.0, 16 / 12, 0.0),
        (lambda n: op.uniform((n,), KEY, dtype="f16"), 0.5, 1 / 12, 0.0),
        (lambda n: op.randn((n,), KEY), 0.0, 1.0, 0.0),
        (lambda n: op.randn((n,), KEY, "f64"), 0.0, 1.0, 0.0),
        (lambda n: op.poisson(4.0, (n,), KEY), 4.0, 4.0, 4.0),
        (lambda n: op.poisson(100.0, (n,), KEY), 100.0, 100.0, 100.0),
        (lambda n: op.poisson(0.0, (n,), KEY), 0.0, 0.0, 0.0),
    ],
)  # fmt: skip
def test_moments(draw: Callable[[int], Array], mean: float, variance: float, third: float):
    """Of 2^17 numbers, which are always the same ones: five standard errors."""
    n = 1 << 17
    got = moments(np.asarray(draw(n)))
    spread = max(variance, 1e-12) ** 0.5
    assert abs(got[0] - mean) <= 5 * spread / n**0.5 + 1e-3 * spread
    assert abs(got[1] - variance) <= 5 * variance * (2 / n + 1 / max(n * variance, 1)) ** 0.5 + 1e-3 * variance
    assert abs(got[2] - third) <= 5 * spread**3 * (15 / n) ** 0.5 + 0.05 * third


def test_uniform_numbers_stay_below_the_end():
    for dtype in ("f32", "f64", "f16", "bf16"):
        x = np.asarray(op.uniform((1 << 14,), KEY, dtype=dtype)).astype(np.float64)
        assert x.min() >= 0
        assert x.max() < 1
    bits = random_bits(KEY, 9, 0)
    np.testing.assert_array_equal(op.uniform((9,), KEY), (bits >> 8).astype(np.float32) * np.float32(2**-24))


def test_poisson_frequencies():
    counts = np.bincount(np.asarray(op.poisson(2.0, (1 << 17,), KEY)), minlength=6)[:6] / (1 << 17)
    np.testing.assert_allclose(counts, np.exp(-2) * np.array([1, 2, 2, 4 / 3, 2 / 3, 4 / 15]), atol=0.005)


def test_dropout_and_its_mask():
    x = drawn((64, 50), np.float32, low=1.0)
    got = np.asarray(op.dropout(x, 0.25, KEY))
    kept = random_bits(KEY, x.size, 0).reshape(x.shape) >= 1 << 30
    close(got, np.where(kept, x / 0.75, 0), 1e-6)
    close(tessera.grad(lambda x: op.sum(op.dropout(x, 0.25, KEY) * 2.0))(x), np.where(kept, 2 / 0.75, 0), 1e-6)
    np.testing.assert_array_equal(op.dropout(x, 0.0, KEY), x)
    assert np.asarray(op.dropout(x.astype(np.float16), 0.5, KEY)).dtype == np.float16


def test_the_derivative_draws_the_mask_again():
    """No kernel reads a mask or bits from memory: each of both computes them of the key."""

    def loss(x: Array, w: Array, k: Array) -> Array:
        return op.sum(op.square(op.dropout(x @ w, 0.5, k) @ w))

    slope = tessera.grad(loss)
    x, w = drawn((32, 32), np.float32), drawn((32, 32), np.float32, 1)
    close(slope(x, w, KEY), _by_hand(x, w), 1e-5)
    lines = slope.inspect_ir("schedule").splitlines()
    written = [line for line in lines if line.lstrip().startswith(("reads", "writes"))]
    assert not any(kind in line for line in written for kind in ("bool[", "u32[32"))
    assert sum("operations of" in line for line in lines) >= 2


def _by_hand(x: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    kept = (random_bits(KEY, 1024, 0).reshape(32, 32) >= 1 << 31) * 2.0
    return ((2 * ((x @ w) * kept) @ w) @ w.T * kept) @ w.T


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: op.key(-1), "-1 is no seed"),
        (lambda: op.key(1.5), "1.5 is no seed"),
        (lambda: op.randn((3,), 42), "42 is no key"),
        (lambda: op.randn((3,), np.zeros(2)), r"a key is u32\[2\], not f64\[2\]"),
        (lambda: op.randn(3, KEY), "3 is no shape"),
        (lambda: op.randn((-3,), KEY), "is no shape"),
        (lambda: op.randn((3,), KEY, "i32"), "random numbers of i32 are not drawn"),
        (lambda: op.uniform((3,), KEY, 1.0, 1.0), "no number from 1.0 to 1.0"),
        (lambda: op.dropout(np.ones(3), 1.0, KEY), "a rate of 1.0 leaves nothing"),
        (lambda: op.poisson(-1.0, (3,), KEY), "a rate of -1.0"),
        (lambda: op.poisson(1001, (3,), KEY), "from 0 to 1000"),
        (lambda: op.poisson(1.0, (3,), KEY, "f32"), "counts are no f32"),
        (lambda: op.fold_in(KEY, np.zeros(2, np.int64)), "made of one integer"),
    ],
)
def test_mistakes(call: Callable[[], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as caught:
        call()
    assert "^^^" in str(caught.value)


@pytest.mark.parametrize("shape", [(1 << 16,), (256, 256), (8, 32, 256)])
def test_one_block_of_bits_gives_four_elements_on_a_gpu(shape: tuple[int, ...]):
    """Each lane computes a block for every four elements that it stores, 16 bytes at a time."""
    module = graph.module("drawn")(lambda key: op.uniform(shape, key))
    with overridden(target="interpret"):
        module(op.key(1))
    (kernel,) = module.kernels("cuda:sm_90a")
    assert kernel.compiled is not None
    text = kernel.compiled.listing("ptx").text
    stores = len(re.findall(r"st\.global\.v4\.b32", text))
    products = len(re.findall(r"mul\.(?:hi|wide)\.u32.*, -845247145;", text))
    assert stores == 4
    assert products == stores * (ROUNDS - 1)  # the first one is that of a constant


def test_normal_numbers_need_no_slow_path():
    module = graph.module("drawn")(lambda key: op.randn((1 << 16,), key))
    with overridden(target="interpret"):
        module(op.key(1))
    (kernel,) = module.kernels("cuda:sm_90a")
    assert kernel.compiled is not None
    text = kernel.compiled.listing("ptx").text
    assert "div.rn" not in text
    assert "sqrt.rn" not in text


@pytest.mark.parametrize(("low", "high", "dtype"), [(100, 101, "bf16"), (1000, 1001, "f32"), (0.1, 0.3, "f16"),
                                                    (-3, 5, "bf16"), (1e6, 1e6 + 1, "f64")])  # fmt: skip
def test_uniform_numbers_lie_in_their_interval_however_they_are_rounded(low: float, high: float, dtype: str):
    with overridden(target="cpu"):
        x = np.asarray(op.uniform((100_000,), op.key(3), low, high, dtype)).astype(np.float64)
    assert low <= x.min()
    assert x.max() < high
    assert abs(x.mean() - (low + high) / 2) < 0.15 * (high - low)


@pytest.mark.parametrize(("low", "high"), [(100.1, 100.2), (0.0, np.inf), (2.0, 1.0)])
def test_an_interval_without_numbers_is_refused(low: float, high: float):
    with pytest.raises(OperandMismatch, match="from"):
        op.uniform((3,), op.key(0), low, high, "bf16")
