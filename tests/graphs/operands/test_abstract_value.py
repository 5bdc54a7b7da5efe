"""An operand without numbers, by itself."""

from typing import Self

import numpy as np
import pytest

from tessera.core.errors.catalog import CannotTrace
from tessera.graphs.operands.abstract_value import AbstractValue


class Symbol(AbstractValue):
    """A value that remembers how it was made."""

    def __init__(self, text: str) -> None:
        self.text = text

    def binary(self, opcode: str, left: object, right: object) -> Self:
        return type(self)(f"{opcode}({left}, {right})")

    def compare(self, predicate: str, other: object) -> Self:
        return type(self)(f"{predicate}({self}, {other})")

    def unary(self, opcode: str) -> Self:
        return type(self)(f"{opcode}({self})")

    def __matmul__(self, other: object) -> Self:
        return type(self)(f"matmul({self}, {other})")

    def __rmatmul__(self, other: object) -> Self:
        return type(self)(f"matmul({other}, {self})")

    def __repr__(self) -> str:
        return self.text


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
