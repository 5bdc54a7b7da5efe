"""Lower tile operations one by one, on tiles in registers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from tessera.core.errors.catalog import NotOnCuda
from tessera.core.layouts import Layout
from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.schedule_attributes import own_attributes
from tessera.lowering.analysis.value_ranges import not_positive
from tessera.lowering.base.attributes import named_axis
from tessera.lowering.base.ir_walk import is_tile
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.scalars import NOT_POSITIVE, scalar_operation
from tessera.lowering.cuda.epilogue.tma import store_copied
from tessera.lowering.cuda.epilogue.unaligned_rows import store_rows
from tessera.lowering.cuda.epilogue.warp import store_in_loop
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma import fma, mma_sync, wgmma
from tessera.lowering.cuda.mma.lazy_rescale import rescaled
from tessera.lowering.cuda.pipeline.cp_async_pipeline import CpAsyncCopies
from tessera.lowering.cuda.schedule.multibuffer import is_vector
from tessera.lowering.cuda.simt.reductions import Rule
from tessera.lowering.cuda.storage.bounds_comparisons import compared, compares_places, shifted, shifted_places
from tessera.lowering.cuda.storage.emit_context import WindowContext
from tessera.lowering.cuda.storage.global_access import load_tile, store_tile
from tessera.lowering.cuda.storage.reductions import reduce_tile
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, broadcast, from_words, made_of, renamed
from tessera.lowering.cuda.storage.shared_access import read_vector
from tessera.lowering.cuda.storage.shared_tile import SharedTile
from tessera.lowering.cuda.storage.streamed_reduction import reduce_stream


class TileOperationContext(wgmma.WgmmaContext, mma_sync.MmaSyncContext, WindowContext, Protocol):
    """Declare what the lowering of tile operations needs of the emitter."""

    copied: CpAsyncCopies

    def order(self, op: AnyOp) -> bool:
        """Synchronize the consumer warps if other lanes may touch what `op` accesses; return whether they may."""
        ...

    def unsigned(self, op: AnyOp) -> bool:
        """Return whether the operands of `op` are unsigned integers in the Program."""
        ...


def tile_operation(host: TileOperationContext, op: AnyOp) -> None:
    """Lower an operation with a tile among its operands or results.

    Raises:
        NotOnCuda: there is no code for it.
    """
    if op in host.plan.streamed:
        return
    name = str(op.name)
    special = _SPECIAL.get(name)
    if special is not None:
        special(host, op)
    elif name.startswith(("arith.", "math.")):
        _elementwise(host, op)
    else:
        message = f"the CUDA target has no code for {name}"
        raise NotOnCuda(message)


def _element(value: ir.Value) -> str:
    """Return the text of a tile's element type."""
    return str(ir.ShapedType(value.type).element_type)


def _again(host: TileOperationContext, value: ir.Value, make: Callable[[Layout], Sequence[ir.Value]]) -> None:
    """Define a tile that is rematerialized in each layout, as that is cheaper than converting it."""
    element = _element(value)

    def build(layout: Layout) -> RegisterTile:
        return RegisterTile(layout, element, tuple(make(layout)), build)

    host.define(value, build(host.layout(value)))


def _elementwise(host: TileOperationContext, op: AnyOp) -> None:
    result = op.results[0]
    name, element = str(op.name), _element(result)
    if name == "arith.constant":
        splat = {"value": ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()}
        value = host.build.value("arith.constant", [], element, splat)
        _again(host, result, lambda layout: [value] * layout.count)
        return
    layout = host.layout(result)
    places = shifted_places(op)
    if places is not None:
        _shift(host, result, *places)
        return
    attributes: dict[str, ir.Attribute | str] = {**own_attributes(op)}
    if name == "math.exp" and not_positive(op.operands[0]):
        attributes[NOT_POSITIVE] = "unit"
    operands = [
        host.tile(v, layout).values if is_tile(v.type) else [host.build.index(host.env.scalar(v))] * layout.count
        for v in op.operands
    ]
    if op in host.plan.rescalings:
        values = rescaled(host.build, *operands)
    elif compares_places(op):
        values = compared(host.build, operands[0], operands[1], own_attributes(op))
    elif name == "arith.truncf" and _converts_accumulators(host, op) and len(set(operands[0])) == layout.count > 1:
        separate = any(use.owner.operation.name != "tessera.store" for use in result.uses)
        values = _rounded(host.build, operands[0], element, separate=separate)
    else:
        values = _each(host.build, name, operands, element, attributes)
    host.define(result, RegisterTile(layout, element, values))


def _shift(host: TileOperationContext, result: ir.Value, places: ir.Value, number: ir.Value) -> None:
    """Define positions plus a number, rematerialized wherever the positions are."""
    by, layout = host.tile(number).values[0], host.layout(result)

    def make(tile: RegisterTile, layout: Layout) -> RegisterTile:
        return RegisterTile(layout, tile.element, shifted(host.build, tile.values, by))

    host.define(result, made_of(host.tile(places, layout), layout, make, lambda layout: layout))


def _converts_accumulators(host: TileOperationContext, op: AnyOp) -> bool:
    """Return whether `op` converts accumulators to 16 bits, of a loop whose MMA stays in flight across iterations."""
    source, kinds = op.operands[0], [_element(v) for v in (op.operands[0], op.results[0])]
    while not isinstance(source.owner, ir.Block) and source.owner.operation.name in (
        "tessera.transpose",
        "tessera.reshape",
    ):
        source = source.owner.operation.operands[0]
    loops = [ring.block.owner.operation for ring in host.plan.rings if ring.running is not None]
    summed = not isinstance(source.owner, ir.Block) and source.owner.operation in loops
    return summed and kinds[0] == "f32" and kinds[1] in ("f16", "bf16")


def _rounded(
    build: IndexBuilder, values: Sequence[ir.Value], element: str, *, separate: bool
) -> tuple[ir.Value, ...]:  # fmt: skip
    """Convert to 16-bit floats in pairs, as the hardware does.

    separate: whether more is computed of each of them than what is stored as pairs

    ptxas takes single conversions of accumulators for readers of MMAs in flight, and serializes those.
    """
    found: list[ir.Value] = []
    for first in range(0, len(values), 2):
        two = values[first : first + 2]
        if separate:  # LLVM would take the conversion apart, too
            found += from_words(build, [sm90.rounded_pair(build, two, element)], element)
            continue
        pair = build.value("arith.truncf", [build.vector(two)], f"vector<2x{element}>")
        found += [build.element(pair, number) for number in range(2)]
    return tuple(found)


def _each(
    build: IndexBuilder,
    name: str,
    operands: Sequence[Sequence[ir.Value]],
    element: str,
    attributes: Mapping[str, ir.Attribute | str],
) -> tuple[ir.Value, ...]:
    """Emit an operation once for each register, and only once for equal operands."""
    known: dict[tuple[ir.Value, ...], ir.Value] = {}
    values: list[ir.Value] = []
    for together in zip(*operands, strict=True):
        if together not in known:
            known[together] = scalar_operation(build, name, list(together), element, attributes)
        values.append(known[together])
    return tuple(values)


def _splat(host: TileOperationContext, op: AnyOp) -> None:
    value = host.build.index(host.env.scalar(op.operands[0]))
    _again(host, op.results[0], lambda layout: [value] * layout.count)


def _arange(host: TileOperationContext, op: AnyOp) -> None:
    start = host.env.scalar(op.operands[0])

    def make(layout: Layout) -> Sequence[ir.Value]:
        places = host.warp_set.places(layout)
        parts = [places.parts(register) for register in range(layout.count)]
        # Comparisons separate a lane's part from a register's.
        return [host.build.index(host.build.add(host.build.add(start, base), offset)) for (base,), (offset,) in parts]

    _again(host, op.results[0], make)


def _broadcast(host: TileOperationContext, op: AnyOp) -> None:
    source, result = op.operands[0], op.results[0]
    layout = host.layout(result)
    before = host.layout(source).shape
    axes = [axis for axis, (a, b) in enumerate(zip(before, layout.shape, strict=True)) if a != b]
    found = host.tile(source, layout.sliced(axes))
    host.define(result, made_of(found, layout, broadcast, lambda layout: layout.sliced(axes)))


def _transpose(host: TileOperationContext, op: AnyOp) -> None:
    source, result = op.operands[0], op.results[0]
    staged = host.env[source]
    if isinstance(staged, SharedTile):
        host.env[result] = replace(staged, transposed=not staged.transposed)
        return
    found = host.tile(source)
    # Converted if another layout is wanted: a load rematerialized in that one would not read whole lines.
    layout = found.layout.transposed(list(ir.DenseI64ArrayAttr(op.attributes["permutation"])))
    host.define(result, renamed(found, layout))


def _reshape(host: TileOperationContext, op: AnyOp) -> None:
    if isinstance(staged := host.env[op.operands[0]], SharedTile):
        host.env[op.results[0]] = staged  # a box, whose rows lie one after the other
        return
    found = host.tile(op.operands[0])
    before, after = found.shape, host.layout(op.results[0]).shape
    tile = made_of(found, found.layout.reshaped(after), renamed, lambda layout: layout.reshaped(before))
    host.define(op.results[0], tile)


def _load(host: TileOperationContext, op: AnyOp) -> None:
    staged = host.stages.staged(host, op) or host.copied.staged(host, op)
    if staged is not None and is_vector(op):
        host.define(op.results[0], read_vector(host.build, host.warp_set, staged, host.layout(op.results[0])))
        return
    if staged is not None:
        host.env[op.results[0]] = staged
        return
    memory, *starts = op.operands
    result = op.results[0]
    changes = host.order(op)
    window = host.window(op, memory, starts, ir.ShapedType(result.type).shape)
    element, location = _element(result), op.location

    def again(layout: Layout) -> RegisterTile:
        with host.build.located(location):
            found = load_tile(host.build, host.warp_set, window, layout, element)
        return RegisterTile(layout, element, found.values, None if changes else again)

    host.define(result, again(host.layout(result)))


def _gather(host: TileOperationContext, op: AnyOp) -> None:
    memory, index, *starts = op.operands
    result = op.results[0]
    host.order(op)
    window = host.window(op, memory, starts, ir.ShapedType(result.type).shape)
    layout = host.layout(result)
    places = int(ir.IntegerAttr(op.attributes["axis"]).value), host.tile(index, layout)
    host.define(result, load_tile(host.build, host.warp_set, window, layout, _element(result), places))


def _store(host: TileOperationContext, op: AnyOp) -> None:
    memory, value, *starts = op.operands
    host.order(op)
    tile = host.tile(value)
    if store_in_loop(host, op, tile) or store_copied(host, op, tile):
        return
    window = host.window(op, memory, starts, ir.ShapedType(value.type).shape)
    if not store_rows(host, op, tile, window):
        store_tile(host.build, host.warp_set, window, tile)


def _masked_store(host: TileOperationContext, op: AnyOp) -> None:
    memory, value, mask, *starts = op.operands
    host.order(op)
    tile = host.tile(value)
    window = host.window(op, memory, starts, ir.ShapedType(value.type).shape)
    store_tile(host.build, host.warp_set, window, tile, host.tile(mask, tile.layout))


def _reduce(host: TileOperationContext, op: AnyOp) -> None:
    source, result = op.operands[0], op.results[0]
    axis = named_axis(op)
    element = _element(source)
    rule = Rule(ir.StringAttr(op.attributes["kind"]).value, element, not host.unsigned(op))
    stream = host.plan.streams.get(op)
    if stream is None:
        reduced = reduce_tile(host, host.tile(source), tuple(ir.ShapedType(source.type).shape), rule, axis)
    else:
        reduced = reduce_stream(host, stream, rule, host.layout(source))
    if not is_tile(result.type):
        host.env[result] = reduced.values[0]
        return
    layout = reduced.layout.reshaped(host.layout(result).shape)
    host.define(result, RegisterTile(layout, reduced.element, reduced.values))


def _dot(host: TileOperationContext, op: AnyOp) -> None:
    _PRODUCTS[host.plan.products[op]](host, op)


_PRODUCTS: Final[dict[str, Callable[[TileOperationContext, AnyOp], None]]] = {
    "wgmma": wgmma.dot,
    "mma": mma_sync.dot,
    "fma": fma.dot,
}
_SPECIAL: Final[dict[str, Callable[[TileOperationContext, AnyOp], None]]] = {
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
