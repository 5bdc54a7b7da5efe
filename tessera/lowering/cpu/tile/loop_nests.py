"""Loop nests that read one tile value and write it somewhere: the shape of every tile operation without a name."""

from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.indices import Indices
from tessera.lowering.base.structured_control import for_points, for_range, for_vectors, lanes_for, run_either
from tessera.lowering.cpu.tile.destinations import MemoryBlock, Scratch
from tessera.lowering.cpu.tile.memory import Memory, stored
from tessera.lowering.cpu.tile.operands import Computed, Frame, Source, all_guards, vector_axis
from tessera.lowering.cpu.tile.transposition import transpose
from tessera.lowering.math.algebra import shaped

_PREFETCH_DISTANCE: Final = 4
"""Rows asked for before they are written."""

Target = Scratch | MemoryBlock
"""Where a tile can be written."""


def versions(emitter: Emitter, sources: Sequence[Source], emit: Callable[[bool], None]) -> None:
    """Emit `emit(True)` for the case that every guard of the sources holds and, if there is one, `emit(False)`."""
    guards = all_guards(sources)
    if guards:
        run_either(emitter, Indices(emitter).both(*guards), lambda: emit(True), lambda: emit(False))
    else:
        emit(True)


def copy(emitter: Emitter, source: Source, target: Target, side: int) -> None:
    """Write every element of `source` to `target`, which has the same shape.

    Vectors run along the target's axis.  Where the source's vectors lie along another one, square blocks of `side`
    elements are turned in registers.
    """
    along = vector_axis(source.shape) if target.axis is None else target.axis
    across = source.axis
    turned = across is not None and across != along and min(source.shape[along], source.shape[across]) >= side

    def emit(inside: bool) -> None:
        if turned and across is not None:
            _copy_turned(emitter, source, target, (across, along), side, inside)
        else:
            _copy_rows(emitter, source, target, along, inside)

    versions(emitter, (source, target), emit)


def _copy_rows(emitter: Emitter, source: Source, target: Target, axis: int, inside: bool) -> None:
    lanes = lanes_for(source.shape[axis], source.bytes)
    # What is computed into scratch is expensive, and leaves the memory idle: time to ask for the next group's block.
    prefetch = (0, source.shape[0]) if isinstance(source, Computed) and isinstance(target, Scratch) else None
    # Rows of an array lie in pages of their own, where the processor does not look by itself.
    far = target if isinstance(source, Scratch) and axis != 0 and source.shape[0] > _PREFETCH_DISTANCE else None

    def one_row(point: tuple[Index, ...]) -> None:
        frame = Frame(emitter, point, axis, inside=inside, prefetch=prefetch)
        row, write = frame.row(source), target.writer(frame)
        below = (Indices(emitter).add(point[0], _PREFETCH_DISTANCE), *point[1:])

        def one_vector(index: Index, count: int, valid: int | None) -> None:
            if isinstance(far, MemoryBlock):
                far.ask(emitter, [index if a == axis else i for a, i in enumerate(below)], near=True)
            write(row.at(index, count, valid), index, count, valid)

        for_vectors(emitter, source.shape[axis], lanes, one_vector)

    for_points(emitter, source.shape, (axis,), one_row)


def _copy_turned(
    emitter: Emitter, source: Source, target: Target, axes: tuple[int, int], side: int, inside: bool
) -> None:
    """Copy blocks of `side` x `side`, read along axes[0] and written along axes[1]; the last ones overlap."""
    across, along = axes
    indices, memory, element = Indices(emitter), Memory(emitter), source.element

    def one_block(point: tuple[Index, ...], first: Index, second: Index) -> None:
        reads, writes = list(point), list(point)
        vectors: list[ir.Value] = []
        for lane in range(side):
            reads[along] = indices.add(second, lane)
            vector = Frame(emitter, reads, across, inside=inside).row(source).at(first, side)
            vectors.append(memory.to_stored(vector, side, element))
        for lane, vector in enumerate(transpose(emitter, vectors, shaped(side, stored(element)))):
            writes[across] = indices.add(first, lane)
            value = memory.from_stored(vector, side, element)
            target.writer(Frame(emitter, writes, along, inside=inside))(value, second, side, None)

    def one_plane(point: tuple[Index, ...]) -> None:
        for_blocks(
            emitter,
            source.shape[along],
            side,
            lambda second: for_blocks(
                emitter, source.shape[across], side, lambda first: one_block(point, first, second)
            ),
        )

    for_points(emitter, source.shape, (across, along), one_plane)


def for_blocks(emitter: Emitter, extent: int, side: int, body: Callable[[Index], None]) -> None:
    """Emit `body(start)` for blocks of `side` that cover `extent` (at least `side`); the last one may overlap."""
    blocks = -(-extent // side)
    indices = Indices(emitter)
    last = extent - side

    def one(block: Index, _: list[ir.Value]) -> Sequence[ir.Value]:
        start = indices.mul(block, side)
        body(indices.min(start, last) if extent % side else start)
        return ()

    for_range(emitter, 0, blocks, 1, one)
