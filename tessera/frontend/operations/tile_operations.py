"""Tiles: products, reductions, shapes.

A handler takes the context, the span of the call, and the call's arguments by the names users may write.
"""

import math
from collections.abc import Callable

from tessera.core.base import dtypes
from tessera.core.base.dtypes import COMPUTE_TYPES, ComputeType, DType, promote
from tessera.core.base.source import Span
from tessera.core.errors.catalog import BadAxis, BadReshape, DotShape, MmaOutsideRange, TypeMismatch, WrongArguments
from tessera.core.program.program import Attribute, Value
from tessera.core.program.types import Scalar, Tile
from tessera.frontend.base.bindings import BlockIndex, Region, flatten, items_of
from tessera.frontend.base.builder import dtype_of_value, memory_type, shape_of
from tessera.frontend.base.context import Context
from tessera.frontend.base.describe import describe
from tessera.frontend.language.namespace import dtype_of

Handler = Callable[..., object]


def _tile(context: Context, binding: object, span: Span, what: str) -> Value:
    value = context.builder.as_value(binding, span)
    if not isinstance(value.type, Tile):
        raise TypeMismatch(f"{what} needs a tile, and this is {describe(value)}", span, "load a slice first")
    return value


def axis_of(value: Value, axis: object, context: Context, span: Span) -> int:
    """The number of an axis of a tile, counted from the end where it is negative."""
    if items_of(axis) is not None:
        hint = "reduce one after the other, the last first: tile.sum(tile.sum(x, axis=1), axis=0); without axis=, all"
        raise BadAxis("an axis is one number, and these are several", span, hint)
    number = context.builder.fixed(axis, "the axis", span)
    rank = len(shape_of(value))
    if not -rank <= number < rank:
        raise BadAxis(f"{describe(value)} has no axis {number}", span, f"use {-rank} to {rank - 1}")
    return number % rank


def dot(
    context: Context, span: Span, a: object, b: object, acc: object = None, exact: bool = False, compute: object = None
) -> Value:
    """`tile.dot(a, b)`: f16 and bf16 accumulate in f32, integers in i32, and that is the result's dtype."""
    x, y = _tile(context, a, span, "tile.dot"), _tile(context, b, span, "tile.dot")
    (m, k), (k2, n) = _matrix(x, span), _matrix(y, span)
    if k != k2:
        raise DotShape(
            f"({m}, {k}) times ({k2}, {n})", span, "the first's columns must equal the second's rows; .T transposes"
        )
    dtype = _operand_dtype(dtype_of_value(x), dtype_of_value(y))
    x, y = context.builder.cast(x, dtype, span), context.builder.cast(y, dtype, span)
    attributes: dict[str, Attribute] = {"exact": bool(exact)}
    if compute is not None:
        attributes["compute"] = _compute(compute, dtype, bool(exact), span)
    total = accumulator_dtype(dtype)
    operands = [x, y]
    if acc is not None:
        start = context.builder.as_value(acc, span, total)
        operands.append(context.builder.broadcast_to(start, (m, n), span))
    return context.builder.value("dot", operands, Tile(total, (m, n)), span, **attributes)


def _compute(wanted: object, dtype: DType, exact: bool, span: Span) -> str:
    """The name of what factors of type `dtype` are rounded to before they are multiplied."""
    kind = COMPUTE_TYPES.get(wanted) if isinstance(wanted, str) else wanted
    if not isinstance(kind, ComputeType):
        known = ", ".join(COMPUTE_TYPES)
        raise TypeMismatch(f"{describe(wanted)} is nothing to compute products in", span, f"compute= takes {known}")
    if kind.operand_dtype != dtype:
        raise TypeMismatch(
            f"compute={kind} rounds factors of {kind.operand_dtype}, and these are {dtype}", span,
            f"leave it out: {dtype} is multiplied as it is",
        )  # fmt: skip
    if exact:
        raise WrongArguments(
            f"exact=True does not go with compute={kind}, which rounds the factors", span, "choose one of the two"
        )
    return kind.name


def _operand_dtype(a: DType, b: DType) -> DType:
    """Return the dtype in which two operands are multiplied: any wider one is exact for 8-bit floats, f16 for two."""
    if a != b and a.is_storage and b.is_float:
        return dtypes.f16 if b.is_storage else b
    return a if b.is_storage and a.is_float else promote(a, b)


def accumulator_dtype(dtype: DType) -> DType:
    """Return what products of `dtype` are summed in."""
    if dtype.is_float:
        return dtypes.f64 if dtype == dtypes.f64 else dtypes.f32
    return dtypes.i64 if dtype.bits == 64 else dtypes.i32


def sum_dtype(dtype: DType) -> DType:
    """Return what a sum of `dtype` is: 64 bits for integers and bools, as for NumPy."""
    if dtype.is_float:
        return dtype
    return dtypes.u64 if dtype.kind == "uint" else dtypes.i64


def _matrix(value: Value, span: Span) -> tuple[int, int]:
    shape = shape_of(value)
    if len(shape) != 2:
        raise DotShape(f"{describe(value)} is not a matrix", span, "tile.dot takes two tiles of rank 2")
    return shape[0], shape[1]


def mma(context: Context, span: Span, a: object, b: object, accum: object = None, acc: object = None) -> Value:
    """`tile.mma(sA, sB, accum=f32)` on tiles."""
    result = dot(context, span, a, b, acc)
    dtype = dtype_of(accum) if accum is not None else None
    return context.builder.cast(result, dtype, span) if dtype else result


def mma_sync(context: Context, span: Span, m: object, n: object, k: object) -> None:
    """`tile.mma_sync(m, n, k)`: accumulate A[m, k] times B[k, n]."""
    if not context.mma:
        raise MmaOutsideRange(
            "tile.mma_sync has no blocks here", span, "use it in: for m, n, k in tile.mma(A, B, C, ...)"
        )
    loop = context.mma[-1]
    if not (isinstance(m, BlockIndex) and isinstance(n, BlockIndex) and isinstance(k, BlockIndex)):
        raise WrongArguments("tile.mma_sync takes the blocks of its loop", span, "tile.mma_sync(m, n, k)")
    left = context.builder.load(Region(loop.a, (m.start, k.start), (m.extent, k.extent), ()), span)
    right = context.builder.load(Region(loop.b, (k.start, n.start), (k.extent, n.extent), ()), span)
    context.scope[loop.accumulator] = dot(context, span, left, right, context.scope[loop.accumulator])


def softmax(context: Context, span: Span, x: object, axis: object = -1) -> Value:
    """`tile.softmax(x, axis=-1)`."""
    value = _tile(context, x, span, "tile.softmax")
    if not dtype_of_value(value).is_float:
        value = context.builder.cast(value, dtypes.f32, span)
    value = context.builder.computable(value, span)
    return context.builder.value("softmax", (value,), value.type, span, axis=axis_of(value, axis, context, span))


def relu(context: Context, span: Span, x: object) -> object:
    """`max(x, 0)`."""
    return context.builder.binary("max", x, 0, span)


def reduction_handler(kind: str) -> Handler:
    """The handler of one reduction: sum, max or min."""

    def reduce(context: Context, span: Span, x: object, axis: object = None, keepdims: bool = False) -> Value:
        value = context.builder.as_value(x, span)
        shape = shape_of(value)
        if not shape:
            return value
        value = context.builder.computable(value, span)
        number = None if axis is None else axis_of(value, axis, context, span)
        dtype = dtype_of_value(value)
        if kind == "sum":
            dtype = sum_dtype(dtype)
            value = context.builder.cast(value, dtype, span)
        rest = () if number is None else tuple(e for i, e in enumerate(shape) if i != number)
        result = Tile(dtype, rest) if rest else Scalar(dtype)
        made = context.builder.value("reduce", (value,), result, span, kind=kind, axis=number)
        if not keepdims:
            return made
        kept = tuple(1 if number in (None, i) else e for i, e in enumerate(shape))
        return context.builder.reshape(made, kept, span) if rest else context.builder.broadcast_to(made, kept, span)

    reduce.__doc__ = f"`tile.{kind}(x, axis=None, keepdims=False)`."
    return reduce


def maximum(context: Context, span: Span, a: object, b: object) -> object:
    """Element-wise maximum."""
    return context.builder.binary("max", a, b, span)


def minimum(context: Context, span: Span, a: object, b: object) -> object:
    """Element-wise minimum."""
    return context.builder.binary("min", a, b, span)


def mulhi(context: Context, span: Span, a: object, b: object) -> object:
    """The upper half of the product of two integers."""
    return context.builder.binary("mulhi", a, b, span)


def where(context: Context, span: Span, condition: object, a: object, b: object) -> Value:
    """`a` where `condition`, else `b`."""
    return context.builder.select(condition, a, b, span)


def valid(context: Context, span: Span, x: object) -> Value:
    """`tile.valid(x)`: which elements of a tile exist."""
    value = _tile(context, x, span, "tile.valid")
    return context.builder.value("valid", (value,), Tile(dtypes.boolean, shape_of(value)), span)


def fill(context: Context, span: Span, x: object, value: object) -> Value:
    """`tile.fill(x, v)`: v in place of the elements that do not exist."""
    operand = _tile(context, x, span, "tile.fill")
    return context.builder.fill(operand, value, span)


def fma(context: Context, span: Span, a: object, b: object, c: object) -> Value:
    """`a * b + c`, rounded once."""
    return context.builder.fma(a, b, c, span)


def transpose(context: Context, span: Span, x: object, *axes: object) -> Value:
    """`tile.transpose(x)` reverses the axes; with axes given, permutes them."""
    value = _tile(context, x, span, "tile.transpose")
    rank = len(shape_of(value))
    order = tuple(axis_of(value, a, context, span) for a in flatten(axes)) or tuple(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise BadAxis(f"{order} does not name each of {rank} axes once", span)
    shape = tuple(shape_of(value)[a] for a in order)
    return context.builder.value("transpose", (value,), Tile(dtype_of_value(value), shape), span, permutation=order)


def reshape(context: Context, span: Span, x: object, *shape: object) -> Value:
    """`tile.reshape(x, shape)`; one extent may be -1."""
    value = _tile(context, x, span, "tile.reshape")
    extents = [context.builder.fixed(e, "a shape", span) for e in flatten(shape)]
    count = math.prod(shape_of(value))
    if extents.count(-1) == 1:
        known = -math.prod(extents)
        extents[extents.index(-1)] = count // known if known else 0
    if math.prod(extents) != count or not extents or min(extents) < 0:
        raise BadReshape(f"{describe(value)} has {count} elements, {tuple(extents)} has not", span)
    return context.builder.reshape(value, tuple(extents), span)


def broadcast(context: Context, span: Span, x: object, *shape: object) -> Value:
    """`tile.broadcast(x, shape)`."""
    extents = tuple(context.builder.fixed(e, "a shape", span) for e in flatten(shape))
    return context.builder.broadcast_to(context.builder.as_value(x, span), extents, span)


def arange(context: Context, span: Span, start: object, stop: object = None) -> Value:
    """`tile.arange(n)` or `tile.arange(start, start + n)`, as i64."""
    builder = context.builder
    first, last = (0, start) if stop is None else (start, stop)
    low, high = builder.index(first, span), builder.index(last, span)
    symbols, count = builder.affine.symbols_of(*builder.affine.difference(high, low))
    if symbols:
        builder.knowledge.fix(symbols[0])
    if symbols is None or count < 0:
        raise WrongArguments(
            "the number of elements must be a constant, and not negative",
            span,
            "tile.arange(start, start + 128)",
        )
    return builder.value("arange", (low,), Tile(dtypes.i64, (count,)), span)


def full(context: Context, span: Span, shape: object, value: object, dtype: object = None) -> Value:
    """`tile.full(shape, value, dtype=f32)`."""
    extents = tuple(context.builder.fixed(e, "a shape", span) for e in flatten((shape,)))
    made = context.builder.as_value(value, span, dtype_of(dtype) if dtype is not None else None)
    if not extents or min(extents) < 0:
        raise WrongArguments(f"a tile of shape {extents}", span, "no extent is negative")
    return context.builder.broadcast_to(made, extents, span)


def zeros(context: Context, span: Span, shape: object, dtype: object = dtypes.f32) -> Value:
    """`tile.zeros(shape, dtype=f32)`."""
    return full(context, span, shape, 0, dtype)


def cast(context: Context, span: Span, x: object, dtype: object) -> Value:
    """`tile.cast(x, f16)`."""
    wanted = dtype_of(dtype)
    if wanted is None:
        raise TypeMismatch(f"{describe(dtype)} is not a dtype", span, "tile.cast(x, f16)")
    value = context.builder.operand(x, span)
    return context.builder.as_value(value, span, wanted)


def unary_handler(opcode: str) -> Handler:
    """The handler of one element-wise operation."""

    def apply(context: Context, span: Span, x: object) -> object:
        return context.builder.unary(opcode, x, span)

    apply.__doc__ = f"Element-wise `{opcode}`."
    return apply


def accumulate_zero(context: Context, a: Value, b: Value, shape: tuple[int, int], span: Span) -> Value:
    """A tile of zeros to accumulate products of two arrays in."""
    dtype = accumulator_dtype(promote(memory_type(a).dtype, memory_type(b).dtype))
    return context.builder.broadcast_to(context.builder.constant(0, dtype, span), shape, span)
