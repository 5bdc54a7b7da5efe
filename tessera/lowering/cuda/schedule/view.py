"""The schedule of a tile kernel as its Tile IR says it, indexed for whoever reads it: passes, and the emission of code.

Nothing is decided here: a view is made of a function alone, by reading the attributes that passes left on it (see
`core.tile.schedule_attributes`) and by analyses of its operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tessera.core.layouts import Layout
from tessera.core.mlir import ir
from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.core.tile.schedule_attributes import (
    AHEAD,
    BEGINS,
    BESIDE,
    BY_GROUPS,
    CARRIED,
    COPIED,
    DELAY_BY_ROWS,
    DELAYED,
    ISSUED,
    LAYOUT,
    PRODUCT,
    REALIGNED,
    ROUNDED,
    SHARED,
    SKIPPED,
    STORED,
    STREAMED,
    is_marked,
    layouts_of,
    marked,
    schedule_of,
    text_of,
)
from tessera.lowering.analysis.uniformity import is_tile, walk
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.cp_async_loads import CopyPlan, find_copies
from tessera.lowering.cuda.schedule.memory_dependences import MemoryOrder, order_memory
from tessera.lowering.cuda.schedule.mma_overlap import OverlapPlan, find_overlaps
from tessera.lowering.cuda.schedule.mma_selection import may_run_on
from tessera.lowering.cuda.schedule.multibuffer import AsyncMmaPlan, DeferredPlan, PipelinePlan, rings_of, running_from
from tessera.lowering.cuda.storage.streamed_reduction import StreamedTile, stream_of

_BLOCK_BYTES = 128
_WRITES = ("tessera.store", "tessera.masked_store", "tessera.write")
_READS = ("tessera.load", "tessera.read")


@dataclass(frozen=True, eq=False)
class ScheduleView:
    """Index the attributes of a `func.func`, each kind when it is asked for first."""

    function: Any

    @cached_property
    def block(self) -> Any:
        """The function's body."""
        return self.function.regions[0].blocks[0]

    @cached_property
    def operations(self) -> list[Any]:
        """All operations, outer before inner."""
        return list(walk(self.block))

    @cached_property
    def dots(self) -> list[Any]:
        """The matrix products."""
        return [op for op in self.operations if op.name == "tessera.dot"]

    # -- the kernel as a whole ---------------------------------------------------------------------------------

    @cached_property
    def schedule(self) -> TileSchedule:
        """Choices about the kernel as a whole."""
        return schedule_of(self.function)

    @property
    def bits(self) -> int:
        """Bits of the numbers of the warps that compute."""
        return self.schedule.num_warps.bit_length() - 1

    @property
    def specialised(self) -> bool:
        """True where a producer warp does the loading (warp specialization)."""
        return self.schedule.producer_warp

    @property
    def pipelined(self) -> bool:
        """True where loads run ahead of what reads them."""
        return self.specialised or any(copy.loop is not None for copy in self.copies)

    # -- products ----------------------------------------------------------------------------------------------

    @cached_property
    def products(self) -> dict[Any, str]:
        """The kind of instruction that computes each product: "wgmma", "mma" or "fma"."""
        return {op: text_of(op, PRODUCT) for op in marked(self.dots, PRODUCT)}

    @cached_property
    def overlaps(self) -> dict[Any, OverlapPlan]:
        """Loops with a product that runs beside the next round's first one, by loop."""
        if not marked(self.dots, BESIDE):
            return {}
        found = find_overlaps([op for op in self.dots if may_run_on(self.products, op)], self.rings)
        beside = [one for one in found if is_marked(one.second, BESIDE)]
        return {one.loop: one if is_marked(one.first, AHEAD) else replace(one, ahead=()) for one in beside}

    @cached_property
    def running(self) -> dict[Any, AsyncMmaPlan]:
        """Loops with several products that run until their sums are needed, by loop."""
        return running_from(self.dots, marked(self.dots, ISSUED))

    @cached_property
    def rescalings(self) -> set[Any]:
        """Multiplications that are left out where the factors are one."""
        return set(marked(self.operations, SKIPPED))

    # -- loads -------------------------------------------------------------------------------------------------

    @cached_property
    def rings(self) -> list[PipelinePlan]:
        """The pipelines that the producer warp fills, by their numbers."""
        return rings_of(self.operations)

    @cached_property
    def copies(self) -> list[CopyPlan]:
        """The buffers that the warps which compute fill themselves."""
        return find_copies(self.dots, lambda load: is_marked(load, COPIED))

    @cached_property
    def rounded(self) -> set[Any]:
        """Loads that the copy engine rounds to tf32."""
        return set(marked(self.operations, ROUNDED))

    @cached_property
    def realigned(self) -> set[Any]:
        """Loads that read a copy of their array whose rows are aligned, which the launcher makes."""
        return set(marked(self.operations, REALIGNED))

    @cached_property
    def anywhere(self) -> list[Any]:
        """Loads and stores that lanes do, as they may begin at no multiple of 16 bytes."""
        return marked(self.operations, BEGINS)

    @cached_property
    def shared(self) -> set[Any]:
        """Loads that the blocks of a cluster share."""
        return set(marked(self.operations, SHARED))

    @cached_property
    def streams(self) -> dict[Any, StreamedTile]:
        """Reductions whose tile is added while it is read, by operation."""
        found = {op: stream_of(op) for op in marked(self.operations, STREAMED)}
        return {op: stream for op, stream in found.items() if stream is not None}

    @cached_property
    def streamed(self) -> set[Any]:
        """Operations whose tiles are never in registers as a whole."""
        return {op for stream in self.streams.values() for op in (stream.load, *stream.casts)}

    @property
    def parts(self) -> dict[Any, tuple[int, ...]]:
        """Extents of what streams have in registers at a time, by reduction."""
        return {op: stream.shape() for op, stream in self.streams.items()}

    def ring_of(self, op: Any) -> PipelinePlan | None:
        """The ring that load `op` goes through."""
        return next((ring for ring in self.rings if op in ring.loads), None)

    def is_staged(self, op: Any) -> bool:
        """Return whether the bytes of load `op` go to shared memory as they lie in the array."""
        return self.ring_of(op) is not None or any(op in copy.loads for copy in self.copies)

    # -- the epilogue ------------------------------------------------------------------------------------------

    @cached_property
    def gathered(self) -> tuple[int, ...]:
        """Column blocks of 128 bytes of each matrix that is stored."""
        return tuple(column_blocks(op) for op in self.operations if is_matrix_store(op))

    @cached_property
    def apart(self) -> bool:
        """True where each warp group stores rows of its own."""
        return any(text_of(op, STORED) == BY_GROUPS for op in self.operations)

    @cached_property
    def later(self) -> DeferredPlan | None:
        """The store that is made in the next group."""
        for store in marked(self.operations, DELAYED):
            return DeferredPlan(store, self.rings[0].block.owner.operation, text_of(store, DELAYED) == DELAY_BY_ROWS)
        return None

    # -- memory ------------------------------------------------------------------------------------------------

    @cached_property
    def written(self) -> set[int]:
        """Parameters (numbers) that the kernel writes."""
        return self._accessed(_WRITES)

    @cached_property
    def loaded(self) -> set[int]:
        """Parameters (numbers) that the kernel reads."""
        return self._accessed(_READS)

    def _accessed(self, names: Sequence[str]) -> set[int]:
        return {number for op in self.operations if op.name in names for number in self.parameters(op.operands[0])}

    def parameters(self, memory: Any) -> set[int]:
        """The number of the parameter that a memref is."""
        return {number for number, argument in enumerate(self.block.arguments) if argument == memory}

    @cached_property
    def order(self) -> MemoryOrder:
        """The accesses to arrays in front of which the team waits."""
        return order_memory(self.operations)

    # -- layouts -----------------------------------------------------------------------------------------------

    @cached_property
    def layouts(self) -> dict[Any, Layout]:
        """The layout of each tile in registers, lanes and warps; extents are padded to powers of two."""
        found: dict[Any, Layout] = {}
        for op in marked(self.operations, LAYOUT):
            found |= self.layouts_at(op)
        return found

    def layouts_at(self, op: Any) -> dict[Any, Layout]:
        """Return the layouts that an operation says: of what it makes, and of what its body begins with.

        Raises:
            ValueError: an attribute is not the text of a layout of these tiles.
        """
        values = list(op.results)
        shapes = [self._extents(value) if is_tile(value.type) else None for value in values]
        layouts = layouts_of(op, LAYOUT, shapes)
        if op.name == "scf.for":
            values += list(op.regions[0].blocks[0].arguments)[1:]
            layouts += layouts_of(op, CARRIED, shapes) if is_marked(op, CARRIED) else layouts
        return {value: layout for value, layout in zip(values, layouts, strict=True) if layout is not None}

    def _extents(self, value: Any) -> tuple[int, ...]:
        """Extents of what is in registers of a tile at a time."""
        owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
        stream = next((one for one in self.streams.values() if owner in (one.load, *one.casts)), None)
        return padded(stream.shape() if stream is not None else ir.ShapedType(value.type).shape)


def padded(shape: Sequence[int]) -> tuple[int, ...]:
    """The extents rounded up to powers of two."""
    return tuple(1 << (extent - 1).bit_length() for extent in shape)


def is_matrix_store(op: Any) -> bool:
    """Return whether an operation stores a tile of rows and columns, which may be gathered for the copy engine."""
    return op.name == "tessera.store" and is_tile(op.operands[1].type) and len(op.operands[1].type.shape) == 2


def column_blocks(op: Any) -> int:
    """Column blocks of 128 bytes of a stored tile."""
    if op.name != "tessera.store" or not is_tile(op.operands[1].type):
        return 1
    kind = op.operands[1].type
    return max(1, kind.shape[-1] * width(str(kind.element_type)) // 8 // _BLOCK_BYTES)
