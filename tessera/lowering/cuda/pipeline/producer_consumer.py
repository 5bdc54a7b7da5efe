"""The rings of a kernel: who fills them when, who waits when, and who says that they are free."""

from collections.abc import Sequence
from typing import Any, Protocol

from tessera.core.artifact import Slot, TensorMap
from tessera.core.mlir import ir
from tessera.core.program.types import Array
from tessera.core.resources import Buffers
from tessera.lowering.base.attributes import dropped_axes
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
from tessera.lowering.cuda.storage.register_tiles import Pending
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.shared_tile import SharedTile, box_of, panels_of
from tessera.lowering.cuda.storage.warps import WARP, WarpSet


class PipelineContext(host.EmitContext, Protocol):
    """What the rings ask of the code around them."""

    rounds: dict[int, PipelineState]
    later_round: Any
    """An i1: the innermost loop is not in its first round."""

    @property
    def copies(self) -> bool:
        """Whether this is the copying warp."""
        ...


class Pipelines:
    """All rings of a kernel, as deep as its schedule says."""

    def __init__(self, frame: GpuFunction, plan: ScheduleView, room: SharedScratch, team: WarpSet) -> None:
        self._frame = frame
        self._plan = plan
        self._rings: list[Pipeline] = []
        self._maps: dict[tuple[int, TensorMap], Any] = {}
        self._now: dict[int, PipelineState] = {}
        self._offsets: dict[Any, int] = {}
        self._empty: dict[int, Any] = {}
        self.copies_stores = plan.specialised
        self.apart = plan.apart
        # A round's first product is issued before the buffers of the round before are free.
        self.running = plan.running if plan.schedule.stages > 1 else {}
        if not plan.rings:
            return
        build = frame.build
        self.store_blocks = plan.schedule.epilogue_stages
        # Otherwise the copy of the buffer that the next store begins with need not be the oldest one.
        self.fills_buffers_in_turn = all(blocks % self.store_blocks == 0 for blocks in plan.gathered)
        self.store_address = room.address(room.take(self.store_blocks * BLOCK_BYTES))
        counts = stage_counts(plan, plan.schedule)
        layouts = [stage_layout(ring) for ring in plan.rings]
        sizes = [layout.size for layout in layouts]
        self._offsets = {load: offset for layout in layouts for load, offset in layout.offsets.items()}
        places = [room.take(size * count) for size, count in zip(sizes, counts, strict=True)]
        barriers = room.take(2 * BARRIER_BYTES * sum(counts))
        address = room.address(barriers)
        for size, count, place, ring in zip(sizes, counts, places, plan.rings, strict=True):
            copied = sum(panels_of(load).bytes for load in ring.loads)
            arrivals = team.warps * plan.schedule.cluster
            self._rings.append(Pipeline(build, room.address(place), address, count, size, copied, arrivals))
            address = build.value("arith.addi", [address, build.word(2 * BARRIER_BYTES * count)], "i32")

    @property
    def count(self) -> int:
        """How many rings there are."""
        return len(self._rings)

    def add(self, ring: Pipeline) -> None:
        """Keep one more ring, which its maker fills and empties."""
        self._rings.append(ring)

    @property
    def buffers(self) -> tuple[Buffers, ...]:
        """How deep the rings became, by their numbers, and how much that is stored is gathered at a time."""
        if not self._rings:
            return ()
        rings = [
            Buffers(f"ring {n}", ring.stages, ring.stage_bytes)
            for n, ring in enumerate(self._rings[: len(self._plan.rings)])
        ]
        return (*rings, Buffers("stores", self.store_blocks, BLOCK_BYTES))

    @property
    def has_copied_stores(self) -> bool:
        """Whether the copy engine may store anything: into arrays that are aligned."""
        return any(self.array(number).aligned for number in self._plan.written)

    def initialise(self) -> None:
        """Make all barriers: one lane, before anybody else goes on."""
        for ring in self._rings:
            ring.initialise()
        sm90.fence_barrier_init(self._frame.build)

    def start(self) -> dict[int, PipelineState]:
        """The first round of every ring."""
        return {number: ring.start() for number, ring in enumerate(self._rings)}

    def inside(self, op: Any) -> Sequence[int]:
        """The rings that are filled somewhere inside `op`."""
        return [n for n, ring in enumerate(self._plan.rings) if _holds(op, ring.block)]

    # -- both roles --------------------------------------------------------------------------------------------

    def before(self, host: PipelineContext, op: Any) -> None:
        """What comes in front of an operation."""
        for number, ring in enumerate(self._plan.rings):
            if op == ring.loads[0]:
                now = self._now[number] = host.rounds[number]
                host.rounds[number] = self._rings[number].following(now)
                if host.copies:
                    self._rings[number].producer_acquire(now)
                    self._rings[number].expect(now)
            if op == ring.first and not host.copies and not self._is_overlapped(ring) and not self._is_early(ring):
                self._wait_full(number, self._now[number])

    def after(self, host: PipelineContext, op: Any) -> None:
        """What comes behind an operation."""
        if host.copies:
            return
        for number, ring in enumerate(self._plan.rings):
            if op == ring.last and not any(isinstance(host.env.get(value), Pending) for value in op.results):
                self._release_behind(host, number, ring)
            if ring.running is not None and op == ring.block.owner.operation:
                self._finish(host, number, op, ring)

    def release_behind(self, host: PipelineContext, op: Any) -> None:
        """Free the buffers that nothing reads behind `op`, a product that ran for some time and is done."""
        for number, ring in enumerate(self._plan.rings):
            if op == ring.last:
                self._release_behind(host, number, ring)

    def _release_behind(self, host: PipelineContext, number: int, ring: PipelinePlan) -> None:
        if ring.running is None and not self._is_overlapped(ring) and not self._runs(ring):
            self._release(host, number, self._now[number])

    # -- the copying warp --------------------------------------------------------------------------------------

    def copy(self, host: PipelineContext, op: Any) -> None:
        """Start the copies of a load; other operations on tiles are none of this warp's business."""
        number = self._number(op)
        if number is None:
            return
        ring, now = self._rings[number], self._now[number]
        build, panels = host.build, panels_of(op)
        memory, *starts = op.operands
        dropped = dropped_axes(op)
        parameter = self.parameter(memory)
        if is_vector(op):
            box = box_of((panels.columns,), dropped, len(starts))
            coordinates = [build.to_word(host.env[v]) for v in reversed(starts)]
            pointer = self.tensor_map(parameter, TensorMap(box))
            sm90.tensor_load(build, self._address(host, op, number), pointer, coordinates, ring.full(now))
            return
        cluster = self._plan.schedule.cluster if op in self._plan.shared else 1
        # Of what a cluster shares, each block loads a part: of the panels, or of the only panel's rows.
        parts = cluster if panels.count == 1 else 1
        rows = panels.rows // parts, panels.width
        box = box_of(rows, dropped, len(starts))
        plan = self._plan
        window = TensorMap(box, panels.swizzle, rounded=op in plan.rounded, realigned=op in plan.realigned)
        pointer = self.tensor_map(parameter, window)
        target = self._address(host, op, number)
        places = [host.env[v] for v in starts]
        first: Any = 0
        if cluster > 1:
            rank = build.to_index(sm90.cluster_rank(build))
            if parts == 1:
                first = build.mul(rank, panels.count // cluster)
            else:
                outer = next(axis for axis in range(len(places)) if axis not in dropped)
                places[outer] = build.add(places[outer], build.mul(rank, panels.rows // parts))
                offset = build.to_word(build.mul(rank, panels.panel_bytes // parts))
                target = build.value("arith.addi", [target, offset], "i32")
        for number_of_panel in range(panels.count // cluster if parts == 1 else 1):
            panel = build.add(first, number_of_panel)
            inner = build.add(places[-1], build.mul(panel, panels.width))
            coordinates = [build.to_word(v) for v in (inner, *reversed(places[:-1]))]
            offset = build.to_word(build.mul(panel, panels.panel_bytes))
            place = build.value("arith.addi", [target, offset], "i32")
            sm90.tensor_load(build, place, pointer, coordinates, ring.full(now), cluster)

    def tensor_map(self, parameter: int, box: TensorMap) -> Any:
        """A pointer to the tensor map of an array parameter: a parameter of the GPU function."""
        key = (parameter, box)
        if key not in self._maps:
            self._maps[key] = self._frame.slot(Slot("tensor_map", parameter, tensor_map=box), LOCAL)
        return self._maps[key]

    def prefetch_maps(self) -> None:
        """Fetch the tensor maps that any code emitted so far uses."""
        for pointer in self._maps.values():
            sm90.tensor_map_prefetch(self._frame.build, pointer)

    def parameter(self, memory: Any) -> int:
        """The number of the parameter that a Tile IR memref is."""
        return ir.BlockArgument(memory).arg_number

    def array(self, parameter: int) -> Array:
        """The type of an array parameter."""
        kind = self._frame.program.parameters[parameter].value.type
        if not isinstance(kind, Array):
            message = f"parameter {parameter} is no array"
            raise TypeError(message)
        return kind

    # -- the team ----------------------------------------------------------------------------------------------

    def staged(self, host: PipelineContext, op: Any) -> SharedTile | None:
        """The buffer that a load's bytes are in; None for a load that goes another way."""
        number = self._number(op)
        if number is None:
            return None
        return SharedTile(self._address(host, op, number), panels_of(op), str(op.results[0].type.element_type))

    def is_running(self, dot: Any) -> bool:
        """Whether a product need not be waited for in its own round."""
        return any(ring.running == dot for ring in self._plan.rings if ring.running is not None)

    def release_before(self, host: PipelineContext, dot: Any) -> None:
        """Free the buffers of the round before, whose product is done: not in the loop's first round."""
        number = next(n for n, ring in enumerate(self._plan.rings) if ring.running == dot)
        ring = self._rings[number]
        with host.build.when(host.later_round):
            self._release(host, number, ring.before(self._now[number]))

    def now(self, load: Any) -> PipelineState:
        """The round of a load's ring that is current."""
        return self._now[self._index(load)]

    def look_ahead(self, host: PipelineContext, loads: Sequence[Any]) -> None:
        """Look whether the next round of some loads' rings is there, so that `go_on` need not wait for the answer."""
        for number in dict.fromkeys(self._index(load) for load in loads):
            self._empty[number] = self._rings[number].is_empty(host.rounds[number])

    def go_on(self, host: PipelineContext, loads: Sequence[Any], more: Any | None) -> None:
        """Wait for the next round of some loads' rings, as if they stood here.

        Where `more` (an i1; None: true) is false there is none: nothing is waited for, and the bytes mean nothing.
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

    def release_ahead(self, host: PipelineContext, loads: Sequence[Any], more: Any | None) -> None:
        """Free the rounds that `go_on` waited for."""
        for number in dict.fromkeys(self._index(load) for load in loads):
            with host.build.when(more):
                self._release(host, number, self._now[number])

    def wait(self, load: Any, now: PipelineState) -> None:
        """Wait for a round of a load's ring."""
        self._wait_full(self._index(load), now)

    def _wait_full(self, number: int, now: PipelineState) -> None:
        with phase(self._frame.build, self._frame, "load"):
            self._rings[number].consumer_wait(now)

    def release(self, host: PipelineContext, load: Any, now: PipelineState) -> None:
        """Free a round of a load's ring."""
        self._release(host, self._index(load), now)

    def at(self, host: PipelineContext, load: Any, now: PipelineState, *, transposed: bool) -> SharedTile:
        """The buffer that a load's bytes are in, in a given round."""
        build, ring = host.build, self._rings[self._index(load)]
        base, offset = ring.data(now), self._offsets[load]
        address = build.value("arith.addi", [base, build.word(offset)], "i32") if offset else base
        return SharedTile(address, panels_of(load), str(load.results[0].type.element_type), transposed)

    def _index(self, load: Any) -> int:
        return next(n for n, ring in enumerate(self._plan.rings) if load in ring.loads)

    def coming(self, host: PipelineContext, load: Any) -> PipelineState:
        """The round of a load's ring that comes next."""
        return host.rounds[self._index(load)]

    def release_rings(self, host: PipelineContext, loop: Any) -> None:
        """Free what the last round of a loop whose products run on has read."""
        for number, ring in enumerate(self._plan.rings):
            if ring.block == loop.regions[0].blocks[0]:
                self._release(host, number, self._rings[number].before(host.rounds[number]))

    def _runs(self, ring: PipelinePlan) -> AsyncMmaPlan | None:
        """The loop of running products that a ring is filled in; it frees the ring itself."""
        return next((plan for plan in self.running.values() if plan.ahead.block == ring.block), None)

    def _is_early(self, ring: PipelinePlan) -> bool:
        """Whether a ring is waited for a round early."""
        plan = self._runs(ring)
        return plan is not None and plan.ahead == ring.first

    def _is_overlapped(self, ring: PipelinePlan) -> bool:
        """Whether an overlapped loop waits for and frees this ring itself."""
        return any(plan.load in ring.loads for plan in self._plan.overlaps.values())

    def _finish(self, host: PipelineContext, number: int, loop: Any, ring: PipelinePlan) -> None:
        """Behind a loop: wait for its last product and free its buffers."""
        build = host.build
        carried = next(
            use.operand_number for use in ring.running.results[0].uses if use.owner.operation.name == "scf.yield"
        )
        value = loop.results[carried]
        tile = host.env[value]
        done = sm90.wgmma_wait(build, 0, tile.values)
        host.env[value] = type(tile)(tile.layout, tile.element, tuple(done))
        lower, upper = (build.index(host.env[v]) for v in list(loop.operands)[:2])
        with build.when(build.compare("slt", lower, upper)):
            self._release(host, number, self._rings[number].before(host.rounds[number]))

    def _release(self, host: PipelineContext, number: int, now: PipelineState) -> None:
        build = host.build
        read = any(is_vector(load) for load in self._plan.rings[number].loads)
        if read or any(kind != WGMMA for kind in self._plan.products.values()):
            # Lanes have read these bytes themselves: one that arrives for its warp must know that all of them have.
            build.create("nvvm.bar.warp.sync", [build.word(-1)])
        lane = build.bits(host.team.thread, WARP - 1)
        if self._plan.schedule.cluster == 1:
            with build.when(build.compare("eq", lane, 0)):
                self._rings[number].release(now)
            return
        with build.when(build.compare("ult", lane, self._plan.schedule.cluster)):
            self._rings[number].release(now, build.to_word(lane))

    def _number(self, op: Any) -> int | None:
        return next((n for n, ring in enumerate(self._plan.rings) if op in ring.loads), None)

    def _address(self, host: PipelineContext, op: Any, number: int) -> Any:
        build = host.build
        base = self._rings[number].data(self._now[number])
        offset = self._offsets[op]
        return build.value("arith.addi", [base, build.word(offset)], "i32") if offset else base


def _holds(op: Any, block: Any) -> bool:
    """Whether `block` is inside `op`."""
    owner = block.owner
    while owner is not None:
        operation = owner.operation
        if operation == op:
            return True
        if operation.name == "func.func":
            return False
        owner = operation.block.owner
    return False
