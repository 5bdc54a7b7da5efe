"""Arithmetic on numbers that are known while a kernel is built."""

import math

import pytest

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import DivisionByZero, TypeMismatch
from tessera.frontend.base.constant_folding import fold, fold_comparison, fold_unary


@pytest.mark.parametrize(
    ("opcode", "a", "b", "result"),
    [("div", 3, 2, 1.5), ("floordiv", -3, 2, -2), ("mod", -3, 2, 1), ("shl", 1, 40, 1 << 40), ("min", 2, 1.5, 1.5)],
)
def test_python_numbers(opcode: str, a: float, b: float, result: float):
    assert fold(opcode, a, b, NOWHERE) == result


def test_what_has_no_value():
    with pytest.raises(DivisionByZero, match="1 divided by 0"):
        fold("mod", 1, 0, NOWHERE)
    with pytest.raises(TypeMismatch, match="unsupported operand"):
        fold("and", 1.5, 2, NOWHERE)
    with pytest.raises(TypeMismatch, match=r"log\(-1\)"):
        fold_unary("log", -1, NOWHERE)


def test_one_operand():
    assert fold_unary("rsqrt", 4, NOWHERE) == 0.5
    assert math.isnan(fold_unary("rsqrt", -4, NOWHERE))
    assert fold_unary("not", 0, NOWHERE) is True
    assert fold_unary("abs", -2, NOWHERE) == 2


def test_comparisons():
    assert fold_comparison("le", 2, 2)
    assert not fold_comparison("ne", 2, 2.0)
