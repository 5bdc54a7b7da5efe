"""NumPy's dispatch on operands of other classes: `array + x` and `np.add(array, x)` are the arithmetic of x."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tessera.core.arrays.numpy_functions import ARITHMETIC, COMPARISONS, MIRRORED
from tessera.core.arrays.operators import Operators


@dataclass(frozen=True, slots=True)
class UfuncCall:
    """A call of a universal function; method: "__call__", "reduce", "accumulate" and others of NumPy's."""

    ufunc: np.ufunc
    method: str
    operands: Sequence[object]
    keywords: Mapping[str, object]


class NumpyOperand(Operators):
    """An operand that computes what NumPy's universal functions share with Python's operators, and answers others."""

    __array_priority__ = 1000

    @abstractmethod
    def __matmul__(self, other: object) -> Self: ...

    @abstractmethod
    def __rmatmul__(self, other: object) -> Self: ...

    @abstractmethod
    def other_ufunc(self, call: UfuncCall) -> object:
        """Return the result of a universal function that Python has no operator for, or raise what to write."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: object, **keywords: object) -> object:
        """Apply what Python has an operator for, as in `array + value`; see NumPy's NEP 13."""
        name, first = ufunc.__name__, operands[0]
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
        return self.other_ufunc(UfuncCall(ufunc, method, operands, keywords))
