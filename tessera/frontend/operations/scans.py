"""`tile.cumsum`, `tile.cummax` and `tile.cummin`: running sums and extremes along an axis, made of reductions.

before: `tile.cumsum(x, axis=0)`, x: a tile of 64
after:  4 blocks of 16: in each, element i is the sum of a row of the 16 x 16 choice `x[j] where j <= i`; then the
        running sums of the blocks' totals (each without its own) are added

So the association is fixed by the extent (`core/base/reductions.py` says which), and is that of every target.
"""

from collections.abc import Callable

import numpy as np

from tessera.core.base import dtypes
from tessera.core.base.reductions import identity, scan_block
from tessera.core.base.source import Span
from tessera.core.program.program import Value
from tessera.core.program.types import Scalar, Tile
from tessera.frontend.base.builder import Builder, dtype_of_value, shape_of
from tessera.frontend.base.context import Context
from tessera.frontend.operations.tile_operations import axis_of, sum_dtype

Handler = Callable[..., object]
_COMBINE = {"sum": "add", "max": "max", "min": "min"}


def scan_handler(kind: str) -> Handler:
    """The handler of one scan, by its reduction: "sum", "max" or "min"."""

    def scan(context: Context, span: Span, x: object, axis: object = -1) -> Value:
        builder = context.builder
        value = builder.computable(builder.as_value(x, span), span)
        shape, dtype = shape_of(value), dtype_of_value(value)
        if not shape:
            return value
        number = axis_of(value, axis, context, span)
        wide = dtypes.f32 if dtype.is_float and dtype.bits < dtypes.f32.bits else dtype
        wide = sum_dtype(dtype) if kind == "sum" and not dtype.is_float else wide
        numbers = builder.cast(value, wide, span)
        least = identity(kind, np.dtype(wide.numpy)).item() if not wide.is_float else _real_identity(kind)
        whole = builder.value("fill", (numbers, builder.constant(least, wide, span)), numbers.type, span)
        order = (*(a for a in range(len(shape)) if a != number), number)
        back = tuple(order.index(a) for a in range(len(shape)))
        scanned = _Scan(builder, kind, least, span).along_last(_turned(builder, whole, order, span), 0)
        scanned = _turned(builder, scanned, back, span)
        scanned = builder.cast(scanned, dtype if dtype.is_float else wide, span)
        # What exists of the operand exists of the result: a choice exists where its condition does.
        compared = builder.value("cmp", (value, value), Tile(dtypes.boolean, shape), span, predicate="eq")
        return builder.value("select", (compared, scanned, scanned), scanned.type, span)

    scan.__doc__ = f"`tile.cum{kind}(x, axis=-1)`."
    return scan


def _real_identity(kind: str) -> float:
    return {"sum": -0.0, "max": float("-inf"), "min": float("inf")}[kind]


def _turned(builder: Builder, value: Value, order: tuple[int, ...], span: Span) -> Value:
    if order == tuple(range(len(order))):
        return value
    shape = tuple(shape_of(value)[a] for a in order)
    return builder.value("transpose", (value,), Tile(dtype_of_value(value), shape), span, permutation=order)


class _Scan:
    """Scans tiles of one element type, of which everything exists, along their last axis."""

    def __init__(self, builder: Builder, kind: str, least: float, span: Span) -> None:
        self.builder = builder
        self.kind = kind
        self.least = least
        self.span = span

    def along_last(self, value: Value, left_out: int) -> Value:
        """Element i is made of the elements up to i, without the last `left_out` of these."""
        builder, span = self.builder, self.span
        *rest, extent = shape_of(value)
        block = scan_block(extent)
        shape = (*rest, extent // block, block)
        table = builder.reshape(value, shape, span)
        found = self._reduced(self._triangle(table, left_out))
        if block < extent:
            before = self.along_last(self._reduced(table), 1)
            spread = builder.broadcast_to(builder.reshape(before, (*shape[:-1], 1), span), shape, span)
            found = builder.value(_COMBINE[self.kind], (spread, found), found.type, span)
        return builder.reshape(found, (*rest, extent), span)

    def _triangle(self, table: Value, left_out: int) -> Value:
        """Repeat each row of a table, and keep in repetition i the elements up to i."""
        builder, span = self.builder, self.span
        *rest, block = shape_of(table)
        shape = (*rest, block, block)
        ones = (1,) * len(rest)
        counted = builder.value("arange", (builder.constant(0, dtypes.i64, span),), Tile(dtypes.i64, (block,)), span)
        rows = builder.broadcast_to(builder.reshape(counted, (*ones, block, 1), span), shape, span)
        columns = builder.reshape(counted, (*ones, 1, block), span)
        if left_out:
            columns = builder.value("add", (columns, builder.like(left_out, columns, span)), columns.type, span)
        columns = builder.broadcast_to(columns, shape, span)
        kept = builder.value("cmp", (rows, columns), Tile(dtypes.boolean, shape), span, predicate="ge")
        repeated = builder.broadcast_to(builder.reshape(table, (*rest, 1, block), span), shape, span)
        return builder.value("select", (kept, repeated, builder.like(self.least, repeated, span)), repeated.type, span)

    def _reduced(self, table: Value) -> Value:
        *rest, _ = shape_of(table)
        dtype = dtype_of_value(table)
        result = Tile(dtype, tuple(rest)) if rest else Scalar(dtype)
        return self.builder.value("reduce", (table,), result, self.span, kind=self.kind, axis=len(rest))
