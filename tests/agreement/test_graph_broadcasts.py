"""Sums along axes that what is summed does not have: each element counts once, and nothing behind the end does."""

# Lambdas take arrays of any library.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera import graph, op
from tessera.core.settings import overridden

Anything: TypeAlias = Any
"""NumPy or `op`, and their arrays."""
RANDOM = np.random.default_rng(7)
COLUMN = RANDOM.standard_normal((100, 1)).astype(np.float32)
ROW = RANDOM.standard_normal(100).astype(np.float32)
MATRIX = RANDOM.standard_normal((70, 100)).astype(np.float32)
Q, K, V = (RANDOM.standard_normal((50, 16)).astype(np.float32) for _ in range(3))


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def repeated(x: np.ndarray, *shape: int) -> np.ndarray:
    return np.broadcast_to(x, shape)


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], np.ndarray]] = {
    "outer": (op.matmul, (COLUMN, ROW[None, :33]), COLUMN @ ROW[None, :33]),
    "outer_then": (lambda x, w: op.tanh(op.matmul(x, w)), (COLUMN, ROW[None, :33]), np.tanh(COLUMN @ ROW[None, :33])),
    "sum": (lambda x: op.sum(op.broadcast_to(x, (100, 77)), axis=1), (COLUMN,), COLUMN[:, 0] * 77),
    "ones": (lambda w: op.matmul(op.ones((30, 70)), w), (MATRIX,), repeated(MATRIX.sum(0), 30, 100)),
    "left": (lambda x, w: op.matmul(op.broadcast_to(x, (100, 70)), w), (COLUMN, MATRIX),
             repeated(COLUMN, 100, 70) @ MATRIX),
    "both": (lambda x, y: op.matmul(op.broadcast_to(x, (100, 70)), op.broadcast_to(y, (70, 100))), (COLUMN, ROW),
             70 * COLUMN * ROW),
    "values": (lambda q, k, x: op.matmul(op.softmax(op.matmul(q, k.T)), op.broadcast_to(x, (50, 16))),
               (Q, K, COLUMN[:1]), repeated(COLUMN[:1], 50, 16)),
    "keys": (lambda q, k, v: op.matmul(op.softmax(op.matmul(q, op.broadcast_to(k, (50, 16)).T)), v), (Q, K[:1], V),
             softmax(Q @ repeated(K[:1], 50, 16).T) @ V),
    "one key a row": (lambda q, k, v: op.matmul(op.softmax(op.matmul(q, op.broadcast_to(k, (50, 16)).T)), v),
                      (Q, K[:, :1], V), softmax(Q @ repeated(K[:, :1], 50, 16).T) @ V),
    "one query a row": (lambda q, k, v: op.matmul(op.softmax(op.matmul(op.broadcast_to(q, (50, 16)), k.T)), v),
                        (Q[:, :1], K, V), softmax(repeated(Q[:, :1], 50, 16) @ K.T) @ V),
    "one number": (lambda q, k, v: op.matmul(op.softmax(op.matmul(op.broadcast_to(q, (50, 16)),
                                                                op.broadcast_to(k, (50, 16)).T)), v),
                   (Q[:, :1], K[:1, :1], V), softmax(repeated(Q[:, :1] * K[:1, :1] * 16, 50, 50)) @ V),
    "weights": (lambda q, k: op.matmul(op.softmax(op.matmul(q, k.T)), op.ones((50, 16))), (Q, K), np.ones((50, 16))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_counts_once(name: str):
    function, arguments, wanted = CASES[name]
    made = graph.module(name)(function)(*arguments)
    np.testing.assert_allclose(made, wanted, rtol=2e-5, atol=2e-5)


@st.composite
def attentions(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]], int]:
    """A batch, shapes whose axes may be 1 where they are broadcast, and which function of them."""
    rows, keys, width, columns = (draw(st.sampled_from((1, 5, 16, 33, 70))) for _ in range(4))
    batch = draw(st.sampled_from(((), (2,))))
    whole = {
        "q": (rows, width),
        "k": (keys, width),
        "v": (keys, columns),
        "bias": (rows, keys),
        "gain": (rows, columns),
    }
    shapes = {
        name: tuple(draw(st.sampled_from((size, size, 1))) for size in (*batch, *shape))
        for name, shape in whole.items()
    }
    return (*batch, rows, keys, width, columns), shapes, draw(st.integers(0, 5))


@settings(max_examples=40, deadline=None)
@given(attentions())
def test_attention_of_broadcast_operands(case: tuple[tuple[int, ...], dict[str, tuple[int, ...]], int]):
    (*batch, m, n, d, c), shapes, kind = case
    arrays = [RANDOM.standard_normal(shape).astype(np.float32) / 2 for shape in shapes.values()]

    def function(lib: Anything, weigh: Callable[..., Any], *operands: Anything) -> Anything:
        q, k, v, bias, gain = operands
        q, k, v = (lib.broadcast_to(x, (*batch, *s)) for x, s in zip((q, k, v), ((m, d), (n, d), (n, c)), strict=True))
        scores = lib.matmul(q, lib.transpose(k, (*range(len(batch)), len(batch) + 1, len(batch))))
        cases: list[Callable[[], Any]] = [
            lambda: lib.matmul(weigh(scores), v),
            lambda: lib.matmul(weigh(scores + bias), v) * gain,
            lambda: lib.matmul(weigh(scores) * bias, v),
            lambda: lib.matmul(weigh(lib.broadcast_to(bias, (*batch, m, n))), v),
            lambda: lib.matmul(lib.exp(scores * 0.1) * bias, v * v),
            lambda: lib.matmul(weigh(scores), lib.broadcast_to(gain[..., :1, :], (*batch, n, c))),
        ]
        return cases[kind]()

    with overridden(target="interpret"):
        made = graph.module("attention")(lambda *a: function(op, op.softmax, *a))(*arrays)
    wanted = function(np, softmax, *(each.astype(np.float64) for each in arrays))
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-4)
