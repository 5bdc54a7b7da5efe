"""Functions of operators that views show: attention in one kernel, a classifier in several, a gradient."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownArgumentType=false

import inspect
from typing import Any

import numpy as np

import tessera
from tessera import graph, op

Array = np.ndarray[Any, np.dtype[np.float32]]


@graph.module("attention")
def attention(Q, K, V):
    S = op.matmul(Q, K.T)
    A = op.softmax(S)
    return op.matmul(A, V)


@graph.module("classify")
def classify(x, g, w):
    h, scale = op.rmsnorm(x, g), 0.5
    logits = (h @ w) * scale
    p = op.softmax(logits)
    return p, op.sum(p, 0)


def loss(w1, w2, x, y):
    h = op.gelu(x @ w1)
    return op.mse(h @ w2, y)


gradient = tessera.grad(loss, argnums=(0, 1))


def normal(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


QKV = tuple(normal(64, 32) for _ in range(3))
ROWS = (normal(64, 32), normal(32), normal(32, 48))
LOSS = (normal(16, 32), normal(32, 8), normal(64, 16), normal(64, 8))
CASES = {"attention": (attention, QKV), "classify": (classify, ROWS), "gradient": (gradient, LOSS)}


def line_of(text: str) -> int:
    """Return the number of the first line of this file that holds a text."""
    lines = inspect.getsource(inspect.getmodule(line_of) or inspect).split("\n")
    return next(number for number, line in enumerate(lines, start=1) if text in line)
