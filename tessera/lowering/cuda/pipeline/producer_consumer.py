"""Drive the TMA pipelines of a kernel: the producer acquires and fills stages, consumers wait for and release them."""

from collections.abc import Collection, Sequence
from typing import Protocol

from tessera.core.artifact import Slot, TensorMap
from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.program.types import Array
from tessera.core.resources import Buffers
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.base.emit import required
from tessera.lowering.base.ir_walk import ancestors, shape_of
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import LOCAL
from tessera.lowering.cuda.base.profile_records import phase
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.pipeline.mbarrier_pipeline import Pipeline, PipelineState
from tessera.lowering.cuda.pipeline.shared_plan import BARRIER_BYTES, BLOCK_BYTES, stage_counts, stage_layout
from tessera.lowering.cuda.schedule.mma_selection import WGMMA
from tessera.lowering.cuda.schedule.multibuffer import AsyncMmaPlan, PipelinePlan, is_vector
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage import emit_context as host
from tessera.lowering.cuda.storage.global_access import begins_aligned
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.shared_tile import SharedTile, box_of, panels_of
from tessera.lowering.cuda.storage.warps import WARP, WarpSet


class PipelineContext(host.EmitContext, Protocol):
    """The context that pipelines need."""

    rounds: dict[int, PipelineState]
    not_first_iteration: ir.Value | None
    """An i1: the innermost loop is not in its first iteration."""

    @property
    def copies(self) -> bool:
        """Return whether this is the producer warp."""
        ...


class Pipelines:
    """All TMA pipelines of a kernel, with as many stages as its schedule says."""

    def __init__(self, frame: GpuFunction, plan: ScheduleView, scratch: SharedScratch, warp_set: WarpSet) -> None:
        self._frame = frame
        self._plan = plan
        self._rings: list[Pipeline] = []
        self._maps: dict[tuple[int, TensorMap], ir.Value] = {}
        self._now: dict[int, PipelineState] = {}
        self._offsets: dict[AnyOp, int] = {}
        self._empty: dict[int, ir.Value] = {}
        self.copies_stores = plan.specialised
        self.epilogue_per_warpgroup = plan.epilogue_per_warpgroup
        # An iteration's first MMA is issued before the buffers of the previous iteration are released.
        self.running = plan.running if plan.schedule.stages > 1 else {}
        if not plan.rings:
            return
        build = frame.build
        self.store_blocks = plan.schedule.epilogue_stages
        # Otherwise the copy of the buffer that the next store begins with need not be the oldest one.
        self.fills_buffers_in_turn = all(blocks % self.store_blocks == 0 for blocks in plan.gathered)
        self.store_address = scratch.address(scratch.take(self.store_blocks * BLOCK_BYTES))
        counts = stage_counts(plan, plan.schedule)
        layouts = [stage_layout(ring) for ring in plan.rings]
        sizes = [layout.size for layout in layouts]
        self._offsets = {load: offset for layout in layouts for load, offset in layout.offsets.items()}
        places = [scratch.take(size * count) for size, count in zip(sizes, counts, strict=True)]
        barriers = scratch.take(2 * BARRIER_BYTES * sum(counts))
        address = scratch.address(barriers)
        for size, count, place, ring in zip(sizes, counts, places, plan.rings, strict=True):
            copied = sum(panels_of(load).bytes for load in ring.loads)
            arrivals = warp_set.warps * plan.schedule.cluster
            self._rings.append(Pipeline(build, scratch.address(place), address, count, size, copied, arrivals))
            address = build.value("arith.addi", [address, build.word(2 * BARRIER_BYTES * count)], "i32")

    @property
    def count(self) -> int:
        """Return the number of pipelines."""
        return len(self._rings)

    def add(self, ring: Pipeline) -> None:
        """Add a pipeline, which the caller fills and empties."""
        self._rings.append(ring)

    @property
    def buffers(self) -> tuple[Buffers, ...]:
        """Return the stages of each pipeline, and the buffers for stores."""
        if not self._rings:
            return ()
        rings = [
            Buffers(f"pipeline {n}", ring.stages, ring.stage_bytes)
            for n, ring in enumerate(self._rings[: len(self._plan.rings)])
        ]
        return (*rings, Buffers("stores", self.store_blocks, BLOCK_BYTES))

    @property
    def has_copied_stores(self) -> bool:
        """Return whether TMA may store anything, as some array that is written is aligned."""
        return any(self.array(number).aligned for number in self._plan.written)

    def initialise(self) -> None:
        """Initialise all barriers, by one lane and before their first use."""
        for ring in self._rings:
            ring.initialise()
        sm90.fence_barrier_init(self._frame.build)

    def start(self) -> dict[int, PipelineState]:
        """Return the first state of every pipeline."""
        return {number: ring.start() for number, ring in enumerate(self._rings)}

    def inside(self, op: AnyOp) -> Sequence[int]:
        """Return the pipelines that are filled somewhere inside `op`."""
        return [n for n, ring in enumerate(self._plan.rings) if _holds(op, ring.block)]

    # -- both roles --------------------------------------------------------------------------------------------

    def before(self, host: PipelineContext, op: AnyOp) -> None:
        """Emit what comes before an operation: the producer's acquire, the consumers' wait."""
        for number, ring in enumerate(self._plan.rings):
            if op == ring.loads[0]:
                now = self._now[number] = host.rounds[number]
                host.rounds[number] = self._rings[number].following(now)
                if host.copies:
                    self._rings[number].producer_acquire(now)
                    self._rings[number].expect(now)
            if op == ring.first and not host.copies and not self._is_overlapped(ring) and not self._is_early(ring):
                self._wait_full(number, self._now[number])

    def after(self, host: PipelineContext, op: AnyOp) -> None:
        """Emit what comes after an operation: the consumers' release."""
        if host.copies:
            return
        for number, ring in enumerate(self._plan.rings):
            if op == ring.last and not any(isinstance(host.env.get(value), Pending) for value in op.results):
                self._release_behind(host, number, ring)
            if ring.running is not None and op == ring.block.owner.operation:
                self._finish(host, number, op, ring)

    def release_behind(self, host: PipelineContext, op: AnyOp) -> None:
        """Release the buffers that nothing reads after `op`, an asynchronous MMA that has been waited for."""
        for number, ring in enumerate(self._plan.rings):
            if op == ring.last:
                self._release_behind(host, number, ring)

    def _release_behind(self, host: PipelineContext, number: int, ring: PipelinePlan) -> None:
        if ring.running is None and not self._is_overlapped(ring) and not self._runs(ring):
            self._release(host, number, self._now[number])

    # -- the producer warp -------------------------------------------------------------------------------------

    def copy(self, host: PipelineContext, op: AnyOp) -> None:
        """Start the TMA copies of a load; the producer warp skips other operations on tiles."""
        number = self._number(op)
        if number is None:
            self._prefetch(host, op)
            return
        ring, now = self._rings[number], self._now[number]
        build, panels = host.build, panels_of(op)
        memory, *starts = op.operands
        dropped = dropped_axes(op)
        parameter = self.parameter(memory)
        if is_vector(op):
            box = box_of((panels.columns,), dropped, len(starts))
            coordinates = [build.to_word(v) for v in reversed(host.env.scalars(starts))]
            pointer = self.tensor_map(parameter, TensorMap(box))
            sm90.tensor_load(build, self._address(host, op, number), pointer, coordinates, ring.full(now))
            return
        cluster = self._plan.schedule.cluster if op in self._plan.shared else 1
        # Each block of a cluster loads a part of what they share: some of the panels, or some rows of the only panel.
        parts = cluster if panels.count == 1 else 1
        outer_extent, *rest = shape_of(op.results[0])
        box = box_of((outer_extent // parts, *rest[:-1], panels.width), dropped, len(starts))
        plan = self._plan
        window = TensorMap(box, panels.swizzle, rounded=op in plan.rounded, padded_rows=op in plan.padded_rows)
        pointer = self.tensor_map(parameter, window)
        target = self._address(host, op, number)
        places = host.env.scalars(starts)
        first: Index = 0
        if cluster > 1:
            rank = build.to_index(sm90.cluster_rank(build))
            if parts == 1:
                first = build.mul(rank, panels.count // cluster)
            else:
                outer = next(axis for axis in range(len(places)) if axis not in dropped)
                places[outer] = build.add(places[outer], build.mul(rank, outer_extent // parts))
                offset = build.to_word(build.mul(rank, panels.panel_bytes // parts))
                target = build.value("arith.addi", [target, offset], "i32")
        for number_of_panel in range(panels.count // cluster if parts == 1 else 1):
            panel = build.add(first, number_of_panel)
            inner = build.add(places[-1], build.mul(panel, panels.width))
            coordinates = [build.to_word(v) for v in (inner, *reversed(places[:-1]))]
            offset = build.to_word(build.mul(panel, panels.panel_bytes))
            place = build.value("arith.addi", [target, offset], "i32")
            sm90.tensor_load(build, place, pointer, coordinates, ring.full(now), cluster)

    def _prefetch(self, host: PipelineContext, op: AnyOp) -> None:
        """Bring a tile that an epilogue reads into the L2 cache, while the products before it are summed."""
        inside = any(_holds(ring.block.owner, op.operation.block) for ring in self._plan.rings)
        if op.name != "tessera.load" or inside or not isinstance(op.operands[0], ir.BlockArgument):
            return
        memory, *starts = op.operands
        parameter, dropped = self.parameter(memory), dropped_axes(op)
        kind, shape = self.array(parameter), shape_of(op.results[0])
        if not kind.aligned or not begins_aligned(kind, starts[-1]) or not has_box(kind, shape, dropped):
            return
        pointer = self.tensor_map(parameter, TensorMap(box_of(shape, dropped, len(starts))))
        coordinates = [host.build.to_word(v) for v in reversed(host.env.scalars(starts))]
        sm90.tensor_prefetch(host.build, pointer, coordinates)

    def tensor_map(self, parameter: int, box: TensorMap) -> ir.Value:
        """Return the pointer to a tensor map of an array parameter, itself a parameter of the GPU function."""
        key = (parameter, box)
        if key not in self._maps:
            self._maps[key] = self._frame.slot(Slot("tensor_map", parameter, tensor_map=box), LOCAL)
        return self._maps[key]

    def prefetch_maps(self) -> None:
        """Prefetch the tensor maps that the code emitted so far uses."""
        for pointer in self._maps.values():
            sm90.tensor_map_prefetch(self._frame.build, pointer)

    def parameter(self, memory: ir.Value) -> int:
        """Return the number of the parameter that a Tile IR memref is."""
        return ir.BlockArgument(memory).arg_number

    def array(self, parameter: int) -> Array:
        """Return the type of an array parameter."""
        kind = self._frame.program.parameters[parameter].value.type
        if not isinstance(kind, Array):
            message = f"parameter {parameter} is no array"
            raise TypeError(message)
        return kind

    # -- the consumers -----------------------------------------------------------------------------------------

    def staged(self, host: PipelineContext, op: AnyOp) -> SharedTile | None:
        """Return the buffer of a load; None for a load without a pipeline."""
        number = self._number(op)
        if number is None:
            return None
        return SharedTile(
            self._address(host, op, number), panels_of(op), str(ir.ShapedType(op.results[0].type).element_type)
        )

    def is_running(self, dot: AnyOp) -> bool:
        """Return whether an MMA stays in flight into the next iteration."""
        return any(ring.running == dot for ring in self._plan.rings if ring.running is not None)

    def release_before(self, host: PipelineContext, dot: AnyOp) -> None:
        """Release the buffers of the previous iteration, whose MMA is done; not in the loop's first iteration."""
        number = next(n for n, ring in enumerate(self._plan.rings) if ring.running == dot)
        ring = self._rings[number]
        with host.build.when(host.not_first_iteration):
            self._release(host, number, ring.before(self._now[number]))

    def now(self, load: AnyOp) -> PipelineState:
        """Return the current state of a load's pipeline."""
        return self._now[self._index(load)]

    def test_next(self, host: PipelineContext, loads: Sequence[AnyOp]) -> None:
        """Test whether the next stage of some loads is full, so that `wait_next` need not wait for the answer."""
        for number in dict.fromkeys(self._index(load) for load in loads):
            self._empty[number] = self._rings[number].is_empty(host.rounds[number])

    def wait_next(self, host: PipelineContext, loads: Sequence[AnyOp], more: ir.Value | None) -> None:
        """Advance the pipelines of some loads and wait for their next stage, as if the loads stood here.

        Where `more` (an i1; None: true) is false there is none: nothing is waited for, and the bytes are undefined.
        """
        build = host.build
        for number in dict.fromkeys(self._index(load) for load in loads):
            now = self._now[number] = host.rounds[number]
            after = self._rings[number].following(now)
            if more is None:
                self._wait_full(number, now)
            else:
                with build.when(build.all_of([more, self._empty.pop(number)])):
                    self._wait_full(number, now)
                pairs = zip(after.values(), now.values(), strict=True)
                after = PipelineState(*(build.select(more, *pair) for pair in pairs))
            host.rounds[number] = after

    def release_next(self, host: PipelineContext, loads: Sequence[AnyOp], more: ir.Value | None) -> None:
        """Release the stages that `wait_next` waited for."""
        for number in dict.fromkeys(self._index(load) for load in loads):
            with host.build.when(more):
                self._release(host, number, self._now[number])

    def wait(self, load: AnyOp, now: PipelineState) -> None:
        """Wait until a load's stage is full."""
        self._wait_full(self._index(load), now)

    def _wait_full(self, number: int, now: PipelineState) -> None:
        with phase(self._frame.build, self._frame, "load"):
            self._rings[number].consumer_wait(now)

    def release(self, host: PipelineContext, load: AnyOp, now: PipelineState) -> None:
        """Release a load's stage."""
        self._release(host, self._index(load), now)

    def at(self, host: PipelineContext, load: AnyOp, now: PipelineState, *, transposed: bool) -> SharedTile:
        """Return the buffer of a load in a given state."""
        build, ring = host.build, self._rings[self._index(load)]
        base, offset = ring.data(now), self._offsets[load]
        address = build.value("arith.addi", [base, build.word(offset)], "i32") if offset else base
        return SharedTile(address, panels_of(load), str(ir.ShapedType(load.results[0].type).element_type), transposed)

    def _index(self, load: AnyOp) -> int:
        return next(n for n, ring in enumerate(self._plan.rings) if load in ring.loads)

    def coming(self, host: PipelineContext, load: AnyOp) -> PipelineState:
        """Return the next state of a load's pipeline."""
        return host.rounds[self._index(load)]

    def release_rings(self, host: PipelineContext, loop: AnyOp) -> None:
        """Release what the last iteration of a loop with MMAs in flight has read."""
        for number, ring in enumerate(self._plan.rings):
            if ring.block == loop.regions[0].blocks[0]:
                self._release(host, number, self._rings[number].before(host.rounds[number]))

    def _runs(self, ring: PipelinePlan) -> AsyncMmaPlan | None:
        """Return the loop of asynchronous MMAs that a pipeline is filled in; it releases the pipeline itself."""
        return next((plan for plan in self.running.values() if plan.first.operation.block == ring.block), None)

    def _is_early(self, ring: PipelinePlan) -> bool:
        """Return whether a pipeline is waited for one iteration early."""
        plan = self._runs(ring)
        return plan is not None and plan.first == ring.first

    def _is_overlapped(self, ring: PipelinePlan) -> bool:
        """Return whether an overlapped loop waits for and releases this pipeline itself."""
        return any(plan.load in ring.loads for plan in self._plan.overlaps.values())

    def _finish(self, host: PipelineContext, number: int, loop: AnyOp, ring: PipelinePlan) -> None:
        """Drain a loop: wait for its last MMA and release its buffers."""
        build = host.build
        running: AnyOp = required(ring.running)
        uses = running.results[0].uses
        value = loop.results[next(use.operand_number for use in uses if use.owner.operation.name == "scf.yield")]
        tile = host.env.registers(value)
        done = sm90.wgmma_wait(build, 0, tile.values)
        host.env[value] = RegisterTile(tile.layout, tile.element, tuple(done))
        lower, upper = host.env.scalars(list(loop.operands)[:2])
        with build.when(build.compare("slt", lower, upper)):
            self._release(host, number, self._rings[number].before(host.rounds[number]))

    def _release(self, host: PipelineContext, number: int, now: PipelineState) -> None:
        build = host.build
        read = any(is_vector(load) for load in self._plan.rings[number].loads)
        if read or any(kind != WGMMA for kind in self._plan.products.values()):
            # Lanes have read these bytes themselves: the one that arrives for its warp must wait for the others.
            build.create("nvvm.bar.warp.sync", [build.word(-1)])
        lane = build.bits(host.warp_set.thread, WARP - 1)
        if self._plan.schedule.cluster == 1:
            with build.when(build.compare("eq", lane, 0)):
                self._rings[number].release(now)
            return
        with build.when(build.compare("ult", lane, self._plan.schedule.cluster)):
            self._rings[number].release(now, build.to_word(lane))

    def _number(self, op: AnyOp) -> int | None:
        return next((n for n, ring in enumerate(self._plan.rings) if op in ring.loads), None)

    def _address(self, host: PipelineContext, op: AnyOp, number: int) -> ir.Value:
        build = host.build
        base = self._rings[number].data(self._now[number])
        offset = self._offsets[op]
        return build.value("arith.addi", [base, build.word(offset)], "i32") if offset else base


def has_box(kind: Array, shape: Sequence[int], dropped: Collection[int]) -> bool:
    """Return whether TMA can prefetch a tile of an array, and the tile is of many rows."""
    if len(kind.shape) > 5 or len(kind.shape) - 1 in dropped or len(shape) != 2 or kind.dtype.bits not in (16, 32):
        return False
    return min(shape) >= 8 and max(shape) <= 256 and shape[1] * kind.dtype.bytes % 16 == 0


def _holds(op: AnyOp, block: ir.Block) -> bool:
    """Return whether `block` is inside `op`."""
    return op.operation in (block.owner.operation, *ancestors(block.owner))
