"""NumPy's functions of values: remedies that exist, arithmetic that is the value's own."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable

import numpy as np
import pytest

from support.operators import Array
from tessera import graph, op
from tessera.core.arrays.numpy_functions import (
    ARITHMETIC,
    COMPARISONS,
    MIRRORED,
    OPERATORS,
    SAME_NAMES,
    numpy_remedy,
)
from tessera.core.settings import overridden


def test_every_remedy_is_an_operator():
    assert [name for name in (*OPERATORS.values(), *SAME_NAMES) if name not in op.__all__] == []
    assert numpy_remedy("exp") == "write op.exp"
    assert numpy_remedy("concatenate") == "write op.concat"
    assert "op." not in numpy_remedy("sinc").replace("tessera.op", "")


def both(function: Callable[[Array, Array], Array], x: Array, y: Array) -> None:
    """Assert that a function of an array and a value gives what NumPy does, either way around."""
    with overridden(target="interpret"):
        for left in (True, False):
            traced = graph.module("f")(lambda v, left=left: function(x, v) if left else function(v, x))
            right = function(x, y) if left else function(y, x)
            np.testing.assert_array_equal(np.asarray(traced(y)), right)


@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISONS])
def test_universal_functions_of_two_operands(name: str):
    integers = name.startswith(("bitwise", "left", "right", "remainder", "floor"))
    x = np.array([3, 5, 9], np.int32) if integers else np.array([0.5, 2.0, 3.0])
    y = np.array([2, 5, 1], np.int32) if integers else np.array([2.0, 2.0, 4.0])
    both(getattr(np, name), x, y)


def test_products_and_scalars():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    with overridden(target="interpret"):
        np.testing.assert_array_equal(np.asarray(graph.module("f")(lambda v: x @ v)(y)), x @ y)
        np.testing.assert_array_equal(np.asarray(graph.module("f")(lambda v: v @ y)(x)), x @ y)
        for scalar in (np.float64(0.5), np.float32(0.5), np.int64(3)):
            np.testing.assert_array_equal(
                np.asarray(graph.module("f")(lambda v, s=scalar: s * v - s)(x)), scalar * x - scalar
            )


def test_mirrored_predicates():
    x = np.array([1.0, 2.0, 3.0])
    for name, predicate in COMPARISONS.items():
        mirror = next(each for each, opcode in COMPARISONS.items() if opcode == MIRRORED[predicate])
        np.testing.assert_array_equal(getattr(np, name)(x, 2.0), getattr(np, mirror)(2.0, x))
