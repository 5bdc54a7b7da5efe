"""NumPy's universal functions of an operand of another class."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportUnknownVariableType=false

import numpy as np

from support.symbolic_operand import SymbolicOperand
from tessera.core.arrays.numpy_operand import NumpyOperand, UfuncCall


class Symbol(SymbolicOperand, NumpyOperand):
    """A value that remembers how it was computed."""

    def other_ufunc(self, call: UfuncCall) -> tuple[str, str, int, dict[str, object]]:
        return call.ufunc.__name__, call.method, len(call.operands), dict(call.keywords)


def test_functions_that_python_has_an_operator_for():
    x, y = Symbol("x"), np.array([1, 2])
    for result, text in (
        (y + x, "add([1 2], x)"), (np.power(x, y), "pow(x, [1 2])"), (np.less_equal(y, x), "ge(x, [1 2])"),
        (np.less_equal(x, y), "le(x, [1 2])"), (y @ x, "matmul([1 2], x)"), (np.matmul(x, y), "matmul(x, [1 2])"),
        (np.float32(3) - x, "sub(3.0, x)"),
    ):  # fmt: skip
        assert repr(result) == text


def test_other_functions_are_its_own_to_answer():
    x, out = Symbol("x"), np.zeros(2)
    assert np.exp(x) == ("exp", "__call__", 1, {})
    assert np.add.reduce(x) == ("add", "reduce", 1, {})
    assert np.add(x, 1, out=out) == ("add", "__call__", 2, {"out": (out,)})
