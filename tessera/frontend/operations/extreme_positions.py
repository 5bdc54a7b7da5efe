"""`tile.argmax` and `tile.argmin`: where along an axis the extreme element is, made of reductions.

before: `tile.argmax(x, axis=1)`
after:  `tile.min(tile.where(x == top, columns, ...), axis=1)`, where `top` is the maximum of the row and elements that
        are not chosen do not take part; NaN is the extreme where there is one, as in NumPy

So every target gives the same positions, leaves out what is absent, and schedules what it knows.
"""

from collections.abc import Callable
from math import prod

from tessera.core.base import dtypes
from tessera.core.base.source import Span
from tessera.core.program.program import Value
from tessera.core.program.types import Scalar, Tile
from tessera.frontend.base.builder import Builder, dtype_of_value, shape_of
from tessera.frontend.base.context import Context
from tessera.frontend.operations.tile_operations import axis_of

Handler = Callable[..., object]


def position_handler(kind: str) -> Handler:
    """The handler of argmax or argmin, by the reduction that finds the extreme: "max" or "min"."""

    def position(context: Context, span: Span, x: object, axis: object = None, keepdims: bool = False) -> Value:
        builder = context.builder
        value = builder.computable(builder.as_value(x, span), span)
        shape = shape_of(value)
        if not shape:
            return builder.constant(0, dtypes.i64, span)
        number = None if axis is None else axis_of(value, axis, context, span)
        if number is None:
            found = _along(builder, kind, builder.reshape(value, (prod(shape),), span), 0, span)
        else:
            found = _along(builder, kind, value, number, span)
        if not keepdims:
            return found
        kept = tuple(1 if number in (None, i) else extent for i, extent in enumerate(shape))
        return builder.reshape(found, kept, span) if shape_of(found) else builder.broadcast_to(found, kept, span)

    position.__doc__ = f"`tile.arg{kind}(x, axis=None, keepdims=False)`."
    return position


def _along(builder: Builder, kind: str, value: Value, axis: int, span: Span) -> Value:
    """The position of the first extreme element along an axis, as i64; 0 where no element exists."""
    shape, dtype = shape_of(value), dtype_of_value(value)
    extent = shape[axis]
    kept = tuple(1 if i == axis else e for i, e in enumerate(shape))

    def reduced(reduction: str, tile: Value) -> Value:
        rest = tuple(e for i, e in enumerate(shape) if i != axis)
        element = dtype_of_value(tile)
        result = Tile(element, rest) if rest else Scalar(element)
        return builder.value("reduce", (tile,), result, span, kind=reduction, axis=axis)

    extreme = reduced(kind, value)
    top = builder.reshape(extreme, kept, span) if shape_of(extreme) else extreme
    top = builder.broadcast_to(top, shape, span)
    truth = Tile(dtypes.boolean, shape)
    best = builder.value("cmp", (value, top), truth, span, predicate="eq")
    if dtype.is_float:  # the extreme is NaN then, which equals nothing
        nan = builder.value("cmp", (value, value), truth, span, predicate="ne")
        best = builder.value("or", (best, nan), truth, span)
    counted = builder.value("arange", (builder.constant(0, dtypes.i64, span),), Tile(dtypes.i64, (extent,)), span)
    places = builder.cast(counted, dtypes.i32, span)
    line = tuple(e if i == axis else 1 for i, e in enumerate(shape))
    places = builder.broadcast_to(builder.reshape(places, line, span), shape, span)
    nowhere = builder.like(extent, places, span)
    first = reduced("min", builder.value("select", (best, places, nowhere), places.type, span))
    # Where nothing exists the minimum is the largest number of all.
    exists = builder.value("cmp", (first, builder.like(extent, first, span)), _bool_like(first), span, predicate="lt")
    found = builder.value("select", (exists, first, builder.like(0, first, span)), first.type, span)
    return builder.cast(found, dtypes.i64, span)


def _bool_like(value: Value) -> Tile | Scalar:
    shape = shape_of(value)
    return Tile(dtypes.boolean, shape) if shape else Scalar(dtypes.boolean)
