"""Attention and other cascades as one kernel each, against f64, on the interpreter and on the CPU."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownParameterType=false, reportMissingParameterType=false

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tessera import graph, op
from tessera.core.schedule.plan import CASCADE
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.lowering.autodiff.in_f64 import in_f64
from tessera.runtime.interpret.graph import evaluate

RNG = np.random.default_rng(7)
B, H, I, J, D = 2, 2, 70, 90, 32
Q, K, V = (RNG.standard_normal((B, H, n, D)).astype(np.float32) for n in (I, J, J))
BIAS = RNG.standard_normal((H, I, J)).astype(np.float32)
SEEN = RNG.random((B, 1, I, J)) < 0.7
SEEN[0, 0, 3] = False
ROW, COLUMN = np.indices((I, J))
LAST = ROW + J - I
SCALE = 1 / math.sqrt(D)
TARGETS = pytest.mark.parametrize("target", ["interpret", "cpu"])


def exact(change: Callable[[Any], Any] = lambda s: s, seen: np.ndarray | bool = True) -> np.ndarray:
    """Attention in f64; change: of the scores; rows that see nothing give 0."""
    scores = change(Q.astype(np.float64) @ np.swapaxes(K.astype(np.float64), -1, -2) * SCALE)
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weight = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weight.sum(-1, keepdims=True)
    return weight / np.where(total == 0, 1, total) @ V.astype(np.float64)


def scores(q: Any, k: Any) -> Any:  # noqa: ANN401 - as operators take and return
    return op.matmul(q, k.T) * SCALE


VARIANTS: dict[str, tuple[Callable[..., Any], Callable[[], np.ndarray]]] = {
    "full": (op.flash_attention, exact),
    "three lines": (lambda q, k, v: op.matmul(op.softmax(scores(q, k)), v), exact),
    "causal": (lambda q, k, v: op.flash_attention(q, k, v, causal=True), lambda: exact(seen=COLUMN <= LAST)),
    "window": (
        lambda q, k, v: op.flash_attention(q, k, v, causal=True, window=20),
        lambda: exact(seen=(COLUMN <= LAST) & (COLUMN > LAST - 20)),
    ),
    "both sides": (
        lambda q, k, v: op.flash_attention(q, k, v, window=9),
        lambda: exact(seen=(COLUMN < LAST + 9) & (COLUMN > LAST - 9)),
    ),
    "softcap": (
        lambda q, k, v: op.flash_attention(q, k, v, softcap=5.0), lambda: exact(lambda s: 5 * np.tanh(s / 5)),
    ),
    "softcap causal": (
        lambda q, k, v: op.flash_attention(q, k, v, causal=True, softcap=5.0),
        lambda: exact(lambda s: 5 * np.tanh(s / 5), COLUMN <= LAST),
    ),
    "bias": (lambda q, k, v: op.flash_attention(q, k, v, bias=BIAS), lambda: exact(lambda s: s + BIAS)),
    "mask": (lambda q, k, v: op.flash_attention(q, k, v, mask=SEEN), lambda: exact(seen=SEEN)),
    "mask and bias": (
        lambda q, k, v: op.flash_attention(q, k, v, mask=SEEN, bias=BIAS), lambda: exact(lambda s: s + BIAS, SEEN),
    ),
    "without a maximum": (
        lambda q, k, v: op.matmul(op.exp(scores(q, k)) / op.sum(op.exp(scores(q, k)), -1, keepdims=True), v), exact,
    ),
    "times 30": (
        lambda q, k, v: op.matmul(op.softmax(scores(q, k) * 30.0), v), lambda: exact(lambda s: s * 30),
    ),
}  # fmt: skip


@TARGETS
@pytest.mark.parametrize("name", VARIANTS)
def test_attention_is_one_loop(name: str, target: str):
    make, reference = VARIANTS[name]
    module = graph.module("attention")(make)
    with overridden(target=target):
        got = module(Q, K, V)
    assert [group.kind for group in module.executable.plan.groups] == [CASCADE]
    np.testing.assert_allclose(got, reference(), atol=3e-5 if name == "times 30" else 4e-6)


def test_rows_that_see_nothing_give_zero():
    got = op.flash_attention(Q, K, V, mask=SEEN)
    assert np.all(got[0, :, 3] == 0)


@TARGETS
def test_blocks_that_come_out_even_are_summed_in_columns(target: str):
    k, v = (RNG.standard_normal((B, H, 256, D)).astype(np.float32) for _ in range(2))
    module = graph.module("even")(op.flash_attention)
    with overridden(target=target):
        got = module(Q, k, v)
    weights = Q.astype(np.float64) @ np.swapaxes(k.astype(np.float64), -1, -2) * SCALE
    weights = np.exp(weights - weights.max(-1, keepdims=True))
    np.testing.assert_allclose(got, weights / weights.sum(-1, keepdims=True) @ v, atol=4e-6)


def test_the_algebra_is_shown():
    module = graph.module("attention")(op.flash_attention)
    module(Q, K, V)
    loop = module.executable.plan.groups[0].loop
    assert loop is not None
    assert loop.cascade.describe(["s", "v"]).splitlines()[-1] == "r2 = (M1 / select((M0 == 0.0), 1.0, M0))"


def small(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(np.float32)


def distance(rows: int, columns: int) -> Any:  # noqa: ANN401
    return op.arange(rows)[:, None] - op.arange(columns)[None, :]


def near(rows: int, columns: int) -> Any:  # noqa: ANN401
    return op.arange(columns)[None, :] <= op.arange(rows)[:, None]


ODD: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "numbers behind the end": (
        lambda q, k, v: op.softmax(op.where(near(20, 5), q @ k.T, -1e4) - 0.125 * distance(20, 5)) @ v,
        (small(20, 3), small(5, 3), small(5, 2)),
    ),
    "infinities behind the end": (
        lambda q, k, v: op.rmsnorm(op.where(near(20, 5), q @ k.T, -math.inf)) @ v,
        (small(20, 3), small(5, 3), small(5, 2)),
    ),
    "a maximum of numbers behind the end": (
        lambda q, k, v: (op.max(op.where(near(20, 5), q @ k.T, 99.0), 1), (q @ k.T) @ v),
        (small(20, 3), small(5, 3), small(5, 2)),
    ),
    "a mean far from 0": (lambda x, v: op.layernorm(x + 1000.0) @ v, (small(20, 48), small(48, 8))),
    "batches of one row": (
        lambda q, k, v: op.flash_attention(q, k, v, softcap=2.0), (small(2, 1, 4), small(2, 5, 4), small(2, 5, 3)),
    ),
    "a batch and a vector": (lambda a, b: op.max(a @ b, 1), (small(4), small(3, 4, 5))),
    "a loop over a batch": (lambda x: op.sum(x @ x.transpose(0, 2, 1), (2, 0)), (small(3, 1, 4),)),
    "products of results": (
        lambda x, y: op.einsum("ab,ai->", x @ op.softmax(y, -1), x), (small(4, 4), small(4, 4)),
    ),
}  # fmt: skip


@TARGETS
@pytest.mark.parametrize("name", ODD)
def test_odd_cascades(name: str, target: str):
    make, arrays = ODD[name]
    module = graph.module("odd")(make)
    with overridden(target=target):
        found = module(*arrays)
    wanted = evaluate(in_f64(module.executable.traced), [array.astype(np.float64) for array in arrays])
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        scale = np.max(np.abs(other), initial=1.0, where=np.isfinite(other))
        np.testing.assert_allclose(
            one, other, rtol=1e-5, atol=1e-4 * scale if name == "a mean far from 0" else 1e-5 * scale
        )


@TARGETS
def test_numbers_beside_short_floats(target: str):
    q, k, v = (small(n, 4).astype(ml_dtypes.bfloat16) for n in (6, 9, 9))
    module = graph.module("short")(lambda q, k, v: op.softmax(op.where(near(6, 9), q @ k.T, -1e4)) @ v)
    with overridden(target=target):
        found = module(q, k, v)
    (wanted,) = evaluate(module.executable.traced, (q, k, v))
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), rtol=2e-2, atol=2e-2)


def test_blocks_of_rows_that_read_the_same_follow_each_other():
    """The output has positions before heads; the grid has heads before positions, as keys and values do."""

    def attend(x):
        q, k, v = op.split_qkv(x, heads=4)
        return op.join_heads(op.flash_attention(q, k, v, causal=True))

    joined = graph.module("joined")(attend)
    x = np.zeros((3, 300, 3 * 128), np.float32)
    with overridden(target="interpret"):
        joined(x)
    (kernel,) = [each for each in joined.executable.kernels(Target("interpret", "")) if each.group.kind == "cascade"]
    made = {value: each for each in kernel.lowered.program.body.walk() for value in each.results}
    ends = [made[each.operands[1]].attributes.get("value") for each in kernel.lowered.program.body.walk()
            if each.opcode == "for"][:3]  # fmt: skip
    assert ends == [3, 4, 300]
