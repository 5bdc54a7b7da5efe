"""An operand without numbers, by itself."""

import numpy as np
import pytest

from support.symbolic_operand import SymbolicOperand
from tessera import op
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
    for method in (x.item, x.tolist, x.numpy):
        with pytest.raises(CannotTrace, match="x has no numbers yet"):
            method()
    with pytest.raises(CannotTrace, match=r"np\.linalg\.norm of a value"):
        np.linalg.norm(x)  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(CannotTrace, match=r"np\.add of a value"):
        np.add(x, 1, where=np.array([True]))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("relu", r": write op\.relu\(x\)"), ("to", r": write x\.astype\(dtype\)"), ("tolst", r": did you mean x\.tolist\?"),
        ("nonsense", "$"),
    ],
)  # fmt: skip
def test_attributes_that_values_do_not_have(name: str, hint: str):
    assert op.relu is not None  # the operators are loaded
    with pytest.raises(AttributeError, match=f"a value of a graph has no attribute '{name}'{hint}"):
        getattr(Symbol("x"), name)
    assert not hasattr(Symbol("x"), "__array_interface__")
