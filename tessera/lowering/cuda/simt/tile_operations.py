"""Lower tile operations one by one: computed where they are used, or kept in memory where that pays."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.base.attributes import dropped_axes, named_axis, proven_axes
from tessera.lowering.base.ir_walk import is_tile
from tessera.lowering.cuda.base.cache_hints import cache_of
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.memory import GlobalMemory, read, split, write
from tessera.lowering.cuda.base.scalars import scalar_operation
from tessera.lowering.cuda.simt.buffer_lifetimes import BufferLifetimes
from tessera.lowering.cuda.simt.dot import DotProduct, dot_tile
from tessera.lowering.cuda.simt.reductions import Rule, reduce_tile
from tessera.lowering.cuda.simt.synchronization import Sync
from tessera.lowering.cuda.simt.tile_values import NOTHING, Buffer, Meaning, TileBuffers, TileValue

_CHEAP: Final = 4
"""An element that costs more than this many instructions is kept when it is needed more than once."""
_COSTS: Final = {"arith.divf": 8, "math.sqrt": 8}
_FUNCTION_COST: Final = 16


class SimtTileContext(Protocol):
    """Declare what tile operations need of the lowering."""

    build: IndexBuilder
    tiles: TileBuffers
    sync: Sync
    lifetimes: BufferLifetimes

    def scalar(self, value: ir.Value) -> Index:
        """Return the target scalar of a Tile IR scalar."""
        ...

    def tile(self, value: ir.Value) -> TileValue:
        """Return the tile of a Tile IR tile."""
        ...

    def memory(self, value: ir.Value) -> GlobalMemory:
        """Return the array or buffer behind a Tile IR memref."""
        ...

    def memory_classes(self, value: ir.Value) -> frozenset[int]:
        """Return the class of a memref, if the kernel writes it: other memory cannot change."""
        ...

    def define(self, value: ir.Value, meaning: Meaning) -> None:
        """Record what a Tile IR value has become."""
        ...

    def unsigned(self, op: AnyOp) -> bool:
        """Return whether the operands of `op` are unsigned integers in the Program."""
        ...


def tile_operation(host: SimtTileContext, op: AnyOp) -> None:
    """Lower an operation with a tile among its operands or results.

    Raises:
        NotOnCuda: there is no code for it.
    """
    name = str(op.name)
    special = _SPECIAL.get(name)
    if special is not None:
        special(host, op)
    elif name.startswith(("arith.", "math.")):
        _elementwise(host, op)
    else:
        message = f"the CUDA target has no code for {name}"
        raise NotOnCuda(message)


def shape_of(kind: ir.Type) -> tuple[int, ...]:
    """Return the extents of a tile's type."""
    return tuple(ir.ShapedType(kind).shape)


def element_of(kind: ir.Type) -> str:
    """Return the text of the element type of a tile's type."""
    return str(ir.ShapedType(kind).element_type)


def _keep(host: SimtTileContext, op: AnyOp, tile: TileValue, *, must: bool = False) -> None:
    """Define the result of `op` as `tile`: as a rule, or in memory if that pays or `must` be."""
    result = op.results[0]
    repeated = tile.cost > _CHEAP and host.lifetimes.uses(result) > 1
    if must or repeated:
        buffer = host.tiles.buffer(tile.shape, tile.element, optional=not must)
        if buffer is not None:
            host.tiles.fill(buffer, tile)
            hold(host, op, buffer)
            return
    host.define(result, tile)


def hold(host: SimtTileContext, op: AnyOp, buffer: Buffer) -> None:
    """Define the result of `op` as the contents of `buffer`, which is freed after its last use."""
    host.define(op.results[0], host.tiles.value(buffer))
    host.lifetimes.free_after(op.results[0], buffer)


# -- rules -------------------------------------------------------------------------------------------------------


def _elementwise(host: SimtTileContext, op: AnyOp) -> None:
    kind = op.results[0].type
    name, element = str(op.name), element_of(kind)
    if name == "arith.constant":
        splat = {"value": ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()}
        rule = TileValue(shape_of(kind), element, lambda _: host.build.value("arith.constant", [], element, splat))
        host.define(op.results[0], rule)
        return
    operands = [host.tile(v) if is_tile(v.type) else host.build.index(host.scalar(v)) for v in op.operands]
    tiles = [v for v in operands if isinstance(v, TileValue)]
    attributes = {key: op.attributes[key] for key in op.attributes}
    location = op.location

    def at(indices: Sequence[Index]) -> ir.Value:
        values = [v.at(indices) if isinstance(v, TileValue) else v for v in operands]
        with host.build.located(location):
            return scalar_operation(host.build, name, values, element, attributes)

    own_cost = _COSTS.get(name, _FUNCTION_COST if name.startswith("math.") else 1)
    cost = own_cost + sum(tile.cost for tile in tiles)
    _keep(host, op, TileValue(shape_of(kind), element, at, _all(tiles, "reads"), _all(tiles, "own"), cost))


def _splat(host: SimtTileContext, op: AnyOp) -> None:
    value, kind = host.build.index(host.scalar(op.operands[0])), op.results[0].type
    host.define(op.results[0], TileValue(shape_of(kind), element_of(kind), lambda _: value))


def _arange(host: SimtTileContext, op: AnyOp) -> None:
    start, kind = host.scalar(op.operands[0]), op.results[0].type

    def at(indices: Sequence[Index]) -> ir.Value:
        return host.build.index(host.build.add(start, indices[0]))

    host.define(op.results[0], TileValue(shape_of(kind), element_of(kind), at))


def _broadcast(host: SimtTileContext, op: AnyOp) -> None:
    source, shape = _source(host, op), shape_of(op.results[0].type)
    repeated = [before != after for before, after in zip(source.shape, shape, strict=True)]

    def at(indices: Sequence[Index]) -> ir.Value:
        return source.at([0 if same else index for same, index in zip(repeated, indices, strict=True)])

    host.define(op.results[0], _moved(source, shape, at))


def _transpose(host: SimtTileContext, op: AnyOp) -> None:
    source, shape = _source(host, op), shape_of(op.results[0].type)
    order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))

    def at(indices: Sequence[Index]) -> ir.Value:
        places: list[Index] = [0] * len(order)
        for axis, place in enumerate(order):
            places[place] = indices[axis]
        return source.at(places)

    host.define(op.results[0], _moved(source, shape, at))


def _reshape(host: SimtTileContext, op: AnyOp) -> None:
    source, shape = host.tile(op.operands[0]), shape_of(op.results[0].type)
    build = host.build

    def at(indices: Sequence[Index]) -> ir.Value:
        number: Index = 0
        for index, extent in zip(indices, shape, strict=True):
            number = build.add(build.mul(number, extent), index)
        return source.at(split(build, number, source.shape))

    def same(indices: Sequence[Index]) -> ir.Value:
        kept = iter([i for i, extent in zip(indices, shape, strict=True) if extent != 1])
        return source.at([0 if extent == 1 else next(kept) for extent in source.shape])

    only_ones = [e for e in shape if e != 1] == [e for e in source.shape if e != 1]
    rule = same if only_ones else at
    host.define(op.results[0], TileValue(shape, source.element, rule, source.reads, source.own, source.cost))


def _source(host: SimtTileContext, op: AnyOp) -> TileValue:
    """Return the operand of an operation that reads its elements repeatedly; kept in memory if it is expensive."""
    tile = host.tile(op.operands[0])
    if tile.cost <= _CHEAP:
        return tile
    buffer = host.tiles.buffer(tile.shape, tile.element, optional=True)
    if buffer is None:
        return tile
    host.tiles.fill(buffer, tile)
    host.lifetimes.free_after(op.results[0], buffer)
    return host.tiles.value(buffer)


def _moved(source: TileValue, shape: tuple[int, ...], at: Callable[[Sequence[Index]], ir.Value]) -> TileValue:
    return TileValue(shape, source.element, at, source.classes, NOTHING, source.cost)


# -- memory ------------------------------------------------------------------------------------------------------


class _TileWindow:
    """Hold the part of a memory that a load, store or copy accesses."""

    def __init__(self, host: SimtTileContext, op: AnyOp, memory: ir.Value, starts: Sequence[ir.Value]) -> None:
        self.build = host.build
        self.memory = host.memory(memory)
        self.starts = [host.scalar(v) for v in starts]
        self.dropped = dropped_axes(op)
        self.proven = proven_axes(op)

    def place(self, indices: Sequence[Index]) -> list[Index]:
        """Return the indices in the memory of the tile's element at `indices`."""
        left = iter(indices)
        return [
            start if axis in self.dropped else self.build.add(start, next(left))
            for axis, start in enumerate(self.starts)
        ]


def _load(host: SimtTileContext, op: AnyOp) -> None:
    memory, *starts = op.operands
    window, kind = _TileWindow(host, op, memory, starts), op.results[0].type
    element, location, hint = element_of(kind), op.location, cache_of(op)

    def at(indices: Sequence[Index]) -> ir.Value:
        with host.build.located(location):
            return read(host.build, window.memory, window.place(indices), element, window.proven, hint)

    tile = TileValue(shape_of(kind), element, at, host.memory_classes(memory), NOTHING, 3)
    _keep(host, op, tile, must=host.lifetimes.overwritten(op))


def _gather(host: SimtTileContext, op: AnyOp) -> None:
    memory, index, *starts = op.operands
    window, kind, places = _TileWindow(host, op, memory, starts), op.results[0].type, host.tile(index)
    axis = ir.IntegerAttr(op.attributes["axis"]).value
    element, location, hint = element_of(kind), op.location, cache_of(op)

    def at(indices: Sequence[Index]) -> ir.Value:
        with host.build.located(location):
            place = window.place(indices)
            place[axis] = places.at(indices)
            return read(host.build, window.memory, place, element, window.proven, hint)

    classes = places.reads | host.memory_classes(memory)
    _keep(host, op, TileValue(shape_of(kind), element, at, classes, places.own, places.cost + 3), must=True)


def _store(host: SimtTileContext, op: AnyOp) -> None:
    memory, value, *starts = op.operands
    _put(host, op, memory, value, starts, None)


def _masked_store(host: SimtTileContext, op: AnyOp) -> None:
    memory, value, mask, *starts = op.operands
    _put(host, op, memory, value, starts, host.tile(mask))


def _put(
    host: SimtTileContext,
    op: AnyOp,
    memory: ir.Value,
    value: ir.Value,
    starts: Sequence[ir.Value],
    mask: TileValue | None,
) -> None:
    """Store the elements of a tile for which `mask` (None: all) is true."""
    window, tile, hint = _TileWindow(host, op, memory, starts), host.tile(value), cache_of(op)
    classes = tile.classes if mask is None else tile.classes | mask.classes
    host.tiles.access(classes, host.memory_classes(memory))

    def put(number: Index) -> None:
        indices = split(host.build, number, tile.shape)
        with host.build.when(None if mask is None else mask.at(indices)):
            write(host.build, window.memory, tile.at(indices), window.place(indices), window.proven, hint)

    count = 1
    for extent in tile.shape:
        count *= extent
    host.tiles.each(count, put)


# -- results in memory ---------------------------------------------------------------------------------------------


def _reduce(host: SimtTileContext, op: AnyOp) -> None:
    tile, kind = host.tile(op.operands[0]), op.results[0].type
    axis = named_axis(op)
    rule = Rule(ir.StringAttr(op.attributes["kind"]).value, tile.element, not host.unsigned(op))
    buffer = reduce_tile(host.tiles, host.sync, tile, rule, axis)
    if is_tile(kind):
        hold(host, op, buffer)
        return
    held = host.tiles.value(buffer)
    host.tiles.access(held.classes)
    host.define(op.results[0], held.at([0]))
    host.tiles.free(buffer)


def _dot(host: SimtTileContext, op: AnyOp) -> None:
    kind = op.results[0].type
    a, b, *acc = (host.tile(v) for v in op.operands)
    product = DotProduct(a, b, acc[0] if acc else None, element_of(kind), not host.unsigned(op))
    target = host.lifetimes.home(op)
    if target is not None:
        dot_tile(host.tiles, product, target)
        host.define(op.results[0], host.tiles.value(target))
        return
    buffer = host.tiles.required(shape_of(kind), element_of(kind))
    dot_tile(host.tiles, product, buffer)
    hold(host, op, buffer)


def _all(tiles: Sequence[TileValue], name: str) -> frozenset[int]:
    return NOTHING.union(*(getattr(tile, name) for tile in tiles))


_SPECIAL: Final[dict[str, Callable[[SimtTileContext, AnyOp], None]]] = {
    "tensor.splat": _splat,
    "tessera.arange": _arange,
    "tessera.broadcast": _broadcast,
    "tessera.transpose": _transpose,
    "tessera.reshape": _reshape,
    "tessera.load": _load,
    "tessera.gather": _gather,
    "tessera.store": _store,
    "tessera.masked_store": _masked_store,
    "tessera.reduce": _reduce,
    "tessera.dot": _dot,
}
