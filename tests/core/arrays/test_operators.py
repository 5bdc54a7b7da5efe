"""Python's operators on values of a graph, either way round, against NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from support.operators import Array
from tessera import graph
from tessera.core.arrays.operators import Operators
from tessera.core.settings import overridden
from tessera.graphs.tracer import Tracer

BOTH_WAYS: list[Callable[[Any, Any], Any]] = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_, operator.or_,
             operator.xor, operator.lshift, operator.rshift]  # fmt: skip


def test_a_tracer_has_them():
    assert issubclass(Tracer, Operators)
    assert {"__rmod__", "__rlshift__", "__rand__"} <= set(dir(Tracer))


def test_integers_either_way_round():
    x = np.array([1, 2, 3, 7], np.int32)

    def applied(x: Array) -> tuple[Array, ...]:
        return tuple(each for f in BOTH_WAYS for each in (f(x, 3), f(29, x), f(x, x)))

    with overridden(target="interpret"):
        results = graph.module(applied)(x)
    for got, want in zip(results, applied(x), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_floats_either_way_round():
    x = np.array([0.5, -1.5, 2.0])

    def applied(x: Array) -> tuple[Array, ...]:
        return (5.0 % x, x % 5.0, 2.0 / x, 7.0 // x, 2.0 - x, -x, abs(x), x == 2.0, x != 2.0, x <= 0.5)

    with overridden(target="interpret"):
        results = graph.module(applied)(x)
    for got, want in zip(results, applied(x), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
