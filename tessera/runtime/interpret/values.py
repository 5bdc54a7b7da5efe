"""Pure operations: NumPy values in, NumPy values out.  One table from opcode to function."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tessera.core.dtypes import DType
from tessera.core.program.program import Op
from tessera.core.program.spec import BINARY, UNARY
from tessera.core.program.types import Scalar, Tile
from tessera.runtime.interpret import arithmetic, tiles
from tessera.runtime.interpret.rounding import Numbers, fma


def evaluate(op: Op, operands: Sequence[Numbers]) -> Numbers:
    """Return the result of a pure operation on uniform scalars (0-d), lane-varying scalars (1-d) or tiles."""
    return PURE[op.opcode](op, *operands)


def _operand_dtype(op: Op) -> DType:
    kind = op.operands[0].type
    if not isinstance(kind, Scalar | Tile):
        raise TypeError(f"the first operand of {op.opcode} has no element type")
    return kind.dtype


def _constant(op: Op) -> Numbers:
    value: Any = op.attributes["value"]
    return arithmetic.constant(value, tiles.dtype_of(op))


def _binary(op: Op, a: Numbers, b: Numbers) -> Numbers:
    return arithmetic.binary(op.opcode, a, b, tiles.dtype_of(op))


def _unary(op: Op, a: Numbers) -> Numbers:
    return arithmetic.unary(op.opcode, a, tiles.dtype_of(op))


def _fma(op: Op, a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    return fma(a, b, c, tiles.dtype_of(op))


def _compare(op: Op, a: Numbers, b: Numbers) -> Numbers:
    return arithmetic.compare(str(op.attributes["predicate"]), a, b)


def _select(_: Op, condition: Numbers, yes: Numbers, no: Numbers) -> Numbers:
    return np.where(condition, yes, no)


def _cast(op: Op, a: Numbers) -> Numbers:
    return arithmetic.cast(a, tiles.dtype_of(op))


def _full(op: Op, a: Numbers) -> Numbers:
    return np.full(tiles.shape_of(op), a, tiles.dtype_of(op).numpy)


def _arange(op: Op, start: Numbers) -> Numbers:
    return start + np.arange(tiles.shape_of(op)[0], dtype=np.int64)


def _broadcast(op: Op, a: Numbers) -> Numbers:
    return np.broadcast_to(a, tiles.shape_of(op))


def _reshape(op: Op, a: Numbers) -> Numbers:
    return np.reshape(a, tiles.shape_of(op))


def _transpose(op: Op, a: Numbers) -> Numbers:
    permutation: Any = op.attributes["permutation"]
    return np.transpose(a, permutation)


def _reduce(op: Op, a: Numbers) -> Numbers:
    axis: Any = op.attributes["axis"]
    return tiles.reduce(a, str(op.attributes["kind"]), axis, tiles.dtype_of(op))


def _softmax(op: Op, a: Numbers) -> Numbers:
    axis: Any = op.attributes["axis"]
    return tiles.softmax(a, axis, tiles.dtype_of(op))


def _dot(op: Op, a: Numbers, b: Numbers, acc: Numbers | None = None) -> Numbers:
    return tiles.dot(a, b, acc, _operand_dtype(op), tiles.dtype_of(op))


PURE: Final[dict[str, Callable[..., Numbers]]] = {
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
}
"""Every operation without effects or regions, but for `id` and `dim`, which ask the launch."""
