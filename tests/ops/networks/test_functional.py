"""Operators of neural networks against NumPy in f64."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, TARGETS, TOLERANCE, Array, close, drawn, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden


def softmax(x: NDArray[Any], axis: int = -1) -> NDArray[Any]:
    x = x.astype(np.float64)
    weights = np.exp(x - x.max(axis, keepdims=True))
    return weights / weights.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_and_its_logarithms(axis: int, dtype: str):
    x = drawn((4, 3, 33), FLOATS[dtype], low=-5, high=5)
    wide = x.astype(np.float64)
    total = np.log(np.exp(wide).sum(axis))
    assert everywhere(lambda x: op.softmax(x, axis), x).dtype == x.dtype
    close(everywhere(lambda x: op.softmax(x, axis), x), softmax(x, axis), TOLERANCE[dtype])
    close(everywhere(lambda x: op.softmax_safe(x, axis), x), softmax(x, axis), TOLERANCE[dtype])
    close(everywhere(lambda x: op.logsumexp(x, axis), x), total, TOLERANCE[dtype])
    close(everywhere(lambda x: op.logsumexp(x, axis, keepdims=True), x), np.expand_dims(total, axis), TOLERANCE[dtype])
    close(everywhere(lambda x: op.log_softmax(x, axis), x), wide - np.expand_dims(total, axis), TOLERANCE[dtype])


@pytest.mark.parametrize("shift", [0.0, 1000.0, -1e6, 3e37])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_logarithms_of_softmax_keep_their_digits_far_from_zero(dtype: str, shift: float):
    x = (drawn((6, 9), FLOATS[dtype], low=-4, high=4).astype(np.float64) + shift).astype(FLOATS[dtype])
    wide = x.astype(np.longdouble)
    shifted = wide - wide.max(-1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    got = everywhere(op.log_softmax, x).astype(np.float64)
    np.testing.assert_allclose(got, logarithms.astype(np.float64), rtol=TOLERANCE[dtype], atol=4 * 2.0**-24)
    target = np.arange(6) % 9
    want = float(-logarithms[np.arange(6), target].mean())
    loss = everywhere(op.cross_entropy, x.astype(np.float64 if dtype == "f64" else np.float32), target)
    np.testing.assert_allclose(loss, want, rtol=4e-6)


def test_a_small_loss_of_large_logits():
    x = np.array([[1000.0, 995.0]], np.float32)
    np.testing.assert_allclose(everywhere(op.cross_entropy, x, np.array([0])), np.log1p(np.exp(-5.0)), rtol=1e-6)
    slope = tessera.grad(lambda x: op.cross_entropy(x, np.array([0])))(x)
    np.testing.assert_allclose(slope, [[-np.exp(-5) / (1 + np.exp(-5)), np.exp(-5) / (1 + np.exp(-5))]], rtol=1e-5)


def test_logarithms_of_softmax_beside_infinities():
    x = np.array([[-math.inf, 0.0, 1.0], [math.inf, 0.0, 1.0], [math.nan, 0.0, 1.0]], np.float32)
    want = [[-math.inf, -1.3132617, -0.3132617], [math.nan, -math.inf, -math.inf], [math.nan] * 3]
    np.testing.assert_allclose(everywhere(op.log_softmax, x), want, rtol=1e-6)
    np.testing.assert_allclose(everywhere(op.logsumexp, x), [1.3132617, math.inf, math.nan], rtol=1e-6)


@settings(max_examples=8)
@given(
    shape=st.lists(st.integers(1, 20), min_size=1, max_size=3).map(tuple), dtype=st.sampled_from(sorted(FLOATS)),
)  # fmt: skip
def test_rows_of_any_shape(shape: tuple[int, ...], dtype: str):
    x = drawn(shape, FLOATS[dtype])
    close(everywhere(op.softmax, x), softmax(x), 4 * TOLERANCE[dtype])


def test_large_numbers_do_not_overflow_and_masked_rows_give_zeros():
    x = np.array([[1e30, 1e30], [-math.inf, 0.0], [-math.inf, -math.inf]], np.float32)
    np.testing.assert_array_equal(everywhere(op.softmax_safe, x), np.array([[0.5, 0.5], [0, 1], [0, 0]], np.float32))
    np.testing.assert_array_equal(everywhere(op.softmax, x[:2]), np.array([[0.5, 0.5], [0, 1]], np.float32))


def test_integers_give_f32():
    x = drawn((3, 5), np.int32, low=-5, high=5)
    assert everywhere(op.softmax, x).dtype == np.float32
    close(everywhere(op.softmax, x), softmax(x), 2e-6)
    close(everywhere(op.mse, x, x + 2), np.array(4.0), 1e-6)


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "row",
    [
        (-np.inf, -np.inf, -np.inf), (np.inf, 1, 2), (np.inf, -np.inf, 0), (-np.inf, 1, 2), (np.nan, 1, np.inf),
        (np.nan, -np.inf, 0), (-LARGEST, -LARGEST, -LARGEST), (0, -0.0, 1e-30), (80, 81, -200), (-1e4, -1e4, -1e4),
    ],
)  # fmt: skip
def test_logsumexp_over_the_whole_range(dtype: str, row: tuple[float, ...]):
    with np.errstate(all="ignore"):
        x = np.array([row], np.float32).astype(FLOATS[dtype])
        wide = x.astype(np.float64)
        right = np.logaddexp.reduce(wide, axis=-1)
        weights = np.exp(wide - wide.max())
    close(everywhere(op.logsumexp, x), right, TOLERANCE[dtype])
    if np.isfinite(right).all():
        close(
            everywhere(tessera.grad(lambda x: op.sum(op.logsumexp(x))), x),
            weights / weights.sum(),
            2 * TOLERANCE[dtype],
        )


@pytest.mark.parametrize("batch", [(), (2,)])
def test_heads_split_and_join(batch: tuple[int, ...]):
    qkv = drawn((*batch, 6, 3 * 4 * 8), np.float32)
    apart = np.moveaxis(qkv.reshape(*batch, 6, 3, 4, 8), -3, 0)
    for number in range(3):
        got = everywhere(lambda x, number=number: op.split_qkv(x, heads=4)[number], qkv)
        np.testing.assert_array_equal(got, np.moveaxis(apart[number], -2, -3))
    q = np.ascontiguousarray(np.moveaxis(apart[0], -2, -3))
    np.testing.assert_array_equal(everywhere(op.join_heads, q), apart[0].reshape(*batch, 6, 32))


def attention(q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], seen: NDArray[Any] | None = None, bias: NDArray[Any] | float = 0.0,
              scale: float | None = None, softcap: float = 0.0) -> NDArray[Any]:  # fmt: skip
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    share = q.shape[-3] // k.shape[-3]
    k, v = k.repeat(share, -3), v.repeat(share, -3)
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    scores = scores + bias
    scores = scores if seen is None else np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def heads(dtype: str = "f32", queries: int = 9, keys: int = 13, groups: int = 2) -> list[NDArray[Any]]:
    kind = FLOATS[dtype]
    return [
        drawn((2, 4, queries, 8), kind, 1),
        drawn((2, groups, keys, 8), kind, 2),
        drawn((2, groups, keys, 8), kind, 3),
    ]


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_flash_attention(dtype: str, groups: int):
    q, k, v = heads(dtype, groups=groups)
    got = everywhere(op.flash_attention, q, k, v)
    assert got.dtype == q.dtype
    close(got, attention(q, k, v), {"f32": 4e-6}.get(dtype, 2 * TOLERANCE[dtype]))


def test_flash_attention_with_masks():
    q, k, v = heads()
    i, j = np.arange(9)[:, None] + 4, np.arange(13)[None, :]
    close(everywhere(lambda *a: op.flash_attention(*a, causal=True), q, k, v), attention(q, k, v, j <= i), 4e-6)
    close(
        everywhere(lambda *a: op.flash_attention(*a, causal=True, window=3), q, k, v),
        attention(q, k, v, (j <= i) & (j > i - 3)), 4e-6,
    )  # fmt: skip
    for shape in ((9, 13), (4, 9, 13), (1, 9, 13), (2, 4, 9, 13), (2, 1, 9, 13)):
        mask = drawn(shape, np.float32, 7) > 0.5
        got = everywhere(lambda q, k, v, mask: op.flash_attention(q, k, v, mask=mask), q, k, v, mask)
        close(got, attention(q, k, v, mask), 4e-6)


def test_queries_that_see_no_key_give_zeros():
    q, k, v = heads(queries=5, keys=3)  # the first two queries stand before every key
    got = everywhere(lambda *a: op.flash_attention(*a, causal=True), q, k, v)
    np.testing.assert_array_equal(got[:, :, :2], 0)
    assert np.abs(got[:, :, 2:]).min() > 0


def test_flash_attention_with_bias_scale_and_softcap():
    q, k, v = heads()
    bias = drawn((4, 9, 13), np.float32, 5)
    got = everywhere(lambda q, k, v, b: op.flash_attention(q, k, v, bias=b, scale=0.3, softcap=2.0), q, k, v, bias)
    close(got, attention(q, k, v, bias=bias, scale=0.3, softcap=2.0), 4e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_losses(dtype: str):
    x, y = drawn((6, 10), FLOATS[dtype], 1), drawn((6, 10), FLOATS[dtype], 2)
    got = everywhere(op.mse, x, y)
    assert got.dtype == (np.float64 if dtype == "f64" else np.float32)
    close(got, ((x - y).astype(np.float64) ** 2).mean(), TOLERANCE[dtype])
    target = np.arange(6) % 10
    want = -np.log(softmax(x)[np.arange(6), target]).mean()
    close(everywhere(op.cross_entropy, x, target), want, max(TOLERANCE["f32"], 1e-13) if dtype != "f64" else 1e-12)


def test_embedding():
    table, index = drawn((7, 4), np.float32), np.array([[0, 6], [3, 2]])
    np.testing.assert_array_equal(everywhere(op.embedding, table, index), table[index])
    want = np.concatenate([table, np.zeros((1, 4), np.float32)])[index + 1]
    computed = everywhere(graph.module("next")(lambda table, index: op.embedding(table, index + 1)), table, index)
    np.testing.assert_array_equal(computed, want)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rotary(dtype: str):
    x = drawn((2, 3, 10, 8), FLOATS[dtype])
    wide = x.astype(np.float64)
    angle = (np.arange(10) + 2)[:, None] * 100.0 ** (-np.arange(4) / 4)
    left, right = wide[..., :4], wide[..., 4:]
    want = np.concatenate(
        [left * np.cos(angle) - right * np.sin(angle), right * np.cos(angle) + left * np.sin(angle)], -1
    )
    close(everywhere(lambda x: op.rotary(x, base=100.0, offset=2), x), want, max(TOLERANCE[dtype], 1e-12))


@pytest.mark.parametrize("dtype", FLOATS)
def test_sgd(dtype: str):
    p, g = drawn((9,), FLOATS[dtype], 1), drawn((9,), FLOATS[dtype], 2)
    wide, slope = p.astype(np.float64), g.astype(np.float64)
    close(everywhere(lambda p, g: op.sgd(p, g, lr=0.1), p, g), wide - 0.1 * slope, TOLERANCE[dtype])
    want = wide - 0.1 * (slope + 0.01 * wide)
    close(everywhere(lambda p, g: op.sgd(p, g, lr=0.1, weight_decay=0.01), p, g), want, TOLERANCE[dtype])


def test_adamw_decays_weights():
    p, g, moment, step = drawn((3,), np.float32), drawn((3,), np.float32, 1), np.zeros(3, np.float32), np.array(1)
    got, want = op.adamw(p, g, moment, moment, step), op.adam(p, g, moment, moment, step, weight_decay=0.01)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16"])
def test_three_steps_of_adam(dtype: str):
    p = drawn((9,), FLOATS[dtype], 1)
    kind = np.float64 if dtype == "f64" else np.float32
    m = v = np.zeros(9, kind)
    old, first, second = p.astype(np.float64), np.zeros(9), np.zeros(9)
    for step in range(1, 4):
        g = drawn((9,), FLOATS[dtype], 1 + step)
        slope = g.astype(np.float64)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        ratio = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        old = old * (1 - 0.1 * 0.01) - 0.1 * ratio
        with overridden(target="cpu"):
            p, m, v = op.adam(p, g, m, v, np.array(step), lr=0.1, weight_decay=0.01)
        assert p.dtype == FLOATS[dtype]
        close(m, first, 1e-5)
        close(v, second, 1e-5)
        close(p, old, {"bf16": 1.6e-2, "f32": 1e-4}.get(dtype, 1e-9))


@pytest.mark.parametrize("target", TARGETS)
def test_a_mistake_deep_in_a_module_shows_the_users_line(target: str):
    q = drawn((4, 9, 8), np.float32)

    @graph.module
    def inside(q: Array) -> Array:
        return op.flash_attention(q, q[:3], q[:3])

    with overridden(target=target), pytest.raises(OperandMismatch, match="cannot share 3 key heads") as raised:
        inside(q)
    assert "return op.flash_attention(q, q[:3], q[:3])" in str(raised.value)
    assert "^^^^^^^^^^^^^^^^" in str(raised.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.softmax(x, 2), "an array of 2 axes has no axis 2"),
        (lambda x: op.logsumexp(x, 2), "an array of 2 axes has no axis 2"),
        (lambda x: op.split_qkv(x, 3), "does not hold queries, keys and values of 3 heads"),
        (lambda x: op.split_qkv(x, 0), "does not hold queries, keys and values of 0 heads"),
        (op.join_heads, r"\(3, 4\) has no axes of heads"),
        (lambda x: op.flash_attention(x, x, x), "give all the same axes"),
        (lambda x: op.flash_attention(x[None], x[None], x[None, :2]), "do not fit"),
        (lambda x: op.mse(x, x[:2]), "do not broadcast together"),
        (lambda x: op.cross_entropy(x, x), r"need integers \(3,\), not f32 \(3, 4\)"),
        (lambda x: op.embedding(x, x), "indices are integers, not f32"),
        (lambda x: op.rotary(x[:, :3]), "pairs of 3 elements do not come out even"),
        (lambda x: op.rotary(x[0]), "needs an axis of positions"),
        (lambda x: op.sgd(x, x[:2], lr=0.1), r"a gradient of \(2, 4\) for a parameter of \(3, 4\)"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as raised:
        call(drawn((3, 4), np.float32))
    assert "test_functional.py, line" in str(raised.value)
    assert "^^^^" in str(raised.value)
