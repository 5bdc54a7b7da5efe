"""Values of scalar expressions over NumPy arrays: the oracle of what is derived from them."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tessera.core.graph.expr import Apply, Argument, Expr, Literal, fold

Array: TypeAlias = NDArray[Any]  # of any element type: each expression says which


def evaluate(expr: Expr, arguments: Sequence[Array]) -> Array:
    """Return `expr` for arrays of one element an evaluation; they broadcast.

    Infinities and NaN are values here as they are in kernels: NumPy's warnings about them are off.
    """

    def leaf(each: Argument | Literal) -> Array:
        if isinstance(each, Argument):
            return np.asarray(arguments[each.number], each.dtype.numpy)
        return np.asarray(each.value, each.dtype.numpy)

    def node(each: Apply, *operands: Array) -> Array:
        return np.asarray(_apply(each, operands), each.dtype.numpy)

    with np.errstate(all="ignore"):
        return cast(Array, fold(expr, leaf, node))


def _apply(expr: Apply, operands: Sequence[Array]) -> Array:
    if expr.opcode == "cast":
        return operands[0].astype(expr.dtype.numpy)
    if expr.opcode == "cmp":
        return _COMPARE[expr.predicate](operands[0], operands[1])
    function = _INTEGERS.get(expr.opcode) if not expr.dtype.is_float else None
    return (function or _FUNCTIONS[expr.opcode])(*operands)


def _rsqrt(value: Array) -> Array:
    return np.divide(np.asarray(1, value.dtype), np.sqrt(value))


def _fma(a: Array, b: Array, c: Array) -> Array:
    return np.add(np.multiply(a, b), c)


def _quotient(a: Array, b: Array) -> Array:
    """Return integers divided as a Program does: by 0 it is 0."""
    return np.where(b == 0, np.asarray(0, a.dtype), np.floor_divide(a, np.where(b == 0, np.asarray(1, b.dtype), b)))


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.asarray(0, a.dtype), np.mod(a, np.where(b == 0, np.asarray(1, b.dtype), b)))


_erf: Final = np.vectorize(math.erf, otypes=[np.float64])

_COMPARE: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_FUNCTIONS: Final[dict[str, Callable[..., Array]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide,
    "mod": np.mod, "min": np.minimum, "max": np.maximum, "pow": np.power, "neg": np.negative, "abs": np.abs,
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "rsqrt": _rsqrt, "sin": np.sin,
    "cos": np.cos, "tanh": np.tanh, "erf": _erf, "floor": np.floor, "ceil": np.ceil, "fma": _fma, "select": np.where,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "shl": np.left_shift,
    "shr": np.right_shift,
}  # fmt: skip
_INTEGERS: Final[dict[str, Callable[..., Array]]] = {"floordiv": _quotient, "mod": _remainder, "div": _quotient}
