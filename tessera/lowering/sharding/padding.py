"""Keep what uneven shards are padded by out of results: pad and trim around collectives, mask before reductions.

    x[10@tp] over 4 devices: 3 rows each, of which the last device has 1; s = sum(x)
    r = iota(3) < 10 - 3 p; s = all_reduce sum over tp (reduce sum (select(r, x, -0.0)))

p is a device's place along tp: a slice of 0, 1, 2, 3.  Rows past the end hold anything, NaNs too: they are chosen away,
never multiplied.  In their place is the reduction's neutral element, -0.0 in a sum, so a sum of -0.0 stays that.
"""

from collections.abc import Sequence
from typing import Final

from tessera.core.base.dtypes import DType, boolean, i64
from tessera.core.base.reductions import identity
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, Number, apply
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.core.placement.mesh import Mesh
from tessera.lowering.sharding.placements import Axes, local_rows
from tessera.lowering.sharding.steps import SLICE

NO_ROW: Final = -1
"""An index of no row: a gather has 0 there, and a sum by index drops it."""


def place_along(builder: GraphBuilder, axes: Axes, parts: int) -> Value:
    """Return a device's place along axes of the mesh that have so many `parts`, one number."""
    numbers = builder.iota(parts)
    mine = builder.add("collective", [numbers], None, "", kind=SLICE, axes=axes, parts=parts, reduction="", cut=0)
    return builder.reshape(mine, ())


def rows_left(builder: GraphBuilder, place: Value, rows: int, extent: int) -> Value:
    """Return how many of `extent` rows there are from a device's first one on, each device having so many `rows`."""
    before = apply("mul", Argument(0, i64), Literal(rows, i64))
    return builder.elementwise(apply("sub", Literal(extent, i64), before), [place])


def within(builder: GraphBuilder, rows: int, left: Value) -> Value:
    """Return for each of a device's rows whether it is one of those that are left."""
    body = apply("cmp", Argument(0, i64), Argument(1, i64), predicate="lt")
    return builder.map(body, [builder.iota(rows), left], [(0,), ()], (rows,))


def masked(
    builder: GraphBuilder, value: Value, holds: Value, dims: Sequence[int], otherwise: Number, name: str = ""
) -> Value:
    """Return a value where `holds`, whose axes are `dims` of it, and a number elsewhere."""
    dtype, rank = value.type.dtype, len(value.type.shape)
    body = apply("select", Argument(1, boolean), Argument(0, dtype), Literal(otherwise, dtype))
    return builder.map(body, [value, holds], [range(rank), dims], value.type.shape, name)


def neutral(kind: str, dtype: DType) -> Number:
    """Return what changes nothing in a reduction: -0.0 or 0 in a sum, the least or the greatest number."""
    found: Number = identity(kind, dtype.numpy).item()
    return found


def resized(builder: GraphBuilder, value: Value, dim: int, rows: int) -> Value:
    """Return a value with its first `rows` rows along one axis; there is 0 behind its end."""
    shape = value.type.shape
    if shape[dim] == rows:
        return value
    axes = tuple(Affine(0, (Term(axis),)) for axis in range(len(shape)))
    return builder.view(value, IndexMap((*shape[:dim], rows, *shape[dim + 1 :]), axes, padded=rows > shape[dim]))


def lengths(extent: int, parts: int) -> str:
    """Say how long shards are that differ in length."""
    rows = local_rows(extent, parts)
    full, last = divmod(extent, rows)
    shorter = f", then {last:,}" if last else ""
    empty = parts - full - (last > 0)
    return f"{extent:,} over {parts}: {full} of {rows:,}{shorter}{f', {empty} without any' if empty else ''}"


def nested(extent: int, one: Axes, other: Axes, mesh: Mesh) -> bool:
    """Return whether shards of an axis that is cut in one of two ways are made of whole shards of the other way.

    5 rows over dp = 2 begin at 0 and 3, over dp * tp = 4 at 0, 2 and 4: not nested.  What is whole holds all shards.
    """
    coarse, fine = sorted((one, other), key=len)
    if fine[: len(coarse)] != coarse:
        return extent % mesh.size(one) == 0 and extent % mesh.size(other) == 0
    inner = mesh.size(fine) // mesh.size(coarse)
    rows = local_rows(extent, mesh.size(coarse))
    return rows == extent or local_rows(extent, mesh.size(fine)) * inner == rows
