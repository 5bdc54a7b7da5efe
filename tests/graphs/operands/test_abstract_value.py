"""An operand without numbers, by itself."""

import numpy as np
import pytest

from support.symbolic_operand import SymbolicOperand
from tessera.core.errors.catalog import CannotTrace
from tessera.graphs.operands.abstract_value import AbstractValue


class Symbol(SymbolicOperand, AbstractValue):
    """A value that remembers how it was computed."""


def test_operators_of_numpys_arrays_are_its_own():
    x, y = Symbol("x"), np.array([1, 2])
    for made, text in (
        (y + x, "add([1 2], x)"), (x + y, "add(x, [1 2])"), (y < x, "gt(x, [1 2])"), (y @ x, "matmul([1 2], x)"),
        (np.matmul(x, y), "matmul(x, [1 2])"), (np.less(x, y), "lt(x, [1 2])"), (np.float32(3) * x, "mul(3.0, x)"),
    ):  # fmt: skip
        assert repr(made) == text


def test_numbers_are_refused():
    x = Symbol("x")
    for use in (bool, float, int, range, np.asarray, np.sin, np.sum):
        with pytest.raises(CannotTrace, match="x has no numbers yet"):
            use(x)
    with pytest.raises(CannotTrace, match=r"np\.add of a value"):
        np.add(x, 1, where=np.array([True]))
