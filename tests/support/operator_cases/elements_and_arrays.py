"""Rows of operators on elements and arrays."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from support.operator_cases.case import ELSE, Case, Numbers, b, f, i, taken
from tessera import graph, op


def _erf(x: Numbers) -> Numbers:
    return np.vectorize(math.erf, otypes=[float])(x)


def _gelu(x: Numbers) -> Numbers:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _sigmoid(x: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-x))


TEXT: Final[Any] = "x"
ALIKE: Final = ((lambda: op.maximum(np.ones(3), np.ones(4)), "do not broadcast"),)


def _unary(
    name: str, want: Callable[[Numbers], Numbers], low: float = -2.0, high: float = 2.0, slack: float = 1.0, *,
    smooth: bool = True,
) -> Case:  # fmt: skip
    """Return the row of a function of one operand, element by element."""
    made = getattr(op, name)
    return Case(
        made, want, (f(5, 7, low=low, high=high),), ((lambda: made(TEXT), "'x' is no array"),), (f(3, 0),), slack=slack,
        smooth=smooth,
    )  # fmt: skip


ELEMENTS: Final[dict[str, Case]] = {
    "abs": _unary("abs", np.abs),
    "ceil": _unary("ceil", np.ceil, smooth=False),
    "cos": _unary("cos", np.cos),
    "erf": _unary("erf", _erf),
    "exp": _unary("exp", np.exp),
    "exp2": _unary("exp2", np.exp2),
    "floor": _unary("floor", np.floor, smooth=False),
    "gelu": _unary("gelu", _gelu, slack=2),
    "log": _unary("log", np.log, 0.1, 9),
    "log2": _unary("log2", np.log2, 0.1, 9),
    "relu": _unary("relu", lambda x: np.maximum(x, 0)),
    "round": _unary("round", np.rint, smooth=False),
    "rsqrt": _unary("rsqrt", lambda x: 1 / np.sqrt(x), 0.1, 9),
    "sigmoid": _unary("sigmoid", _sigmoid),
    "sign": _unary("sign", np.sign, smooth=False),
    "silu": _unary("silu", lambda x: x * _sigmoid(x)),
    "sin": _unary("sin", np.sin),
    "softplus": _unary("softplus", lambda x: np.log1p(np.exp(x))),
    "sqrt": _unary("sqrt", np.sqrt, 0.1, 9),
    "square": _unary("square", np.square),
    "stop_gradient": _unary("stop_gradient", lambda x: x, smooth=False),
    "tanh": _unary("tanh", np.tanh),
    "trunc": _unary("trunc", np.trunc, smooth=False),
    "maximum": Case(op.maximum, np.maximum, (f(5, 7), f(7)), ALIKE, (f(0, 7), f(7))),
    "minimum": Case(
        op.minimum, np.minimum, (f(5, 7), f(5, 1)),
        ((lambda: op.minimum(np.ones((2, 3)), np.ones((3, 2))), "do not broadcast"),), (f(5, 0), f(5, 1)),
    ),
    "clip": Case(
        lambda x, low: op.clip(x, low, 1.0), lambda x, low: np.clip(x, low, 1.0), (f(5, 7), f(7, low=-1, high=0)),
        ((lambda: op.clip(np.ones(3), np.ones(4), 1.0), "do not broadcast"),), (f(0, 7), f(7)),
    ),
    "where": Case(
        op.where, np.where, (b(5, 1), f(5, 7), f(7)),
        ((lambda: op.where(np.ones(3, bool), np.ones(4), 0.0), "do not broadcast"),), (b(0, 1), f(0, 7), f(7)),
    ),
}  # fmt: skip


ARRAYS: Final[dict[str, Case]] = {
    "at": Case(
        graph.module(lambda x, v: op.at(x)[1:3].set(v)), lambda x, v: np.concatenate([x[:1], v, x[3:]]),
        (f(5, 7), f(2, 7)), ((lambda: op.at(ELSE), "none is being captured"),), (f(5, 0), f(2, 0)),
    ),
    "arange": Case(
        graph.module(lambda x: x + op.arange(7)), lambda x: x + np.arange(7), (f(5, 7),), ((lambda: op.arange(3), "none is being"),),
        (f(0, 7),), short=False,
    ),
    "broadcast_to": Case(
        lambda x: op.broadcast_to(x, (3, 5, 7)), lambda x: np.broadcast_to(x, (3, 5, 7)), (f(5, 1),),
        ((lambda: op.broadcast_to(np.ones(3), (4,)), "does not spread"),),
    ),
    "concat": Case(
        lambda x, y: op.concat([x, y], 1), lambda x, y: np.concatenate([x, y], 1), (f(5, 7), f(5, 2)),
        ((lambda: op.concat([]), "nothing to join"), (lambda: op.concat([np.ones(3), np.ones((3, 3))]), "do not join")),
        (f(5, 0), f(5, 2)),
    ),
    "full": Case(
        graph.module(lambda x: x + op.full((5, 7), 2.5, "f64")), lambda x: x + 2.5, (f(5, 7),),
        ((lambda: op.full((3,), 1.0), "none is being"),), short=False,
    ),
    "zeros": Case(
        graph.module(lambda x: x + op.zeros((7,), "f64")), lambda x: x, (f(5, 7),), ((lambda: op.zeros((3,)), "none is being"),),
        short=False,
    ),
    "ones": Case(
        graph.module(lambda x: x + op.ones((7,), "f64")), lambda x: x + 1, (f(5, 7),), ((lambda: op.ones((3,)), "none is being"),),
        short=False,
    ),
    "gather": Case(
        graph.module(lambda x, n: op.gather(x, n + 0, 1)), lambda x, n: taken(x, n, 1),
        (f(5, 7, 3), i(2, 3, low=-9, high=9)),  # computed ones, which may lie outside
        ((lambda: op.gather(ELSE, ELSE), "indices are integers"), (lambda: op.gather(ELSE, np.array([3])), "index 3 is outside"),
         (lambda: op.gather(ELSE, np.arange(2), 1), "no axis")),
        (f(5, 7, 3), i(0)),
    ),
    "one_hot": Case(
        lambda n: op.one_hot(n, 5), lambda n: (n[..., None] == np.arange(5)) * 1.0, (i(3, 7, low=-1, high=7),),
        ((lambda: op.one_hot(ELSE, 3), "indices are integers"), (lambda: op.one_hot(np.arange(3), -1), "of -1 classes")),
        (i(0, 7),), smooth=False,
    ),
    "pad": Case(
        lambda x: op.pad(x, [(1, 2), (0, 3)]), lambda x: np.pad(x, [(1, 2), (0, 3)]), (f(5, 7),),
        ((lambda: op.pad(ELSE, []), "0 pairs of widths for 1 axes"), (lambda: op.pad(ELSE, [(-4, 0)]), "cut off more")),
        (f(0, 7),),
    ),
    "reshape": Case(
        lambda x: op.reshape(x, (7, -1)), lambda x: x.reshape(7, -1), (f(5, 7),),
        ((lambda: op.reshape(ELSE, (2, 2)), "do not fill"),), (f(0, 7),),
    ),
    "split": Case(
        lambda x: op.split(x, 3), lambda x: tuple(np.split(x, 3, -1)), (f(5, 9),),
        ((lambda: op.split(ELSE, 2), "do not make 2 equal parts"),), (f(0, 9),),
    ),
    "stack": Case(
        lambda x, y: op.stack([x, y], -1), lambda x, y: np.stack([x, y], -1), (f(5, 7), f(5, 7)),
        ((lambda: op.stack([]), "nothing to join"), (lambda: op.stack([ELSE, np.ones(4)]), "do not join")),
        (f(0, 7), f(0, 7)),
    ),
    "take_along_axis": Case(
        lambda x, n: op.take_along_axis(x, n, 1), lambda x, n: np.take_along_axis(x, n, 1),
        (f(5, 7, 3), i(5, 2, 3, low=-7, high=7)),
        ((lambda: op.take_along_axis(ELSE, ELSE, 0), "indices are integers"),
         (lambda: op.take_along_axis(ELSE, np.zeros((1, 1), np.int64), 0), "as many axes")),
        (f(5, 7, 3), i(5, 0, 3)),
    ),
    "transpose": Case(
        lambda x: op.transpose(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1), (f(5, 7, 3),),
        ((lambda: op.transpose(ELSE, (1,)), "no order of the axes"),), (f(5, 0, 3),),
    ),
    "cast": Case(
        lambda x: op.cast(x, "f32"), lambda x: x, (f(5, 7),),
        ((lambda: op.cast(ELSE, "fp5"), "no array is stored"),), (f(0, 7),), slack=1e7,
    ),
    "cumsum": Case(
        lambda x: op.cumsum(x, 1), lambda x: x.cumsum(1), (f(3, 67, 2),),
        ((lambda: op.cumsum(ELSE, 1), "has no axis 1"),), (f(3, 0, 2),), slack=8,
    ),
}  # fmt: skip
