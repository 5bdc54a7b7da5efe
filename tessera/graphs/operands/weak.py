"""Weak values: made of Python numbers alone, they take the float dtype of what they meet, as JAX's weak types.

In `op.sqrt(2) * x` with x of f64 the root has the digits of f64, although `op.sqrt(2)` on its own is f32.
"""

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tessera.core.base.dtypes import DType, boolean, f32, i64, promote
from tessera.core.graph.expr import Number

P = ParamSpec("P")


class MaybeWeak(Protocol):
    """A value that may be weak.

    weak: computes it in another float dtype; None for one that does not stand for Python numbers alone
    """

    weak: Callable[[DType], Any] | None  # attributes are invariant: the protocol cannot say "such a value"

    @property
    def dtype(self) -> DType:
        """The element type."""
        ...

    @property
    def ndim(self) -> int:
        """The number of axes."""
        ...


V = TypeVar("V", bound=MaybeWeak)


def is_weak(operand: object) -> bool:
    """Return whether an operand is a Python number, or is made of some alone."""
    return isinstance(operand, bool | int | float) or getattr(operand, "weak", None) is not None


def made_weak(result: V, operands: Sequence[object], compute: Callable[[DType], V]) -> V:
    """Return a result, weak where its operands are: `compute` gives it in another dtype."""
    if result.dtype == f32 and result.weak is None and all(map(is_weak, operands)):
        result.weak = compute
    return result


def weakly(method: Callable[Concatenate[V, P], V]) -> Callable[Concatenate[V, P], V]:
    """Make the result of a method weak where its object is: `compute` is the same method of the recomputed one."""

    def call(self: V, /, *arguments: P.args, **keywords: P.kwargs) -> V:
        result, weak = method(self, *arguments, **keywords), self.weak
        if weak is None or result is self:
            return result
        return made_weak(result, (self,), lambda dtype: method(weak(dtype), *arguments, **keywords))

    call.__doc__, call.__name__ = method.__doc__, method.__name__
    return call


def dtype_of_meeting(sides: Sequence[MaybeWeak | Number], *, floating: bool) -> DType:
    """Return the dtype in which operands meet: numbers take that of the arrays, and so do weak values without axes.

    floating: give f32 where all operands are integers, as division does
    """
    values = [side for side in sides if not isinstance(side, bool | int | float)]
    strong = [side.dtype for side in values if side.weak is None or side.ndim] or [side.dtype for side in values]
    dtype = promote(*strong) if len(strong) > 1 else strong[0] if strong else boolean
    floats = any(isinstance(side, float) for side in sides) or any(side.weak for side in values)
    if (floats or floating) and not dtype.is_float:
        return f32
    return i64 if dtype == boolean and any(type(side) is int for side in sides) else dtype
