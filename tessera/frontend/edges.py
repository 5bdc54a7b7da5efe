"""Reductions at the edge of an array: elements outside count as the reduction's identity, not as 0."""

import math

from tessera.core import dtypes
from tessera.core.program.program import Value
from tessera.core.program.types import Tile
from tessera.core.reductions import identity
from tessera.core.source import Span
from tessera.frontend.bindings import Number, Region
from tessera.frontend.builder import Builder, memory_type, shape_of
from tessera.frontend.memory import extent_value


def without_outside(builder: Builder, value: Value, kind: str, axis: int | None, span: Span) -> Value:
    """`value` with the identity of `kind` ("max" or "min") where it was loaded from outside its array.

    before: ``%t = load %x[%s:+128]``
    after:  ``%i = arange %s``, ``%inside = cmp lt %i, %n``, ``%u = select %inside, %t, -inf``
    Only along the reduced axis (None: every one), and only where a block can reach past the end: a tile that was
    computed, or that takes a whole axis, comes back as it is.
    """
    region = builder.regions.get(value)
    if region is None:
        return value
    kept = [a for a in range(len(region.extents)) if a not in region.dropped]
    for position, array_axis in enumerate(kept):
        if axis in (None, position) and _may_leave(region, array_axis):
            inside = _inside(builder, region, array_axis, span)
            shape = tuple(e if i == position else 1 for i, e in enumerate(shape_of(value)))
            value = builder.select(builder.reshape(inside, shape, span), value, _identity(kind, value), span)
    return value


def _may_leave(region: Region, axis: int) -> bool:
    extent, start = memory_type(region.memory).shape[axis], region.starts[axis]
    if isinstance(extent, int) and isinstance(start, int):
        return start < 0 or start + region.extents[axis] > extent
    return True


def _inside(builder: Builder, region: Region, axis: int, span: Span) -> Value:
    start = builder.index(region.starts[axis], span)
    indices = builder.value("arange", (start,), Tile(dtypes.i64, (region.extents[axis],)), span)
    extent = extent_value(builder, memory_type(region.memory).shape[axis], span)
    return builder.as_value(builder.compare("lt", indices, extent, span), span)


def _identity(kind: str, value: Value) -> Number:
    dtype = value.type.dtype
    number = identity(kind, dtype.numpy).item()
    if dtype.is_float:
        return -math.inf if kind == "max" else math.inf
    return bool(number) if dtype.kind == "bool" else int(number)
