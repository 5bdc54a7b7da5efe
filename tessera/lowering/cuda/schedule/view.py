"""Index the schedule that the Tile IR of a kernel carries, for passes and for emission.

Nothing is decided here: a view is derived from a function alone, by reading the attributes that passes left on it (see
`core.tile.schedule_attributes`) and by analyses of its operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tessera.core.layouts import Layout
from tessera.core.mlir import AnyOp, ir
from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.core.tile.schedule_attributes import (
    BEGINS,
    BY_GROUPS,
    CARRIED,
    COPIED,
    DEFER_BY_ROWS,
    DEFERRED,
    INSTRUCTION,
    ISSUED,
    LAYOUT,
    OVERLAPS,
    PADDED,
    PIPELINED,
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
from tessera.lowering.base.ir_walk import element_of, is_tile, shape_of, walk
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.cp_async_loads import CopyPlan, find_copies
from tessera.lowering.cuda.schedule.memory_dependences import MemoryOrder, order_memory
from tessera.lowering.cuda.schedule.mma_overlap import OverlapPlan, find_overlaps
from tessera.lowering.cuda.schedule.mma_selection import may_run_on
from tessera.lowering.cuda.schedule.multibuffer import AsyncMmaPlan, DeferredPlan, PipelinePlan, rings_of, running_from
from tessera.lowering.cuda.storage.shared_tile import row_blocks
from tessera.lowering.cuda.storage.streamed_reduction import StreamedTile, stream_of

_AXES = 2
_BLOCK_BYTES = 128
_WRITES = ("tessera.store", "tessera.masked_store", "tessera.write")
_READS = ("tessera.load", "tessera.gather", "tessera.read")


@dataclass(frozen=True, eq=False)
class ScheduleView:
    """Index the attributes of a `func.func`, each kind when it is asked for first."""

    function: AnyOp

    @cached_property
    def block(self) -> ir.Block:
        """Return the function's body."""
        return self.function.regions[0].blocks[0]

    @cached_property
    def operations(self) -> list[AnyOp]:
        """Return all operations, outer before inner."""
        return list(walk(self.block))

    @cached_property
    def dots(self) -> list[AnyOp]:
        """Return the matrix products."""
        return [op for op in self.operations if op.name == "tessera.dot"]

    # -- the kernel as a whole ---------------------------------------------------------------------------------

    @cached_property
    def schedule(self) -> TileSchedule:
        """Return the choices about the kernel as a whole."""
        return schedule_of(self.function)

    @property
    def bits(self) -> int:
        """Return the log2 of the number of consumer warps."""
        return self.schedule.num_warps.bit_length() - 1

    @property
    def specialised(self) -> bool:
        """Return whether a producer warp does the loading (warp specialization)."""
        return self.schedule.producer_warp

    @property
    def pipelined(self) -> bool:
        """Return whether loads run ahead of what reads them."""
        return self.specialised or any(copy.loop is not None for copy in self.copies)

    # -- products ----------------------------------------------------------------------------------------------

    @cached_property
    def products(self) -> dict[AnyOp, str]:
        """Return the kind of instruction that computes each product: "wgmma", "mma" or "fma"."""
        return {op: text_of(op, INSTRUCTION) for op in marked(self.dots, INSTRUCTION)}

    @cached_property
    def overlaps(self) -> dict[AnyOp, OverlapPlan]:
        """Return the loops with a product that runs beside the next iteration's first one, by loop."""
        if not marked(self.dots, OVERLAPS):
            return {}
        found = find_overlaps([op for op in self.dots if may_run_on(self.products, op)], self.rings)
        beside = [one for one in found if is_marked(one.second, OVERLAPS)]
        return {one.loop: one if is_marked(one.first, PIPELINED) else replace(one, prefetched=()) for one in beside}

    @cached_property
    def running(self) -> dict[AnyOp, AsyncMmaPlan]:
        """Return the loops with several products that run until their results are needed, by loop."""
        return running_from(self.dots, marked(self.dots, ISSUED))

    @cached_property
    def rescalings(self) -> set[AnyOp]:
        """Return the multiplications that are skipped where all factors are one."""
        return set(marked(self.operations, SKIPPED))

    # -- loads -------------------------------------------------------------------------------------------------

    @cached_property
    def rings(self) -> list[PipelinePlan]:
        """Return the pipelines that the producer warp fills, by their numbers."""
        return rings_of(self.operations)

    @cached_property
    def copies(self) -> list[CopyPlan]:
        """Return the loads that consumer warps copy themselves (cp.async)."""
        return find_copies(self.dots, lambda load: is_marked(load, COPIED))

    @cached_property
    def rounded(self) -> set[AnyOp]:
        """Return the loads that TMA rounds to tf32."""
        return set(marked(self.operations, ROUNDED))

    @cached_property
    def padded_rows(self) -> set[AnyOp]:
        """Return the loads that read a copy of their array with padded rows, which the launcher makes."""
        return set(marked(self.operations, PADDED))

    @cached_property
    def anywhere(self) -> list[AnyOp]:
        """Return the loads and stores that lanes do, because a 16-byte start is not proven."""
        return marked(self.operations, BEGINS)

    @cached_property
    def shared(self) -> set[AnyOp]:
        """Return the loads that the blocks of a cluster share."""
        return set(marked(self.operations, SHARED))

    @cached_property
    def streams(self) -> dict[AnyOp, StreamedTile]:
        """Return the streamed reductions, which add their tile while it is read, by operation."""
        found = {op: stream_of(op) for op in marked(self.operations, STREAMED)}
        return {op: stream for op, stream in found.items() if stream is not None}

    @cached_property
    def streamed(self) -> set[AnyOp]:
        """Return the operations whose tiles are never in registers as a whole."""
        return {op for stream in self.streams.values() for op in (stream.load, *stream.casts)}

    @property
    def parts(self) -> dict[AnyOp, tuple[int, ...]]:
        """Return the extents of what streams have in registers at a time, by reduction."""
        return {op: stream.shape() for op, stream in self.streams.items()}

    def ring_of(self, op: AnyOp) -> PipelinePlan | None:
        """Return the pipeline that load `op` goes through."""
        return next((ring for ring in self.rings if op in ring.loads), None)

    def is_staged(self, op: AnyOp) -> bool:
        """Return whether the bytes of load `op` go to shared memory as they lie in the array."""
        return self.ring_of(op) is not None or any(op in copy.loads for copy in self.copies)

    # -- the epilogue ------------------------------------------------------------------------------------------

    @cached_property
    def gathered(self) -> tuple[int, ...]:
        """Return the number of 128-byte column blocks of each matrix that is stored."""
        return tuple(column_blocks(op) for op in self.operations if is_matrix_store(op))

    @cached_property
    def epilogue_per_warpgroup(self) -> bool:
        """Return whether each warp group stores rows of its own."""
        return any(text_of(op, STORED) == BY_GROUPS for op in self.operations)

    @cached_property
    def deferred(self) -> DeferredPlan | None:
        """Return the deferred store, which runs in the next group."""
        for store in marked(self.operations, DEFERRED):
            return DeferredPlan(store, self.rings[0].block.owner.operation, text_of(store, DEFERRED) == DEFER_BY_ROWS)
        return None

    # -- memory ------------------------------------------------------------------------------------------------

    @cached_property
    def written(self) -> set[int]:
        """Return the numbers of the parameters that the kernel writes."""
        return self._accessed(_WRITES)

    @cached_property
    def loaded(self) -> set[int]:
        """Return the numbers of the parameters that the kernel reads."""
        return self._accessed(_READS)

    def _accessed(self, names: Sequence[str]) -> set[int]:
        return {number for op in self.operations if op.name in names for number in self.parameters(op.operands[0])}

    def parameters(self, memory: ir.Value) -> set[int]:
        """Return the number of the parameter that a memref is."""
        return {number for number, argument in enumerate(self.block.arguments) if argument == memory}

    @cached_property
    def order(self) -> MemoryOrder:
        """Return the accesses to arrays that a barrier precedes."""
        return order_memory(self.operations)

    # -- layouts -----------------------------------------------------------------------------------------------

    @cached_property
    def layouts(self) -> dict[ir.Value, Layout]:
        """Return the layout of each tile in registers, lanes and warps; extents are padded to powers of two."""
        found: dict[ir.Value, Layout] = {}
        for op in marked(self.operations, LAYOUT):
            found |= self.layouts_at(op)
        return found

    def layouts_at(self, op: AnyOp) -> dict[ir.Value, Layout]:
        """Return the layouts on an operation: of its results, and of the arguments of its body.

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

    def _extents(self, value: ir.Value) -> tuple[int, ...]:
        """Return the extents of what is in registers of a tile at a time."""
        owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
        stream = next((one for one in self.streams.values() if owner in (one.load, *one.casts)), None)
        return padded(stream.shape() if stream is not None else shape_of(value))


def padded(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the extents rounded up to powers of two."""
    return tuple(1 << (extent - 1).bit_length() for extent in shape)


def is_matrix_store(op: AnyOp) -> bool:
    """Return whether an operation stores a tile of rows and columns, which may be staged for TMA."""
    return op.name == "tessera.store" and is_tile(op.operands[1].type) and len(shape_of(op.operands[1])) >= _AXES


def column_blocks(op: AnyOp) -> int:
    """Return the number of column blocks of a stored tile, each of 128 rows of 128 bytes."""
    if op.name != "tessera.store" or not is_tile(op.operands[1].type):
        return 1
    stored = op.operands[1]
    return max(1, shape_of(stored)[-1] * width(element_of(stored)) // 8 // _BLOCK_BYTES) * row_blocks(shape_of(stored))
