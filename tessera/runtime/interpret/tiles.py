"""Tile operations of `core/program/spec.py` in NumPy: a tile is a plain array of the tile's shape."""

import numpy as np

from tessera.core.base.dtypes import DType, f16, f32, f64
from tessera.core.base.reductions import identity, tree_sum
from tessera.core.program.program import Op
from tessera.core.program.types import Scalar, Tile
from tessera.runtime.interpret.arithmetic import cast, widen
from tessera.runtime.interpret.rounding import Numbers, fma, to_dtype, to_tf32

# Products of two 16-bit floats are exact in f32 while they stay in this range (they have at most 22 bits).
_EXACT_LEAST = 2.0**-126
_EXACT_MOST = 2.0**126


def reduce(values: Numbers, kind: str, axis: int | None, dtype: DType) -> Numbers:
    """Reduce along `axis` (all in row-major order when None), in f32 for 16-bit floats, rounded once to `dtype`."""
    values = widen(values if dtype.is_float else values.astype(dtype.numpy))
    if axis is None:
        values, axis = values.reshape(-1), 0
    if kind == "sum":
        return cast(tree_sum(values, axis), dtype)
    extreme = np.maximum if kind == "max" else np.minimum
    result = extreme.reduce(values, axis=axis, initial=identity(kind, values.dtype)[()])
    if dtype.is_float:
        # Of zeros the greatest is +0 and the least -0; NumPy leaves that to the processor.
        wanted = np.any((values == 0) & (np.signbit(values) == (kind == "min")), axis=axis)
        result = np.where(result == 0, np.where(wanted == (kind == "max"), 0.0, -0.0).astype(values.dtype), result)
    return cast(result, dtype)


def softmax(values: Numbers, axis: int, dtype: DType) -> Numbers:
    """Return e * (1 / sum(e)) with e = exp(x - max), computed in f32 (f64 for f64) and rounded once to `dtype`."""
    working = f64 if dtype == f64 else f32
    values = widen(values)
    shifted = values - np.max(values, axis=axis, keepdims=True, initial=-np.inf)
    powers = to_dtype(np.exp(shifted.astype(np.float64)), working)
    inverse = np.reciprocal(np.expand_dims(tree_sum(powers, axis), axis))
    return to_dtype(powers * inverse, dtype)


def dot(
    a: Numbers, b: Numbers, acc: Numbers | None = None, *, operand: DType, result: DType, compute: str = ""
) -> Numbers:
    """Return `acc` + a @ b: over K in order, one fused multiply-add a step.

    a: (M, K), b: (K, N), both of type `operand`; acc: (M, N) of type `result`.  Accumulates in f32 (f64 for f64; the
    result's type for integers) and rounds once to `result`.
    compute: "tf32" for factors that are rounded to that first
    """
    if compute:
        a, b = to_tf32(a), to_tf32(b)
    working = result if operand.is_integer else f64 if operand == f64 else f32
    total = np.zeros((a.shape[0], b.shape[1]), working.numpy) if acc is None else cast(acc, working)
    if operand.bits <= f16.bits and operand.is_float:
        a, b = widen(a), widen(b)
    # An exact product makes the sum the only rounding.
    exact = operand.is_integer or (operand.bits <= f16.bits and _products_exact(a, b))
    a, b = a.astype(working.numpy), b.astype(working.numpy)
    for k in range(a.shape[1]):
        left, right = a[:, k, None], b[None, k, :]
        total = total + left * right if exact else fma(left, right, total, working)
    return cast(total, result)


def _products_exact(a: Numbers, b: Numbers) -> bool:
    sizes = [np.abs(x[(x != 0) & np.isfinite(x)]) for x in (a, b)]
    if not all(size.size for size in sizes):
        return True
    least, most = (float(f(sizes[0])) * float(f(sizes[1])) for f in (np.min, np.max))
    return least >= _EXACT_LEAST and most <= _EXACT_MOST


def shape_of(op: Op) -> tuple[int, ...]:
    """Return the shape of the operation's tile result."""
    kind = op.result.type
    return kind.shape if isinstance(kind, Tile) else ()


def dtype_of(op: Op) -> DType:
    """Return the element type of the operation's result."""
    kind = op.result.type
    if not isinstance(kind, Scalar | Tile):
        raise TypeError(f"the result of {op.opcode} has no element type")
    return kind.dtype
