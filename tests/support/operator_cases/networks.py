"""Rows of random numbers, networks, loops and numerics."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

import math
from typing import Final

import numpy as np

from support.operator_cases.case import ELSE, Case, Numbers, f, i, rows_of
from support.operators import Array
from tessera import fp4, graph, op, scale
from tessera.core.base.philox import random_bits

KEY: Final = op.key(42)


def _softmax(x: Numbers, axis: int = -1) -> Numbers:
    weights = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return weights / weights.sum(axis, keepdims=True)


def _logsumexp(x: Numbers, axis: int = -1) -> Numbers:
    return np.log(np.exp(x).sum(axis))


def _normalized(x: Numbers, w: Numbers, c: Numbers) -> Numbers:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + c


def _rms(x: Numbers, w: Numbers) -> Numbers:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w


def _drawn(stream: int, *shape: int) -> Numbers:
    return random_bits(KEY, math.prod(shape), stream).reshape(shape)


NO_KEY: Final = ((lambda: op.uniform((3,), 42), "42 is no key"), (lambda: op.uniform(3, KEY), "3 is no shape"))
RANDOM: Final[dict[str, Case]] = {
    "random_bits": Case(
        lambda x: x + op.random_bits((5, 7), KEY) * 2.0**-32, lambda x: x + _drawn(0, 5, 7) * 2.0**-32, (f(5, 7),), NO_KEY, short=False,
    ),
    "uniform": Case(
        lambda x: x + op.uniform((5, 7), KEY), lambda x: x + (_drawn(0, 5, 7) >> 8) * 2.0**-24, (f(5, 7),), NO_KEY,
        short=False,
    ),
    "randn": Case(
        lambda x: x + op.randn((5, 7), KEY), lambda x: x + np.asarray(op.randn((5, 7), KEY)).astype(float), (f(5, 7),),
        ((lambda: op.randn((3,), KEY, "i32"), "are not drawn"),), short=False,
    ),
    "poisson": Case(
        lambda x: x + op.poisson(0.0, (5, 7), KEY), lambda x: x, (f(5, 7),),
        ((lambda: op.poisson(-1.0, (3,), KEY), "a rate of -1"), (lambda: op.poisson(1.0, (3,), KEY, "f32"), "counts")),
        short=False,
    ),
    "dropout": Case(
        lambda x: op.dropout(x, 0.25, KEY), lambda x: np.where(_drawn(0, 5, 7) >= 1 << 30, x / 0.75, 0), (f(5, 7),),
        ((lambda: op.dropout(ELSE, 1.0, KEY), "leaves nothing"),),
    ),
    "key": Case(
        lambda x: x + op.key(3), lambda x: x + np.array([3, 0]), (f(5, 2),), ((lambda: op.key(-1), "is no seed"),),
        short=False,
    ),
    "split_key": Case(
        lambda x: x + op.split_key(KEY, 5) * 2.0**-32, lambda x: x + _drawn(1, 5, 2) * 2.0**-32, (f(5, 2),),
        ((lambda: op.split_key(ELSE), "a key is"), (lambda: op.split_key(KEY, -1), "-1 keys")), short=False,
    ),
    "fold_in": Case(
        lambda x: x * 0 + op.fold_in(KEY, 7), lambda x: x * 0 + np.asarray(op.fold_in(KEY, np.array(7))), (f(2),),
        ((lambda: op.fold_in(ELSE, 1), "a key is"), (lambda: op.fold_in(KEY, np.arange(2)), "one integer")),
        short=False,
    ),
}  # fmt: skip


def _attention(q: Numbers, k: Numbers, v: Numbers) -> Numbers:
    k, v = (np.repeat(each, q.shape[-3] // each.shape[-3], -3) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    seen = np.tril(np.ones(scores.shape[-2:], bool), scores.shape[-1] - scores.shape[-2])
    return _softmax(np.where(seen, scores, -np.inf)) @ v


def _rotated(x: Numbers) -> Numbers:
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(half) / half)
    left, right = x[..., :half], x[..., half:]
    sine, cosine = np.sin(angle), np.cos(angle)
    return np.concatenate([left * cosine - right * sine, right * cosine + left * sine], -1)


def _parts(x: Numbers) -> tuple[Numbers, ...]:
    split = x.reshape(*x.shape[:-1], 3, 3, x.shape[-1] // 9)
    return tuple(np.moveaxis(split[..., n, :, :], -2, -3) for n in range(3))


def _stepped(p: Numbers, g: Numbers, m: Numbers, v: Numbers, decay: float) -> tuple[Numbers, ...]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    root = np.sqrt(v / (1 - 0.999**3)) + 1e-8
    return p * (1 - 1e-3 * decay) - 1e-3 * (m / (1 - 0.9**3)) / root, m, v


STEP: Final = np.array(3)
NO_ROWS: Final = ((lambda: op.softmax(np.ones((2, 2)), 2), "has no axis 2"),)
MOMENTS: Final = (f(5, 7), f(5, 7), f(5, 7), f(5, 7, low=0))
NETWORKS: Final[dict[str, Case]] = {
    "softmax": Case(op.softmax, _softmax, (f(5, 7),), NO_ROWS, (f(0, 7),), (f(2, 5, 7),), slack=2),
    "softmax_safe": Case(op.softmax_safe, _softmax, (f(5, 7),),
                         ((lambda: op.softmax_safe(ELSE, 1), "has no axis 1"),), (f(0, 7),), (f(2, 5, 7),), slack=2),
    "logsumexp": Case(op.logsumexp, _logsumexp, (f(5, 7),), ((lambda: op.logsumexp(ELSE, 1), "has no axis 1"),),
                      (f(0, 7),), (f(2, 5, 7),), slack=2),
    "log_softmax": Case(op.log_softmax, lambda x: x - _logsumexp(x)[..., None], (f(5, 7),),
                        ((lambda: op.log_softmax(ELSE, 1), "has no axis 1"),), (f(0, 7),), (f(2, 5, 7),), slack=2),
    "layernorm": Case(op.layernorm, _normalized, (f(5, 7), f(7), f(7)),
                      ((lambda: op.layernorm(ELSE, np.ones(4)), "do not broadcast"),
                       (lambda: op.layernorm(np.ones(())), "has no axis -1")), (f(0, 7), f(7), f(7)), slack=4),
    "layernorm_safe": Case(op.layernorm_safe, _normalized, (f(2, 5, 7), f(7), f(7)),
                           ((lambda: op.layernorm_safe(ELSE, np.ones(4)), "do not broadcast"),), slack=4),
    "rmsnorm": Case(op.rmsnorm, _rms, (f(5, 7), f(7)),
                    ((lambda: op.rmsnorm(ELSE, np.ones(4)), "do not broadcast"),
                     (lambda: op.rmsnorm(np.ones(())), "has no axis -1")), (f(0, 7), f(7)), slack=4),
    "rmsnorm_safe": Case(op.rmsnorm_safe, _rms, (f(2, 5, 7), f(7)),
                         ((lambda: op.rmsnorm_safe(ELSE, np.ones(4)), "do not broadcast"),), slack=4),
    "mse": Case(op.mse, lambda x, y: ((x - y) ** 2).mean(), (f(5, 7), f(5, 7)),
                ((lambda: op.mse(ELSE, np.ones(4)), "do not broadcast"),), slack=4),
    "cross_entropy": Case(
        op.cross_entropy, lambda x, t: (_logsumexp(x) - np.take_along_axis(x, t[..., None], -1)[..., 0]).mean(),
        (f(5, 7), i(5, high=7)),
        ((lambda: op.cross_entropy(np.ones((2, 3)), np.ones(2)), "need integers"),
         (lambda: op.cross_entropy(np.ones((2, 3)), np.arange(2, 4)), "index 3 is outside an axis of 3"),
         (lambda: op.cross_entropy(np.ones((2, 3)), np.arange(3)), "need integers")), slack=2),
    "embedding": Case(graph.module(lambda x, n: op.embedding(x, n + 0)), rows_of, (f(5, 7), i(2, 3, low=-1, high=6)),
                      ((lambda: op.embedding(ELSE, ELSE), "indices are integers"),
                       (lambda: op.embedding(np.ones((3, 2)), np.array([[0, -1]])), "index -1 is outside an axis of 3"),
                       (lambda: op.embedding(np.ones(()), np.arange(2)), "no rows to pick")), (f(5, 7), i(0, 3))),
    "split_qkv": Case(lambda x: op.split_qkv(x, 3), _parts, (f(5, 18),),
                      ((lambda: op.split_qkv(np.ones((2, 7)), 3), "does not hold queries"),), (f(0, 18),),
                      (f(2, 5, 18),)),
    "join_heads": Case(op.join_heads, lambda x: np.moveaxis(x, -3, -2).reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1]),
                       (f(3, 5, 2),), ((lambda: op.join_heads(ELSE), "no axes of heads"),), (f(3, 0, 2),),
                       (f(2, 3, 5, 2),)),
    "flash_attention": Case(
        lambda q, k, v: op.flash_attention(q, k, v, causal=True), _attention, (f(4, 5, 8), f(2, 7, 8), f(2, 7, 6)),
        ((lambda: op.flash_attention(ELSE, ELSE, ELSE), "all the same axes"),
         (lambda: op.flash_attention(*(np.ones((n, 2, 2)) for n in (3, 2, 2))), "evenly")),
        (f(4, 0, 8), f(2, 7, 8), f(2, 7, 6)), (f(2, 4, 5, 8), f(2, 2, 7, 8), f(2, 2, 7, 6)), slack=4),
    "rotary": Case(op.rotary, _rotated, (f(5, 6),), ((lambda: op.rotary(np.ones((2, 3))), "do not come out even"),
                                                     (lambda: op.rotary(ELSE), "axis of positions")), (f(0, 6),),
                   (f(2, 5, 6),), slack=2),
    "sgd": Case(lambda p, g: op.sgd(p, g, lr=0.1, weight_decay=0.5), lambda p, g: p - 0.1 * (g + 0.5 * p),
                (f(5, 7), f(5, 7)), ((lambda: op.sgd(ELSE, np.ones(4), lr=0.1), "a gradient of"),), (f(0, 7), f(0, 7))),
    "adam": Case(lambda *x: op.adam(*x, STEP), lambda *x: _stepped(*x, 0.0), MOMENTS,
                 ((lambda: op.adam(ELSE, np.ones(4), ELSE, ELSE, STEP), "a gradient of"),
                  (lambda: op.adam(ELSE, ELSE, ELSE, ELSE, ELSE), "one number")), slack=4, short=False),
    "adamw": Case(lambda *x: op.adamw(*x, STEP), lambda *x: _stepped(*x, 0.01), MOMENTS,
                  ((lambda: op.adamw(ELSE, ELSE, np.ones(4), ELSE, STEP), "a first moment of"),), slack=4, short=False),
}  # fmt: skip


def _scanned(c: Numbers, xs: Numbers) -> tuple[Numbers, Numbers]:
    made = []
    for x in xs:
        made.append(c)
        c = c * 0.5 + x
    return c, np.array(made).reshape(xs.shape)


SINE: Final = op.custom(np.sin, adjoint=lambda i, o, c: c[0] * op.cos(i[0]), shape=lambda x: x.shape, name="sine")
GRID: Final = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _codes(x: Numbers) -> Numbers:
    """Round to fp4's numbers, ties to even codes."""
    distance = np.abs(np.abs(x)[..., None] - GRID)
    least = distance.min(-1, keepdims=True)
    near = np.isclose(distance, least, rtol=0, atol=1e-12)
    even = np.where(near & (np.arange(8) % 2 == 0), 1, 0)
    place = np.where(even.any(-1), even.argmax(-1), near.argmax(-1))
    return np.sign(x) * GRID[place]


def _fp4(x: Numbers) -> Numbers:
    blocks = x.reshape(5, 2, 4)
    each = (np.abs(blocks).max(-1, keepdims=True) / 6).astype(np.float32).astype(float)
    return (_codes(blocks / each) * each).reshape(x.shape)


def _counted(x: Array) -> Array:
    return op.while_(lambda c: op.max(c) < 9.0, lambda c: c + 1.5, x)


CONTROL: Final[dict[str, Case]] = {
    "scan": Case(
        lambda c, xs: op.scan(lambda c, x: (c * 0.5 + x, c), c, xs),
        _scanned, (f(3), f(5, 3)),
        ((lambda: op.scan(lambda c, x: (c, x), 1.0, np.ones(3), 4), "first extents are 3, 4"),), (f(3), f(0, 3)),
        slack=4, short=False,
    ),
    "while_": Case(
        _counted, lambda x: x + 1.5 * np.ceil((9.0 - x.max()) / 1.5), (f(5),),
        ((lambda: op.while_(lambda c: c, lambda c: c, ELSE), "a condition is one bool"),), smooth=False, short=False,
    ),
    "cond": Case(
        lambda x, y: op.cond(op.sum(x) > 0, lambda a: a * 2, lambda a: a * 3, y),
        lambda x, y: y * (2 if x.sum() > 0 else 3), (f(5), f(3)),
        ((lambda: op.cond(ELSE, lambda: 1, lambda: 2), "a condition is one bool"),), (f(0), f(3)), short=False,
    ),
    "custom": Case(
        SINE, np.sin, (f(5, 7),),
        ((lambda: op.custom(np.sin, shape=lambda x: (-1,))(ELSE), "shape= of sin"),), short=False,
    ),
    "quantize": Case(
        lambda x: op.dequantize(op.quantize(x, fp4 @ scale(block=(1, 4)))), _fp4, (f(5, 8),),
        ((lambda: op.quantize(ELSE, "fp7"), "no array is stored"),), smooth=False, short=False, slack=1e7,
    ),
    "dequantize": Case(
        lambda x: op.dequantize(op.quantize(x, fp4)), _codes, (f(5, 8),),
        ((lambda: op.dequantize(ELSE), "has no codes"),), smooth=False, short=False, slack=1e7,
    ),
}  # fmt: skip
