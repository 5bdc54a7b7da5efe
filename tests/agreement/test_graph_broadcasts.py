"""Sums along axes that what is summed does not have: each element counts once, and nothing behind the end does."""

# Lambdas take arrays of any library.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tessera import graph, op

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
    "weights": (lambda q, k: op.matmul(op.softmax(op.matmul(q, k.T)), op.ones((50, 16))), (Q, K), np.ones((50, 16))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_counts_once(name: str):
    function, arguments, wanted = CASES[name]
    made = graph.module(name)(function)(*arguments)
    np.testing.assert_allclose(made, wanted, rtol=2e-5, atol=2e-5)
