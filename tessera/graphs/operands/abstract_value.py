"""Values without numbers: Python and NumPy ask them for some, and are told what to write instead."""

from abc import abstractmethod
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import CannotTrace
from tessera.graphs.operands.numpy_functions import ARITHMETIC, COMPARISONS, MIRRORED, numpy_remedy
from tessera.graphs.operands.operators import Operators

Array: TypeAlias = Any  # an array of NumPy, PyTorch, CuPy or JAX, or a value of the graph that is being captured
"""An operand or a result of an operator: an array of any library, or a value of a graph."""


class AbstractValue(Operators):
    """An operand whose elements are known only when a graph runs.

    What needs them raises CannotTrace; arithmetic of NumPy's arrays with one is the value's own.
    """

    __array_priority__ = 1000

    @abstractmethod
    def __matmul__(self, other: object) -> Self: ...

    @abstractmethod
    def __rmatmul__(self, other: object) -> Self: ...

    def __bool__(self) -> bool:
        remedy = "use op.where(c, a, b) for elements, op.cond(c, f, g) for `if`, op.while_(c, f, x) for `while`"
        raise self._refused("a branch on values", remedy)

    def __float__(self) -> float:
        raise self._refused("a Python number of a value", "keep it an array: it is computed when the graph runs")

    def __int__(self) -> int:
        raise self._refused("a Python number of a value", "keep it an array: it is computed when the graph runs")

    def __index__(self) -> int:
        raise self._refused("an index that is computed", "use op.gather(x, index, axis)")

    def __setitem__(self, index: object, value: object) -> None:
        remedy = "make a new value: x = x.at[i].set(v)"
        raise self._refused("writing into a value", remedy)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise self._refused("a NumPy array of a value", "use the functions of tessera.op")

    def __array_function__(self, function: object, *_: object, **__: object) -> NoReturn:
        name = str(getattr(function, "__name__", ""))
        raise self._refused(f"np.{name} of a value", numpy_remedy(name))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: object, **keywords: object) -> Self:
        """Apply what Python has an operator for, as in `array + value`.  Raises CannotTrace for other functions."""
        name, first = ufunc.__name__, operands[0]
        if "out" in keywords:
            raise self._refused("writing a value into an array of NumPy", "write y = y + x instead of y += x")
        if method == "__call__" and not keywords:
            if name in ARITHMETIC:
                return self.binary(ARITHMETIC[name], *operands)
            if name in COMPARISONS:
                predicate = COMPARISONS[name]
                return (
                    self.compare(predicate, operands[1]) if first is self else self.compare(MIRRORED[predicate], first)
                )
            if name == "matmul":
                return self.__matmul__(operands[1]) if first is self else self.__rmatmul__(first)
        raise self._refused(f"np.{name} of a value", numpy_remedy(name))

    def _refused(self, what: str, remedy: str) -> CannotTrace:
        return at_call(CannotTrace(f"{what} cannot be captured: {self!r} has no numbers yet", hint=remedy))
