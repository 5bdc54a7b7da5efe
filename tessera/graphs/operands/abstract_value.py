"""Values without numbers: Python and NumPy ask them for some, and are told what to write instead."""

from typing import NoReturn

from tessera.core.arrays.numpy_functions import numpy_remedy
from tessera.core.arrays.numpy_operand import NumpyOperand, UfuncCall
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import CannotTrace


class AbstractValue(NumpyOperand):
    """An operand whose elements are known only when a graph runs.

    What needs them raises CannotTrace; arithmetic of NumPy's arrays with one is the value's own.
    """

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

    def other_ufunc(self, call: UfuncCall) -> NoReturn:
        """Raise CannotTrace."""
        if "out" in call.keywords:
            raise self._refused("writing a value into an array of NumPy", "write y = y + x instead of y += x")
        name = call.ufunc.__name__
        raise self._refused(f"np.{name} of a value", numpy_remedy(name))

    def _refused(self, what: str, remedy: str) -> CannotTrace:
        return at_call(CannotTrace(f"{what} cannot be captured: {self!r} has no numbers yet", hint=remedy))
