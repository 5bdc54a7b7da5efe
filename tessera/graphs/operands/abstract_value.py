"""Values without numbers: Python and NumPy ask them for some, and are told what to write instead."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from tessera.core.arrays.array_methods import OPERATORS
from tessera.core.arrays.numpy_functions import OTHER_ATTRIBUTES, numpy_remedy
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

    def item(self, *_: object) -> NoReturn:
        """Raise CannotTrace: a value has no numbers yet."""
        raise self._refused("a Python number of a value", "keep it an array: it is computed when the graph runs")

    def tolist(self) -> NoReturn:
        """Raise CannotTrace: a value has no numbers yet."""
        raise self._refused("a list of numbers of a value", "return the value, and take the list of the result")

    def numpy(self, *_: object, **__: object) -> NoReturn:
        """Raise CannotTrace: a value has no numbers yet."""
        raise self._refused("a NumPy array of a value", "return the value: results are arrays")

    if not TYPE_CHECKING:  # which would take every name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError with what to write instead: Python asks here for names that it does not find."""
            raise AttributeError(
                f"a value of a graph has no attribute {name!r}{_attribute_hint(self, name)}", name=name
            )

    def __setitem__(self, index: object, value: object) -> None:
        remedy = "make a new value: x = x.at[i].set(v)"
        raise self._refused("writing into a value", remedy)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise self._refused("a NumPy array of a value", "use the functions of tessera.op")

    def __array_function__(self, function: object, *_: object, **__: object) -> NoReturn:
        name = str(getattr(function, "__name__", ""))
        module = str(getattr(function, "__module__", "numpy")).replace("numpy", "np", 1)
        raise self._refused(f"{module}.{name} of a value", numpy_remedy(name))

    def other_ufunc(self, call: UfuncCall) -> NoReturn:
        """Raise CannotTrace."""
        if "out" in call.keywords:
            raise self._refused("writing a value into an array of NumPy", "write y = y + x instead of y += x")
        name = call.ufunc.__name__
        raise self._refused(f"np.{name} of a value", numpy_remedy(name))

    def _refused(self, what: str, remedy: str) -> CannotTrace:
        return at_call(CannotTrace(f"{what} cannot be captured: {self!r} has no numbers yet", hint=remedy))


def _attribute_hint(value: AbstractValue, name: str) -> str:
    """Return what to write instead of an attribute that a value does not have: ": write ...", or nothing."""
    if name in OTHER_ATTRIBUTES:
        return f": {OTHER_ATTRIBUTES[name]}"
    if name in OPERATORS:
        return f": write op.{name}(x)"
    close = get_close_matches(name, [each for each in dir(type(value)) if not each.startswith("_")], 1, 0.75)
    return f": did you mean x.{close[0]}?" if close else ""
