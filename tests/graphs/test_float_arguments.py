"""Python floats that a function is differentiated by."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import numpy as np
import pytest

import tessera
from support.operators import Array
from tessera import op
from tessera.graphs.differentiation import floats_as_arrays


def converted(arguments: tuple[object, ...], by: list[int]) -> tuple[Any, ...]:
    return floats_as_arrays(arguments, by)


def test_floats_become_arrays_of_the_dtype_that_they_meet():
    x, y = np.ones(3, np.float32), np.ones(3)
    kept, made = converted((2.0, 3.0), [1])
    assert kept == 2.0
    assert isinstance(made, np.ndarray)
    assert (made.dtype, made.shape, made[()]) == (np.float64, (), 3.0)
    _, of_f32 = converted((x, 0.1), [1])
    assert of_f32.dtype == np.float32
    _, _, of_f64 = converted((x, y, 0.1), [2])
    assert of_f64.dtype == np.float64
    (tree,) = converted(({"w": x, "rate": 0.5, "steps": 3, "inner": [1.5, "name"]},), [0])
    assert tree["w"] is x
    assert (tree["rate"].dtype, tree["steps"], tree["inner"][1]) == (np.float32, 3, "name")
    assert tree["inner"][0] == 1.5
    unchanged = (x, {"a": y}, 2)
    assert floats_as_arrays(unchanged, [0, 1, 2]) == unchanged


@pytest.mark.parametrize("number", [3.0, np.float64(3.0), np.float32(3.0)])
def test_derivatives_by_a_number(number: float):
    x = np.array([1.0, 2.0, 4.0])
    assert tessera.grad(lambda s: op.sum(x * s))(number) == 7.0
    assert tessera.grad(lambda s: s * s * s)(number) == 27.0
    assert tessera.hvp(lambda s: s * s * s, (number,), (1.0,))[0] == 18.0
    value, pullback = tessera.vjp(lambda s: s * s, number)
    assert (value, pullback(2.0)[0]) == (9.0, 12.0)
    assert tessera.jvp(lambda s: s * s, (number,), (0.5,)) == (9.0, 3.0)
    assert tessera.grad(lambda v, s: op.sum(v * s), argnums=-1)(x, number) == 7.0


def test_numbers_beside_arrays_in_a_tree():
    x = np.array([1.0, 2.0, 4.0], np.float32)
    got = tessera.grad(lambda p: op.sum(p["w"] * p["t"]) * p["n"])({"w": x, "t": 2.0, "n": 3})
    np.testing.assert_array_equal(got["w"], np.full(3, 6, np.float32))
    assert got["t"] == 21.0
    assert got["t"].dtype == np.float32


def test_a_number_captures_once():
    function = tessera.grad(lambda s: s * s)
    assert [float(function(float(n))) for n in range(4)] == [0.0, 2.0, 4.0, 6.0]
    assert "captured for 1 kinds" in repr(function)


def test_inside_of_a_graph():
    def step(x: Array) -> Array:
        return x * tessera.grad(lambda s: op.sum(x * s))(1.0)

    np.testing.assert_array_equal(tessera.graph.module(step)(np.array([1.0, 2.0])), [3.0, 6.0])
