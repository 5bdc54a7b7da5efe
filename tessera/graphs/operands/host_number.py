"""Python numbers whose value is known when a graph runs: the learning rate of a step, which changes from call to call.

A `HostNumber` takes the place of such an argument while a function is captured.  Python's arithmetic on it is noted,
and done by Python at each call, so that results have the bits that they would have with the number in the program.
Where it meets an array it becomes an input without axes.  Whatever needs the number itself, such as `if rate > 0`,
raises NeedsNumber: the function is captured for each number then.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias, TypeGuard

import numpy as np

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Number
from tessera.graphs.operands.numbers import literal

Evaluate: TypeAlias = Callable[[Sequence[Number]], Number]
_PLAIN: Final = (int, float)


class NeedsNumber(Exception):
    """The capture of a function depends on a number that is an input of its graph.  Example: `if rate > 0`."""


def _needed() -> NeedsNumber:
    return NeedsNumber("the number is needed while the function is captured")


class HostNumber:
    """A lazy Python number, computed from the varying arguments at each call.  `isinstance` takes it for int or float.

    class_: int or float; evaluate: computes it from the arguments
    """

    __slots__ = ("class_", "evaluate")
    __array_ufunc__ = None
    """NumPy's arrays leave arithmetic with it to this class, which refuses it: they would make arrays of objects."""

    def __init__(self, class_: type, evaluate: Evaluate) -> None:
        self.class_ = class_
        self.evaluate = evaluate

    @staticmethod
    def argument(position: int, class_: type) -> "HostNumber":
        """Return the stand-in for a varying argument."""
        return HostNumber(class_, operator.itemgetter(position))

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] - code asks isinstance(x, float)
        return self.class_

    def _with(self, other: object, apply: Callable[[Number, Number], Number], *, exact: bool, swapped: bool) -> object:
        """Note an operation of two numbers.  exact: whether two integers give an integer."""
        if type(other) is HostNumber:
            second, class_ = other.evaluate, other.class_
        elif type(other) in _PLAIN:
            value: Number = other  # pyright: ignore[reportAssignmentType] - an int or a float, as the line above asks
            second, class_ = _constant(value), type(other)
        elif isinstance(other, np.generic | np.ndarray | bool):
            raise _needed()
        else:
            return NotImplemented  # a value of a graph: it takes the number as an operand
        first = self.evaluate
        if swapped:
            first, second = second, first
        both = exact and self.class_ is int and class_ is int
        return HostNumber(int if both else float, lambda numbers: apply(first(numbers), second(numbers)))

    def _alone(self, apply: Callable[[Number], Number]) -> "HostNumber":
        evaluate = self.evaluate
        return HostNumber(self.class_, lambda numbers: apply(evaluate(numbers)))

    def __add__(self, other: object) -> object:
        return self._with(other, operator.add, exact=True, swapped=False)

    def __radd__(self, other: object) -> object:
        return self._with(other, operator.add, exact=True, swapped=True)

    def __sub__(self, other: object) -> object:
        return self._with(other, operator.sub, exact=True, swapped=False)

    def __rsub__(self, other: object) -> object:
        return self._with(other, operator.sub, exact=True, swapped=True)

    def __mul__(self, other: object) -> object:
        return self._with(other, operator.mul, exact=True, swapped=False)

    def __rmul__(self, other: object) -> object:
        return self._with(other, operator.mul, exact=True, swapped=True)

    def __truediv__(self, other: object) -> object:
        return self._with(other, _quotient, exact=False, swapped=False)

    def __rtruediv__(self, other: object) -> object:
        return self._with(other, _quotient, exact=False, swapped=True)

    def __pow__(self, other: object) -> object:
        # Python's power of integers may be a float, and that of a negative float a complex number.
        if self.class_ is float and (type(other) is int or (type(other) is HostNumber and other.class_ is int)):
            return self._with(other, _power, exact=False, swapped=False)
        raise _needed()

    def __rpow__(self, other: object) -> object:
        if type(other) is float and (other > 0 or self.class_ is int):
            return self._with(other, _power, exact=False, swapped=True)
        if type(other) in (int, float):
            raise _needed()
        return NotImplemented

    def __neg__(self) -> "HostNumber":
        return self._alone(operator.neg)

    def __pos__(self) -> "HostNumber":
        return self

    def __abs__(self) -> "HostNumber":
        return self._alone(abs)

    def _refuse(self, *_: object) -> NoReturn:
        raise _needed()

    __bool__ = __float__ = __int__ = __index__ = __hash__ = __str__ = __repr__ = __format__ = __complex__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse  # pyright: ignore[reportAssignmentType]
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refuse
    __round__ = __trunc__ = __floor__ = __ceil__ = __array__ = __reduce_ex__ = _refuse


def _constant(value: Number) -> Evaluate:
    return lambda _: value


def _quotient(one: Number, other: Number) -> Number:
    return one / other


def _power(one: Number, other: Number) -> Number:
    power: Number = one**other
    return power


def is_host_number(value: object) -> TypeGuard[HostNumber]:
    """Return whether `value` is a lazy number."""
    return type(value) is HostNumber


@dataclass(frozen=True, slots=True, eq=False)
class NumberInput:
    """An input of a graph that is a number in one dtype."""

    number: HostNumber
    dtype: DType

    def element(self, numbers: Sequence[Number]) -> np.ndarray:
        """Compute the number, and round it as a literal is rounded.  Raises OperandMismatch."""
        value = literal(self.number.evaluate(numbers), self.dtype).value
        if -1.0 < value < 1.0:  # most are: the context costs as much as all else
            return np.asarray(value).astype(self.dtype.numpy)
        with np.errstate(over="ignore"):
            return np.asarray(value).astype(self.dtype.numpy)
