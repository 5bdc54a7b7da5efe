"""Pure operations: NumPy values in, NumPy values out.  One table from opcode to what makes the function.

All elements of the tiles exist here; `absence.py` has the rules for those of which not all do.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from tessera.core.base.dtypes import DType
from tessera.core.program.program import Op
from tessera.core.program.spec import BINARY, UNARY
from tessera.core.program.types import Scalar, Tile
from tessera.runtime.interpret import arithmetic, tiles
from tessera.runtime.interpret.operands import integer, integer_or_none, integers, number
from tessera.runtime.interpret.rounding import Numbers, fma

Function = Callable[..., Numbers]


def prepare(op: Op) -> Function:
    """Return what computes a pure operation from uniform scalars (0-d), lane-varying scalars (1-d) or tiles."""
    return PURE[op.opcode](op)


def _operand_dtype(op: Op) -> DType:
    kind = op.operands[0].type
    if not isinstance(kind, Scalar | Tile):
        raise TypeError(f"the first operand of {op.opcode} has no element type")
    return kind.dtype


def _constant(op: Op) -> Function:
    value = arithmetic.constant(number(op, "value"), tiles.dtype_of(op))
    return lambda: value


def _binary(op: Op) -> Function:
    return partial(arithmetic.binary, op.opcode, dtype=tiles.dtype_of(op))


def _unary(op: Op) -> Function:
    return partial(arithmetic.unary, op.opcode, dtype=tiles.dtype_of(op))


def _fma(op: Op) -> Function:
    return partial(fma, dtype=tiles.dtype_of(op))


def _compare(op: Op) -> Function:
    return partial(arithmetic.compare, str(op.attributes["predicate"]))


def _select(_: Op) -> Function:
    return np.where


def _cast(op: Op) -> Function:
    return partial(arithmetic.cast, target=tiles.dtype_of(op))


def _full(op: Op) -> Function:
    return partial(np.full, tiles.shape_of(op), dtype=tiles.dtype_of(op).numpy)


def _arange(op: Op) -> Function:
    offsets = np.arange(tiles.shape_of(op)[0], dtype=np.int64)
    return partial(np.add, offsets)


def _broadcast(op: Op) -> Function:
    return partial(np.broadcast_to, shape=tiles.shape_of(op))


def _reshape(op: Op) -> Function:
    return partial(np.reshape, shape=tiles.shape_of(op))


def _transpose(op: Op) -> Function:
    return partial(np.transpose, axes=integers(op, "permutation"))


def _reduce(op: Op) -> Function:
    axis = integer_or_none(op, "axis")
    return partial(tiles.reduce, kind=str(op.attributes["kind"]), axis=axis, dtype=tiles.dtype_of(op))


def _softmax(op: Op) -> Function:
    return partial(tiles.softmax, axis=integer(op, "axis"), dtype=tiles.dtype_of(op))


def _dot(op: Op) -> Function:
    compute = str(op.attributes.get("compute", ""))
    return partial(tiles.dot, operand=_operand_dtype(op), result=tiles.dtype_of(op), compute=compute)


def _valid(op: Op) -> Function:
    flags: Numbers = np.ones(tiles.shape_of(op), np.bool_)

    def valid(_: Numbers) -> Numbers:
        return flags

    return valid


def _fill(_: Op) -> Function:
    def fill(tile: Numbers, _: Numbers) -> Numbers:
        return tile

    return fill


PURE: Final[dict[str, Callable[[Op], Function]]] = {
    "const": _constant,
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(UNARY, _unary),
    "fma": _fma,
    "cmp": _compare,
    "select": _select,
    "cast": _cast,
    "full": _full,
    "arange": _arange,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "reduce": _reduce,
    "softmax": _softmax,
    "dot": _dot,
    "valid": _valid,
    "fill": _fill,
}
"""Every operation without effects or regions, but for `id` and `dim`, which ask the launch."""
