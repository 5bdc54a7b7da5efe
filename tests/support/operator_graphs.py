"""Functions of operators that views show: attention in one kernel, a classifier in several, a gradient."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tessera
from tessera import op
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer

Array = np.ndarray[Any, np.dtype[np.float32]]


def module(name: str) -> Callable[[Callable[..., Any]], GraphFunction[..., Any]]:
    """Capture a function, as `graph.module` does."""
    return lambda function: GraphFunction(function, name)


@module("attention")
def attention(Q: Tracer, K: Tracer, V: Tracer) -> object:
    S = op.matmul(Q, K.T)
    A = op.softmax(S)
    return op.matmul(A, V)


@module("classify")
def classify(x: Tracer, g: Tracer, w: Tracer) -> object:
    h, scale = op.rmsnorm(x, g), 0.5
    logits = (h @ w) * scale
    p = op.softmax(logits)
    return p, op.sum(p, 0)


def loss(w1: Tracer, w2: Tracer, x: Tracer, y: Tracer) -> object:
    h = op.gelu(x @ w1)
    return op.mse(h @ w2, y)


gradient: GraphFunction[..., Any] = tessera.grad(loss, argnums=(0, 1))


def normal(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


QKV = tuple(normal(64, 32) for _ in range(3))
ROWS = (normal(64, 32), normal(32), normal(32, 48))
LOSS = (normal(16, 32), normal(32, 8), normal(64, 16), normal(64, 8))
CASES: Final[dict[str, tuple[GraphFunction[..., Any], tuple[Array, ...]]]] = {
    "attention": (attention, QKV),
    "classify": (classify, ROWS),
    "gradient": (gradient, LOSS),
}


def line_of(text: str) -> int:
    """Return the number of the first line of this file that holds a text."""
    here = inspect.getmodule(line_of)
    assert here is not None
    lines = inspect.getsource(here).split("\n")
    return next(number for number, line in enumerate(lines, start=1) if text in line)
