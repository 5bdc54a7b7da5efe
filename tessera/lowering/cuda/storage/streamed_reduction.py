"""Reduce tiles while they are read, 128 rows at a time, so that they are never in registers as a whole.

That is the association of `core/base/reductions.py`: a column of a block of 4096 adds every 128th element in order,
which is one accumulator; the columns are then added by halving, and the blocks pairwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.base.reductions import BLOCK, COLUMNS
from tessera.core.layouts import Layout
from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.tile.schedule_attributes import own_attributes
from tessera.lowering.base.ir_walk import defining, is_tile
from tessera.lowering.cuda.base.scalars import scalar_operation
from tessera.lowering.cuda.simt.reductions import Rule
from tessera.lowering.cuda.storage.emit_context import WindowContext
from tessera.lowering.cuda.storage.global_access import Window, load_tile
from tessera.lowering.cuda.storage.reductions import halved
from tessera.lowering.cuda.storage.register_tiles import RegisterTile
from tessera.lowering.cuda.storage.warps import ROLLED

_TOGETHER: Final = 2
"""Steps that are read before their first element is added: two keep memory busy."""


@dataclass(frozen=True, eq=False)
class StreamedTile:
    """A reduction along `axis`, not the last, of what `load` reads and `casts` convert for it alone."""

    load: AnyOp
    casts: tuple[AnyOp, ...]
    axis: int

    def shape(self) -> tuple[int, ...]:
        """Return the extents of the part that is in registers at a time."""
        extents = tuple(ir.ShapedType(self.load.results[0].type).shape)
        return (*extents[: self.axis], COLUMNS, *extents[self.axis + 1 :])


def find_streams(operations: list[AnyOp], unchanged: Callable[[AnyOp], bool]) -> dict[AnyOp, StreamedTile]:
    """Find the reductions that can be streamed, by operation; `unchanged(load)`: its array is not written."""
    found: dict[AnyOp, StreamedTile] = {}
    for op in operations:
        if op.name == "tessera.reduce" and "axis" in op.attributes:
            stream = stream_of(op)
            if stream is not None and unchanged(stream.load):
                found[op] = stream
    return found


def stream_of(op: AnyOp) -> StreamedTile | None:
    """Return how a reduction along an axis can be streamed; None where its tile is needed as a whole."""
    axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
    shape = ir.ShapedType(op.operands[0].type).shape
    if axis == len(shape) - 1 or shape[axis] <= COLUMNS or not is_tile(op.results[0].type):
        return None
    casts: list[AnyOp] = []
    value = op.operands[0]
    while (source := defining(value)) is not None and len(list(value.uses)) == 1:
        if source.block != op.operation.block:
            return None
        if source.name == "tessera.load":
            return StreamedTile(source, tuple(reversed(casts)), axis)
        if not source.name.startswith("arith.") or len(source.operands) != 1:
            return None
        casts.append(source)
        value = source.operands[0]
    return None


def reduce_stream(host: WindowContext, stream: StreamedTile, rule: Rule, layout: Layout) -> RegisterTile:
    """Emit the reduction, with extent 1 along the axis; `layout` is that of 128 rows."""
    memory, *starts = stream.load.operands
    window = host.window(stream.load, memory, starts, stream.shape())
    length = ir.ShapedType(stream.load.results[0].type).shape[stream.axis]
    results: list[RegisterTile] = []
    for first in range(0, length, BLOCK):
        added = _block(host, stream, rule, layout, window, first, min(length, first + BLOCK))
        results.append(halved(host, added, rule, stream.axis))
    while len(results) > 1:
        pairs = [_combined(host, rule, *results[n : n + 2]) for n in range(0, len(results) - 1, 2)]
        results = pairs + results[2 * len(pairs) :]
    values = tuple(rule.narrow(host.build, value) for value in results[0].values)
    return RegisterTile(results[0].layout, rule.element, values)


def _combined(host: WindowContext, rule: Rule, a: RegisterTile, b: RegisterTile) -> RegisterTile:
    values = tuple(rule.combine(host.build, x, y) for x, y in zip(a.values, b.values, strict=True))
    return RegisterTile(a.layout, a.element, values)


def _block(
    host: WindowContext, stream: StreamedTile, rule: Rule, layout: Layout, window: Window, first: int, end: int
) -> RegisterTile:  # fmt: skip
    """Add the rows from `first` to `end`, at most 4096, into 128 partial results."""
    build = host.build
    identity = rule.identity(build)
    pieces = -(-(end - first) // COLUMNS)
    together = min(_TOGETHER, pieces)
    whole = (end - first) % (COLUMNS * together) == 0

    def step(row: Index, partials: list[ir.Value]) -> Sequence[ir.Value]:
        rows = [build.add(row, number * COLUMNS) for number in range(together)]
        read = [_rows(host, stream, rule, layout, window, start, None if whole else end) for start in rows]
        for values in read:
            partials = [rule.combine(build, total, value) for total, value in zip(partials, values, strict=True)]
        return partials

    partials = build.loop(first, end, COLUMNS * together, [identity] * layout.count, step, ROLLED)
    return RegisterTile(layout, rule.wide, tuple(partials))


def _rows(
    host: WindowContext, stream: StreamedTile, rule: Rule, layout: Layout, window: Window, row: Index, end: int | None
) -> list[ir.Value]:  # fmt: skip
    """Load 128 rows from `row` on as partial results; rows from `end` on are the identity."""
    build, kind = host.build, ir.ShapedType(stream.load.results[0].type)
    kept = [axis for axis in range(len(window.starts)) if axis not in window.dropped]
    starts = list(window.starts)
    starts[kept[stream.axis]] = build.add(starts[kept[stream.axis]], row)
    left = None if end is None else (stream.axis, build.sub(end, row))
    tile = load_tile(
        build, host.warp_set, replace(window, starts=tuple(starts), left=left), layout, str(kind.element_type)
    )
    values = list(tile.values)
    for op in stream.casts:
        attributes = own_attributes(op)
        element = str(ir.ShapedType(op.results[0].type).element_type)
        values = [scalar_operation(build, str(op.name), [value], element, attributes) for value in values]
    values = [rule.widen(build, value) for value in values]
    if left is None:
        return values
    places, identity = host.warp_set.places(layout), rule.identity(build)
    return [
        build.select(build.compare("slt", places.indices(register)[stream.axis], left[1]), value, identity)
        for register, value in enumerate(values)
    ]
