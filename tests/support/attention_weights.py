"""Variants of attention whose weights are no plain softmax, or that return more: entered beside the others."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from support.attention_variants import (
    CROSS,
    HEADED,
    HEADS,
    KEYS,
    LENGTH,
    QUERIES,
    SELF,
    WIDTH,
    attend,
    columns,
    hidden,
    positions,
    rows,
    softmax,
    t,
    variant,
)
from tessera import op

Array = Any  # of NumPy, or a value of the graph that is being captured
DECAY: Final = math.log(0.9)


# Weights that are no softmax, or one of a changed sum


def _with_sink(q: Array, k: Array, v: Array, z: Array) -> Array:
    weights = np.exp(q @ t(k))
    return weights / (weights.sum(-1, keepdims=True) + np.exp(z)[:, None, None]) @ v


@variant(_with_sink, *HEADED, (HEADS,))
def sink(q: Array, k: Array, v: Array, z: Array) -> Array:
    s, z = q @ k.T, z[:, None, None]
    m = op.maximum(s.max(-1, keepdims=True), z)
    p = op.exp(s - m)
    return p / (p.sum(-1, keepdims=True) + op.exp(z - m)) @ v


@variant(
    _with_sink, *HEADED, (HEADS,), kernels=("product", "elements", "rows", "product"),
    refusals=frozenset({"elements", "factors"}), quadratic=True,
)  # fmt: skip
def sink_as_a_column(q: Array, k: Array, v: Array, z: Array) -> Array:
    """A column beside the scores is no element of their loop: as a term of the sum, above, it is."""
    column = op.broadcast_to(z[:, None, None], (2, HEADS, LENGTH, 1))
    return op.softmax(op.concat([q @ k.T, column], axis=-1))[..., :-1] @ v


def _off_by_one(q: Array, k: Array, v: Array) -> Array:
    weights = np.exp(q @ k.T)
    return weights / (1 + weights.sum(-1, keepdims=True)) @ v


@variant(_off_by_one, *SELF)
def softmax_one(q: Array, k: Array, v: Array) -> Array:
    s = q @ k.T
    m = op.maximum(s.max(-1, keepdims=True), 0.0)
    p = op.exp(s - m)
    return (p / (op.exp(-m) + p.sum(-1, keepdims=True))) @ v


@variant(_off_by_one, *SELF)
def softmax_one_without_the_maximum(q: Array, k: Array, v: Array) -> Array:
    p = op.exp(q @ k.T)
    return (p / (1 + p.sum(-1, keepdims=True))) @ v


@variant(lambda q, k, v: 1 / (1 + np.exp(math.log(LENGTH) - q @ k.T)) @ v, *SELF)
def sigmoid(q: Array, k: Array, v: Array) -> Array:
    return op.sigmoid(q @ k.T - math.log(LENGTH)) @ v


@variant(lambda q, k, v: np.maximum(q @ k.T, 0) ** 2 @ v / LENGTH, *SELF)
def squared_relu(q: Array, k: Array, v: Array) -> Array:
    return op.square(op.relu(q @ k.T)) @ v / LENGTH


def _power(q: Array, k: Array, v: Array) -> Array:
    weights = (q @ k.T) ** 4
    return weights @ v / (weights.sum(-1, keepdims=True) + 1)


@variant(_power, *SELF)
def fourth_power(q: Array, k: Array, v: Array) -> Array:
    p = (q @ k.T) ** 4
    return (p @ v) / (p.sum(-1, keepdims=True) + 1)


def _features(x: Array) -> Array:
    return np.where(x > 0, x + 1, np.exp(x))


def _linear(q: Array, k: Array, v: Array) -> Array:
    weights = _features(q) @ _features(k).T
    return weights @ v / weights.sum(-1, keepdims=True)


@variant(
    _linear,
    *SELF,
    kernels=("maps", "rows", "product", "cascade"),
    refusals=frozenset({"factors", "other-loop", "cycle"}),
)
def linear(q: Array, k: Array, v: Array) -> Array:
    """The sums over keys are as large as one head's weights: width by width."""

    def phi(x: Array) -> Array:
        return op.where(x > 0, x + 1, op.exp(x))

    a, b = phi(q), phi(k)
    return (a @ (b.T @ v)) / (a @ b.sum(0)[:, None])


def _linear_causal(q: Array, k: Array, v: Array) -> Array:
    weights = np.where(rows >= columns, _features(q) @ _features(k).T, 0)
    return weights @ v / weights.sum(-1, keepdims=True)


@variant(_linear_causal, *SELF)
def linear_causal(q: Array, k: Array, v: Array) -> Array:
    def phi(x: Array) -> Array:
        return op.where(x > 0, x + 1, op.exp(x))

    i, j = positions()
    weights = op.where(i >= j, phi(q) @ phi(k).T, 0.0)
    return (weights @ v) / weights.sum(-1, keepdims=True)


def _retained(q: Array, k: Array) -> Array:
    return q @ k.T * np.where(rows >= columns, np.exp((rows - columns) * DECAY), 0)


@variant(lambda q, k, v: _retained(q, k) @ v, *SELF)
def retention(q: Array, k: Array, v: Array) -> Array:
    i, j = positions()
    decay = op.where(i >= j, op.exp((i - j).astype("f32") * DECAY), 0.0)
    return (q @ k.T * decay) @ v


@variant(lambda q, k, v: _retained(q, k) @ v / np.maximum(abs(_retained(q, k).sum(-1, keepdims=True)), 1), *SELF)
def retention_normalized(q: Array, k: Array, v: Array) -> Array:
    i, j = positions()
    s = q @ k.T * op.where(i >= j, op.exp((i - j).astype("f32") * DECAY), 0.0)
    return (s @ v) / op.maximum(op.abs(s.sum(-1, keepdims=True)), 1.0)


# Several softmaxes


def _differential(q: Array, k: Array, v: Array) -> Array:
    h = WIDTH // 2
    return (softmax(q[..., :h] @ t(k[..., :h])) - 0.3 * softmax(q[..., h:] @ t(k[..., h:]))) @ v


@variant(_differential, *HEADED)
def differential(q: Array, k: Array, v: Array) -> Array:
    h = WIDTH // 2
    first, second = q[..., :h] @ k[..., :h].T, q[..., h:] @ k[..., h:].T
    return (op.softmax(first) - 0.3 * op.softmax(second)) @ v


def _normalized(x: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


@variant(
    lambda q, k, v: _normalized(_differential(q, k, v)), *HEADED, kernels=("cascade", "rows"),
    refusals=frozenset({"other-loop"}),
)  # fmt: skip
def differential_normalized(q: Array, k: Array, v: Array) -> Array:
    h = WIDTH // 2
    first, second = q[..., :h] @ k[..., :h].T, q[..., h:] @ k[..., h:].T
    return op.rmsnorm((op.softmax(first) - 0.3 * op.softmax(second)) @ v)


@variant(lambda q, k, v: (attend(hidden(abs(rows - columns) <= 3, q @ k.T), v) + attend(q @ k.T, v)) / 2, *SELF)
def local_and_whole(q: Array, k: Array, v: Array) -> Array:
    i, j = positions()
    s = q @ k.T
    local = op.softmax(op.where(op.abs(i - j) <= 3, s, -math.inf)) @ v
    return 0.5 * local + 0.5 * (op.softmax(s) @ v)


def _talking(q: Array, k: Array, v: Array, a: Array, b: Array) -> Array:
    weights = softmax(np.einsum("bhij,hg->bgij", q @ t(k), a))
    return np.einsum("bhij,hg->bgij", weights, b) @ v


@variant(
    _talking, *HEADED, (HEADS, HEADS), (HEADS, HEADS), kernels=("product", "cascade", "cascade", "product"),
    refusals=frozenset({"blocks", "loop-output", "other-loop", "cycle"}), quadratic=True,
)  # fmt: skip
def talking_heads(q: Array, k: Array, v: Array, a: Array, b: Array) -> Array:
    """Each head's weights need the scores of all: that is another loop, outside of the one over keys."""
    s = op.einsum("bhij,hg->bgij", q @ k.T, a)
    return op.einsum("bhij,hg->bgij", op.softmax(s), b) @ v


@variant(
    lambda q, k, v: softmax(softmax(q @ k.T)) @ v, *SELF, kernels=("product", "rows", "product"),
    refusals=frozenset({"separable"}), quadratic=True,
)  # fmt: skip
def softmax_twice(q: Array, k: Array, v: Array) -> Array:
    """The exponents of the second softmax are results of the first: no one loop has them."""
    return op.softmax(op.softmax(q @ k.T)) @ v


# More outputs


def _entropy(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    weights = softmax(q @ t(k))
    return weights @ v, -(weights * np.log(weights)).sum(-1)


@variant(_entropy, *HEADED)
def entropy(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    s = q @ k.T
    m = s.max(-1, keepdims=True)
    p = op.exp(s - m)
    total = p.sum(-1, keepdims=True)
    p = p / total
    return p @ v, (m + op.log(total))[..., 0] - (p * s).sum(-1)


@variant(_entropy, *HEADED, kernels=("product", "rows", "product"), refusals=frozenset({"means"}), quadratic=True)
def entropy_of_log_softmax(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    logs = op.log_softmax(q @ k.T)
    p = op.exp(logs)
    return p @ v, -(p * logs).sum(-1)


def _with_logsumexp(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    s = q @ t(k)
    return attend(s, v), np.log(np.exp(s).sum(-1))


@variant(_with_logsumexp, *CROSS)
def with_logsumexp(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    s = q @ k.T
    return op.softmax(s) @ v, op.logsumexp(s)


@variant(
    lambda q, k, v: (attend(q @ t(k), v), softmax(q @ t(k)).max(-1)), *CROSS, kernels=("product", "rows", "product"),
    refusals=frozenset({"separable"}), quadratic=True,
)  # fmt: skip
def greatest_weight(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """A maximum of weights waits for their sum."""
    p = op.softmax(q @ k.T)
    return p @ v, p.max(-1)


# Randomness, and keys from elsewhere


def kept(shape: tuple[int, ...]) -> np.ndarray:
    """Return which elements a dropout of one quarter with key 5 keeps."""
    return np.asarray(op.dropout(np.ones(shape, np.float32), 0.25, op.key(5))) != 0


@variant(lambda q, k, v: (softmax(q @ t(k)) * kept((2, HEADS, QUERIES, KEYS)) / 0.75) @ v, *CROSS)
def dropped_out(q: Array, k: Array, v: Array) -> Array:
    return op.dropout(op.softmax(q @ k.T), 0.25, op.key(5)) @ v


TABLE: Final = np.random.default_rng(4).integers(0, 40, (2, KEYS))


def _paged(q: Array, k: Array, v: Array, table: Array) -> Array:
    keys, values = (np.moveaxis(each[table], 1, 2) for each in (k, v))
    return attend(q @ t(keys), values)


@variant(
    _paged, (2, HEADS, 1, WIDTH), (40, HEADS, WIDTH), (40, HEADS, WIDTH), TABLE,
    kernels=("maps", "elements", "elements", "cascade"), refusals=frozenset({"elements", "shapes"}),
)  # fmt: skip
def paged(q: Array, k: Array, v: Array, table: Array) -> Array:
    """One query, keys and values from a cache of pages, whose numbers may count from its end."""
    keys, values = (op.gather(each, table).transpose(0, 2, 1, 3) for each in (k, v))
    return op.softmax(q @ keys.T) @ values


def _layer(x: Array, w: Array, o: Array) -> Array:
    heads = (np.moveaxis(each.reshape(2, LENGTH, HEADS, 4), 2, 1) for each in np.split(x @ w, 3, -1))
    q, k, v = heads
    made = attend(hidden(rows >= columns, q @ t(k) / 2), v)
    return np.moveaxis(made, 1, 2).reshape(2, LENGTH, 12) @ o


@variant(
    _layer, (2, LENGTH, 12), (12, 36), (12, 12), kernels=("product", "cascade", "product"),
    refusals=frozenset({"view-inside", "other-loop"}),
)  # fmt: skip
def layer(x: Array, w: Array, o: Array) -> Array:
    q, k, v = op.split_qkv(x @ w, heads=HEADS)
    return op.join_heads(op.flash_attention(q, k, v, causal=True)) @ o
