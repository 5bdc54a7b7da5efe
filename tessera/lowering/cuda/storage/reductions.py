"""Reductions with the association of `core/base/reductions.py`, in registers and by shuffles.

A block of 4096 elements is 128 chains of 32: the layout has a chain in the registers of one lane.  The 128 columns are
added by halving, the highest bit first, then the blocks pairwise, the lowest bit first; each bit is one of a register,
a lane or a warp.  What lies in other warps is brought in through shared memory.
"""

from typing import Final

from tessera.core.base.reductions import BLOCK, COLUMNS
from tessera.core.layouts import Layout, axis_bits, spread
from tessera.core.mlir import ir
from tessera.lowering.cuda.simt.reductions import Rule
from tessera.lowering.cuda.simt.synchronization import exchange
from tessera.lowering.cuda.storage.emit_context import ScratchContext
from tessera.lowering.cuda.storage.global_access import is_padding
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, convert
from tessera.lowering.cuda.storage.warps import WARP

_COLUMN_BITS: Final = (COLUMNS - 1).bit_length()
_BLOCK_BITS: Final = (BLOCK - 1).bit_length()
_FEW: Final = 16
"""Values that a lane rather reads one by one from shared memory than gets from its neighbours."""


def reduce_tile(
    host: ScratchContext, tile: RegisterTile, extents: tuple[int, ...], rule: Rule, axis: int | None
) -> RegisterTile:
    """Reduce along `axis` (None: everything); the axis stays, with extent 1, and every lane has the result.

    extents: the tile's own, before padding: what lies past them counts as the identity
    """
    along = axis_bits(tile.shape, axis) if axis is not None else [
        bit for a in reversed(range(len(tile.shape))) for bit in axis_bits(tile.shape, a)
    ]  # fmt: skip
    tile = _widened(host, tile, extents, rule)
    chain, columns = along[_COLUMN_BITS:_BLOCK_BITS], along[:_COLUMN_BITS]
    if any(bit not in tile.layout.registers for bit in chain):
        tile = _moved(host, tile, chain)
    for bit in chain:
        if bit not in tile.layout.registers:
            message = f"no layout has the chain of {along}"
            raise AssertionError(message)
    tile = _chains(host, tile, rule, chain, extents)
    order = [*reversed(columns), *along[_BLOCK_BITS:]]
    if rule.any_order:  # what a lane has itself comes first: then fewer values are exchanged
        order.sort(key=lambda bit: bit not in tile.layout.registers)
    tile = _added(host, tile, rule, order)
    values = tuple(rule.narrow(host.build, value) for value in tile.values)
    return RegisterTile(_without(tile.layout, axis), rule.element, values)


def halved(host: ScratchContext, tile: RegisterTile, rule: Rule, axis: int) -> RegisterTile:
    """Reduce partial results along `axis`, at most 128 of them, by halving."""
    tile = _added(host, tile, rule, list(reversed(axis_bits(tile.shape, axis))))
    return RegisterTile(_without(tile.layout, axis), tile.element, tile.values)


def _added(host: ScratchContext, tile: RegisterTile, rule: Rule, order: list[int]) -> RegisterTile:
    """Add what differs in the bits of `order`, one bit after the other."""
    for number, bit in enumerate(order):
        if bit in tile.layout.warps:
            tile = _gathered(host, tile, order[number:])
        tile = _halve(host, tile, rule, bit)
    return tile


def _without(layout: Layout, axis: int | None) -> Layout:
    """Drop `axis` (None: all axes) from a layout."""
    shape = tuple(1 if axis in (None, a) else extent for a, extent in enumerate(layout.shape))
    return layout.sliced([a for a, extent in enumerate(shape) if extent == 1])


def _widened(host: ScratchContext, tile: RegisterTile, extents: tuple[int, ...], rule: Rule) -> RegisterTile:
    """Convert the elements to the type of partial results; padding becomes the identity."""
    build = host.build
    values = [rule.widen(build, value) for value in tile.values]
    if any(extent != whole for extent, whole in zip(extents, tile.shape, strict=True)):
        places, identity = host.warp_set.places(tile.layout), rule.identity(build)
        for register, value in enumerate(values):
            if is_padding(tile.layout, register, extents):
                values[register] = identity
                continue
            inside = build.both(
                *(
                    build.inside(index, extent)
                    for index, extent, whole in zip(places.indices(register), extents, tile.shape, strict=True)
                    if extent != whole
                )
            )
            values[register] = build.select(inside, value, identity)
    return RegisterTile(tile.layout, rule.wide, tuple(values))


def _chains(
    host: ScratchContext, tile: RegisterTile, rule: Rule, chain: list[int], extents: tuple[int, ...]
) -> RegisterTile:  # fmt: skip
    """Add the elements of each chain in order: they are registers of one lane; padding changes nothing."""
    layout = tile.layout
    kept = tuple(basis for basis in layout.registers if basis not in chain)
    short = Layout(layout.shape, kept, layout.lanes, layout.warps)
    padding = {layout.element(r) for r in range(layout.count) if is_padding(layout, r, extents)}
    places = {layout.element(register): value for register, value in enumerate(tile.values)}
    values: list[ir.Value] = []
    for register in range(short.count):
        first = short.element(register)
        total = places[first]
        for step in range(1, 1 << len(chain)):
            offset = sum(basis for bit, basis in enumerate(chain) if step >> bit & 1)
            if first + offset not in padding:
                total = rule.combine(host.build, total, places[first + offset])
        values.append(total)
    return RegisterTile(short, rule.wide, tuple(values))


def _halve(host: ScratchContext, tile: RegisterTile, rule: Rule, bit: int) -> RegisterTile:
    """Add the elements with `bit` to those without it."""
    layout, build = tile.layout, host.build
    if bit in layout.registers:
        kept = tuple(basis for basis in layout.registers if basis != bit)
        short = Layout(layout.shape, kept, layout.lanes, layout.warps)
        places = {layout.element(register): value for register, value in enumerate(tile.values)}
        elements = [short.element(register) for register in range(short.count)]
        values = tuple(rule.combine(build, places[e], places[e + bit]) for e in elements)
        return RegisterTile(short, rule.wide, values)
    if bit not in layout.lanes:  # every lane has the same elements: there is nothing to add
        message = f"bit {bit} is nowhere in {layout.text()}"
        raise AssertionError(message)
    lane = layout.lanes.index(bit)
    lanes = tuple(0 if basis == bit else basis for basis in layout.lanes)
    operands = [build.word(-1), build.word(1 << lane), build.word(WARP - 1)]
    values = tuple(rule.combine(build, v, exchange(build, v, "bfly", *operands)) for v in tile.values)
    return RegisterTile(Layout(layout.shape, layout.registers, lanes, layout.warps), rule.wide, values)


def _gathered(host: ScratchContext, tile: RegisterTile, order: list[int]) -> RegisterTile:
    """Convert partial results to a layout in which warps need nothing of each other any more.

    Where few values are left, every lane gets all of them in registers and adds them by itself; otherwise they are
    spread over lanes that hold copies.
    """
    layout = tile.layout
    warps = tuple(0 if basis in order else basis for basis in layout.warps)
    left = [basis for basis in layout.warps if basis in order]
    lanes, registers = list(layout.lanes), list(layout.registers)
    few = layout.count << len(left) <= _FEW
    for bit in left:
        if 0 in lanes and not few:
            lanes[lanes.index(0)] = bit
        else:
            registers.append(bit)
    registers.sort()
    target = Layout(layout.shape, tuple(registers), tuple(lanes), warps)
    return convert(host.build, host.warp_set, host.scratch, tile, target)


def _moved(host: ScratchContext, tile: RegisterTile, chain: list[int]) -> RegisterTile:
    """Convert a tile to a layout that has every chain in one lane."""
    layout = tile.layout
    others = [basis for basis in layout.bases if basis and basis not in chain]
    order = [("registers", bit) for bit in chain] + [("lanes", bit) for bit in others]
    target = spread(layout.shape, order, host.warp_set.bits)
    return convert(host.build, host.warp_set, host.scratch, tile, target)
