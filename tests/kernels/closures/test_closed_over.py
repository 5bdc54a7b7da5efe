"""Arrays of a closure as operands, and the elements of those that are none."""

# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false

import numpy as np

from tessera.kernels.closures.closed_over import ClosedOver, ClosedOverArray, unchanged_of
from tessera.kernels.closures.walk import closure_of


def test_elements_of_arrays_that_are_no_operands():
    table, weights = np.array([2.0]), np.ones(3)

    def function(v: object) -> object:
        return float(table[0]), weights

    closed = ClosedOver.of(closure_of(function), (weights,))
    assert closed is not None
    weights[:] = 5.0
    assert closed.unchanged()
    table[0] = 3.0
    assert not closed.unchanged()
    assert closed.now(closure_of(function)) is None
    table[0] = 2.0
    weights = np.zeros(3)
    again = closed.now(closure_of(function))
    assert again is not None
    assert [each is weights for each in again.arrays] == [True]
    assert ClosedOver.of(closure_of(function), (np.ones(3),)) is None  # an array that the function makes


def test_arrays_and_their_transposes():
    w, v = np.ones((2, 3)), np.ones(4)
    for captured, array in (
        (w, ClosedOverArray(0)), (w.T, ClosedOverArray(0, transposed=True)), (w[:], ClosedOverArray(0)),
        (v, ClosedOverArray(1)), (v.T, ClosedOverArray(1)),
    ):  # fmt: skip
        operand = ClosedOverArray.within((w, v), captured)
        assert operand == array
        other = (np.zeros((2, 3)), np.zeros(4))
        np.testing.assert_array_equal(operand.of(other), np.zeros_like(captured))
    for view in (w[:, :2], w.reshape(3, 2), w[::-1], v[1:], w.copy(), w.view(np.int64)):
        assert ClosedOverArray.within((w, v), view) is None


def test_without_arrays_it_serves_functions_with_an_equal_closure():
    weights, table = np.ones(3), np.ones(2)
    closure = closure_of(lambda: weights)
    closed = ClosedOver.of(closure, (weights,))
    assert closed is not None
    shared = closed.without_arrays()
    assert shared is not None
    assert not shared.unchanged()
    again = shared.now(closure)
    assert again is not None
    assert again.arrays[0] is weights
    read = ClosedOver.of(closure_of(lambda: (weights, table)), (weights,))
    assert read is not None
    assert read.without_arrays() is None  # numbers may have been made of the table


def test_code_without_operands():
    table, number = np.ones(2), 1.0
    unchanged = unchanged_of(closure_of(lambda: (table, number)))
    assert unchanged()
    table[0] = 2.0
    assert not unchanged()
    table[0] = 1.0
    number = 2.0
    assert not unchanged()
