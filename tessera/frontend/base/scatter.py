"""Store, or add, into the places that a tile of indices tells: row after row, in the order of the indices.

before: `y[ids, c:c+64] = t`, ids: a tile of 32 indices
after:  `for i in range(32)`: row i of `t` goes to row `ids[i]` of `y`, elements that exist to where there is a place

Later rows find what earlier ones left, so of equal indices the last one wins, and sums have the order of the indices:
the same bits on each target, without atomic operations.  A row and its index are taken out of their tiles by a maximum
over a choice, which is exact: the least value of the type is in place of the other rows.
"""

import numpy as np

from tessera.core.base import dtypes
from tessera.core.base.reductions import identity
from tessera.core.base.source import Span
from tessera.core.program.program import Block, Value
from tessera.core.program.types import Scalar, Tile
from tessera.frontend.base.bindings import Number, Region
from tessera.frontend.base.builder import Builder, dtype_of_value, shape_of


def scatter(builder: Builder, region: Region, value: Value, span: Span, *, add: bool) -> None:
    """Write `value`, of the region's shape and dtype, to a region with a tile of indices; `add`: onto what is there."""
    axis = region.gathered
    assert axis is not None, "a region with a tile of indices"
    ids = region.starts[axis]
    assert isinstance(ids, Value)
    place = axis - sum(dropped < axis for dropped in region.dropped)
    count = region.extents[axis]
    dtype = dtype_of_value(value)
    value = builder.computable(value, span)
    exists = builder.value("valid", (value,), Tile(dtypes.boolean, shape_of(value)), span)
    value = builder.value("fill", (value, builder.constant(0, dtype_of_value(value), span)), value.type, span)
    starts = tuple(s if a == axis else builder.index(s, span) for a, s in enumerate(region.starts))
    zero, one = (builder.constant(number, dtypes.i64, span) for number in (0, 1))
    places = builder.value("arange", (zero,), Tile(dtypes.i64, (count,)), span)
    index = Value(Scalar(dtypes.i64), "", span)
    with builder.block() as ops:
        chosen = builder.compare("eq", places, index, span)
        row = _Row(builder, chosen, place, span)
        number = builder.value("reduce", (row.others(ids, -1, 0),), Scalar(dtypes.i64), span, kind="max", axis=0)
        target = Region(
            region.memory,
            tuple(number if a == axis else s for a, s in enumerate(starts)),
            tuple(1 if a == axis else e for a, e in enumerate(region.extents)),
            region.dropped,
        )
        old = builder.load(target, span)
        new = row.of(value)
        new = builder.value("add", (builder.computable(old, span), new), new.type, span) if add else new
        builder.store(target, builder.select(row.of(exists), builder.cast(new, dtype, span), old, span), span)
        builder.emit("yield", (), (), span)
    bounds = (zero, builder.constant(count, dtypes.i64, span), one)
    builder.emit("for", bounds, (), span, (Block((index,), tuple(ops)),), kind="range", prefetch=0)


class _Row:
    """Takes one row, where the tile of bool `chosen` is true, out of tiles along their axis `place`."""

    def __init__(self, builder: Builder, chosen: object, place: int, span: Span) -> None:
        self.builder = builder
        self.chosen = builder.as_value(chosen, span)
        self.place = place
        self.span = span

    def others(self, tile: Value, number: Number, place: int) -> Value:
        """The tile with `number` in place of all other rows."""
        shape = shape_of(tile)
        line = tuple(e if axis == place else 1 for axis, e in enumerate(shape))
        chosen = self.builder.reshape(self.chosen, line, self.span)
        return self.builder.select(chosen, tile, self.builder.like(number, tile, self.span), self.span)

    def of(self, tile: Value) -> Value:
        """The row, with an extent of 1 along the axis."""
        builder, dtype, shape = self.builder, dtype_of_value(tile), shape_of(tile)
        least = identity("max", np.dtype(dtype.numpy)).item() if not dtype.is_float else float("-inf")
        rest = tuple(e for axis, e in enumerate(shape) if axis != self.place)
        kept = tuple(1 if axis == self.place else e for axis, e in enumerate(shape))
        result = Tile(dtype, rest) if rest else Scalar(dtype)
        masked = self.others(tile, least, self.place)
        found = builder.value("reduce", (masked,), result, self.span, kind="max", axis=self.place)
        return builder.reshape(found, kept, self.span) if rest else builder.broadcast_to(found, kept, self.span)
