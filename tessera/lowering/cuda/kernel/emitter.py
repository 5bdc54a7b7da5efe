"""Lower the Tile IR of a tile kernel to Target IR for one role: the consumer warps or the producer warp.

Both roles walk the same program; the producer warp emits control flow, scalars and its copies alone.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

from tessera.core.layouts import Layout
from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.tile.schedule_attributes import own_attributes
from tessera.lowering.base.attributes import dropped_axes, named_axis, proven_axes
from tessera.lowering.base.ir_walk import is_tile, walk
from tessera.lowering.base.visitor import at_operation, operations_of
from tessera.lowering.cuda.base.cache_hints import cache_of
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.kernel_parameters import Signs, parameter, symbol_value
from tessera.lowering.cuda.base.memory import read, write
from tessera.lowering.cuda.base.profile_records import begin_group, end_group, phase
from tessera.lowering.cuda.base.scalars import scalar_operation
from tessera.lowering.cuda.epilogue.deferred import DeferredEpilogue, DeferredTmaStore
from tessera.lowering.cuda.epilogue.deferred_rows import DeferredRows
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.kernel.tile_operations import tile_operation
from tessera.lowering.cuda.mma.async_accumulate import AsyncAccumulation
from tessera.lowering.cuda.mma.overlapped_attention_loop import OverlappedLoop
from tessera.lowering.cuda.mma.overlapped_mma import OverlappedMma
from tessera.lowering.cuda.pipeline.cp_async_pipeline import CpAsyncCopies
from tessera.lowering.cuda.pipeline.mbarrier_pipeline import PipelineState
from tessera.lowering.cuda.pipeline.producer_consumer import Pipelines
from tessera.lowering.cuda.schedule.multibuffer import DeferredPlan
from tessera.lowering.cuda.schedule.rasterization import axis_of
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.environment import Environment
from tessera.lowering.cuda.storage.global_access import Window, access_bytes
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile, convert, permuted
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.warps import ROLLED, WarpSet


class RoleEmitter:
    """Lower one kernel for one role; `warp_set` is None in the producer warp."""

    def __init__(
        self,
        frame: GpuFunction,
        plan: ScheduleView,
        stages: Pipelines,
        scratch: SharedScratch,
        copied: CpAsyncCopies,
        warp_set: WarpSet | None,
    ) -> None:
        self.frame = frame
        self.plan = plan
        self.build: IndexBuilder = frame.build
        self.stages = stages
        self.scratch = scratch
        self.copied = copied
        self._warp_set = warp_set
        self.env = Environment()
        self.rounds: dict[int, PipelineState] = {}
        self._signs = Signs(frame.program)
        self.group: Index = frame.group
        self._where: Sequence[Index] = ()
        self.deferred = self._deferred(plan.deferred) if plan.deferred is not None and warp_set is not None else None
        self.not_first_iteration: ir.Value | None = None
        self.overlap: OverlappedMma | None = None
        self.running: AsyncAccumulation | None = None
        # The values of the largest tile computed lately: they hide the wait for an MMA in flight.
        self._lately: tuple[ir.Value, ...] = ()

    def _deferred(self, plan: DeferredPlan) -> DeferredEpilogue:
        """Create what stores a group's result while the next group runs (the deferred epilogue)."""
        return DeferredRows(self, plan) if plan.rows else DeferredTmaStore(self, plan)

    # -- roles -------------------------------------------------------------------------------------------------

    @property
    def copies(self) -> bool:
        """Return whether this is the producer warp."""
        return self._warp_set is None

    @property
    def warp_set(self) -> WarpSet:
        """Return the consumer warps, whose code this is."""
        if self._warp_set is None:
            message = "the producer warp has no tiles"
            raise AssertionError(message)
        return self._warp_set

    def run(self, function: AnyOp, group: Index, where: Sequence[Index] = ()) -> None:
        """Emit the code of one group; `where`: its row and column of work tiles, if they are known."""
        block = function.regions[0].blocks[0]
        self.group = self.frame.group = group
        self._where = where
        for number, argument in enumerate(block.arguments):
            self.env[argument] = parameter(self.frame, number)
        if not self.copies:
            begin_group(self.build, self.frame)
        self.block(block)
        if not self.copies:
            end_group(self.build, self.frame)

    # -- operations --------------------------------------------------------------------------------------------

    def block(self, block: ir.Block) -> None:
        """Emit every operation of `block` but its terminator."""
        lately, self._lately = self._lately, ()
        for op in operations_of(block):
            with at_operation(self.build, op):
                self._step(op)
        if self.plan.specialised or block.owner.operation.name != "func.func":
            self.scratch.settle()
        self._lately = lately

    def _step(self, op: AnyOp) -> None:
        """Emit one operation, and what has to come before and after it."""
        running = self.overlap
        if running is not None:
            if running.skips(op):
                return
            running.before(op)
        if len(op.regions):
            self.scratch.settle()
        self._settle(op)
        self.stages.before(self, op)
        self._operation(op)
        self.stages.after(self, op)
        if running is not None:
            running.after(op)

    def _settle(self, op: AnyOp) -> None:
        """Wait for MMAs in flight whose results are used inside `op`: a wait in there would cover one branch only."""
        if not len(op.regions):
            return
        pending = [value for value, meaning in self.env.items() if isinstance(meaning, Pending)]
        if pending:
            used = {operand for inner in walk(op.regions[0].blocks[0]) for operand in inner.operands}
            for region in list(op.regions)[1:]:
                for block in region.blocks:
                    used |= {operand for inner in walk(block) for operand in inner.operands}
            for value in pending:
                if value in used:
                    self.tile(value)

    def _operation(self, op: AnyOp) -> None:
        name = str(op.name)
        special = _OPERATIONS.get(name)
        if special is not None:
            special(self, op)
        elif any(is_tile(v.type) for v in (*op.operands, *op.results)):
            if self.copies:
                self.stages.copy(self, op)
                return
            if self.deferred is not None and op == self.deferred.plan.store:
                self.deferred.keep()
                return
            # Without pipelines, loads are waited for at the store, so that its time would mean nothing.
            timed = name == "tessera.store" and self.plan.pipelined
            with phase(self.build, self.frame, "store") if timed else nullcontext():
                tile_operation(self, op)
        else:
            self._scalar(op)

    def repeat(self, op: AnyOp) -> None:
        """Emit a scalar operation with the operands that are in `env` now."""
        self._operation(op)

    def _scalar(self, op: AnyOp) -> None:
        axis = axis_of(op) if self._where else None
        if axis is not None:
            self.env[op.results[0]] = self.build.index(self._where[axis])
            return
        attributes = own_attributes(op)
        operands = [self.build.index(v) for v in self.env.scalars(op.operands)]
        self.env[op.results[0]] = scalar_operation(
            self.build, str(op.name), operands, str(op.results[0].type), attributes
        )

    def id(self, op: AnyOp) -> None:
        """Emit `tessera.id`: the group, or the number of groups."""
        axis = named_axis(op)
        of = ir.StringAttr(op.attributes["of"]).value
        if of == "group" and axis in (None, 0) and self.frame.rule.kind != "groups":
            self.env[op.results[0]] = self.group
            return
        with self._in_group():
            self.env[op.results[0]] = self.frame.identify(of, axis)

    @contextmanager
    def _in_group(self) -> Generator[None]:
        """Make this role's group the function's inside the `with`."""
        before, self.frame.group = self.frame.group, self.group
        try:
            yield
        finally:
            self.frame.group = before

    def dim(self, op: AnyOp) -> None:
        """Emit `tessera.dim`: the value of a symbol."""
        self.env[op.results[0]] = symbol_value(self.frame, ir.StringAttr(op.attributes["symbol"]).value)

    def read(self, op: AnyOp) -> None:
        """Emit `tessera.read`: one element, the same for all lanes."""
        memory, *indices = op.operands
        self.order(op)
        places = self.env.scalars(indices)
        self.env[op.results[0]] = read(
            self.build, self.env.memory(memory), places, str(op.results[0].type), proven_axes(op)
        )

    def write(self, op: AnyOp) -> None:
        """Emit `tessera.write`, which one lane does."""
        if self.copies:
            return
        memory, value, *indices = op.operands
        self.order(op)
        with self.build.when(self.warp_set.first()):
            places = self.env.scalars(indices)
            write(
                self.build, self.env.memory(memory), self.build.index(self.env.scalar(value)), places, proven_axes(op)
            )

    def barrier(self, op: AnyOp) -> None:
        """Emit nothing for `tessera.barrier`: tile kernels have no lanes to wait; `plan.order` lists their waits."""

    def order(self, op: AnyOp) -> bool:
        """Synchronize the consumer warps if other lanes may touch what `op` accesses; return whether they may."""
        order = self.plan.order
        if op in order.waits and not self.copies:
            if op in order.behind_stores and self.stages.copies_stores:
                sm90.bulk_wait(self.build, 0)
                sm90.fence_async_global(self.build)
            self.warp_set.wait()
        return op in order.waits

    # -- tiles -------------------------------------------------------------------------------------------------

    def define(self, value: ir.Value, tile: RegisterTile) -> None:
        """Record the registers of a tile, converted to the layout that the schedule gives it."""
        self.env[value] = tile
        if tile.layout != self.layout(value):
            self.env[value] = self.tile(value)
        different = tuple(dict.fromkeys(tile.values))
        if tile.element == "f32" and len(different) >= len(self._lately):
            self._lately = different

    def layout(self, value: ir.Value) -> Layout:
        """Return the layout that the schedule gives a tile."""
        return self.plan.layouts[value]

    def tile(self, value: ir.Value, layout: Layout | None = None) -> RegisterTile:
        """Return a tile in `layout`, by default its own."""
        waiting = self.env[value]
        if isinstance(waiting, Pending):
            self.env[value] = waiting.settle(self._lately)
        found = self.env.registers(value)
        layout = layout or self.layout(value)
        if found.layout == layout:
            return found
        moved = permuted(found, layout)
        if moved is not None:
            return moved
        if found.again is not None:
            return found.again(layout)
        return convert(self.build, self.warp_set, self.scratch, found, layout)

    def window(self, op: AnyOp, memory: ir.Value, starts: Sequence[ir.Value], extents: Sequence[int]) -> Window:
        """Return the part of an array that `op` accesses."""
        kind = self.stages.array(ir.BlockArgument(memory).arg_number)
        return Window(
            self.env.memory(memory), tuple(self.env.scalars(starts)), dropped_axes(op), tuple(proven_axes(op)),
            tuple(extents), access_bytes(kind, op), cache_of(op),
        )  # fmt: skip

    def unsigned(self, op: AnyOp) -> bool:
        """Return whether the operands of `op` are unsigned integers in the Program."""
        return self._signs.unsigned(op)

    # -- control -----------------------------------------------------------------------------------------------

    def loop(self, op: AnyOp) -> None:
        """Emit `scf.for`, which carries scalars, the registers of tiles, and the states of pipelines."""
        if op in self.plan.overlaps and not self.copies:
            OverlappedLoop(self, op, self.plan.overlaps[op], pingpong=self.plan.schedule.pingpong).emit()
            return
        lower, upper, step, *initial = op.operands
        inner = op.regions[0].blocks[0]
        carried = list(inner.arguments)[1:]
        last = list(list(inner.operations)[-1].operation.operands)
        rings = self.stages.inside(op)
        start = [v for pair in zip(initial, carried, strict=True) for v in self.values_of(*pair)]
        start += self.rounds_of(rings)
        bounds = [self.build.index(v) for v in self.env.scalars((lower, upper, step))]
        some = self.build.compare("slt", bounds[0], bounds[1])
        running = (
            AsyncAccumulation(self, self.stages.running[op]) if op in self.stages.running and not self.copies else None
        )
        if running is not None:
            start = running.begin_loop(some, start)
        elif not self.copies:
            start += self.copied.begin_loop(self, op)

        def body(index: Index, values: list[ir.Value]) -> Sequence[ir.Value]:
            self.env[inner.arguments[0]] = index
            not_first = self.build.compare("ne", index, bounds[0])
            with self._iteration(not_first, running):
                rest = self.take(carried, values)
                self.take_rounds(rings, rest)
                if running is not None:
                    more = self.build.compare("slt", self.build.add(index, bounds[2]), bounds[1])
                    running.begin_round(rest[2 * len(rings) :], not_first, more)
                elif not self.copies:
                    self.copied.begin_round(self, op, rest[2 * len(rings) :])
                self.block(inner)
            started = [] if self.copies or running is not None else self.copied.end_round(self, op)
            results = [v for pair in zip(last, carried, strict=True) for v in self.values_of(*pair)]
            results += self.rounds_of(rings)
            if running is not None:
                return results + running.end_round()
            return results + started

        ends = self.build.loop(bounds[0], bounds[1], bounds[2], start, body, ROLLED)
        rest = self.take(list(op.results), ends)
        self.take_rounds(rings, rest)
        if running is not None:
            running.end_loop(some)

    @contextmanager
    def _iteration(self, not_first: ir.Value, running: AsyncAccumulation | None) -> Generator[None]:
        """Emit an iteration of a loop inside the `with`; `not_first` (an i1): whether one came before."""
        before = self.not_first_iteration, self.running
        self.not_first_iteration, self.running = not_first, running
        try:
            yield
        finally:
            self.not_first_iteration, self.running = before

    @contextmanager
    def overlapping(self, overlap: OverlappedMma) -> Generator[None]:
        """Issue and delay MMAs as `overlap` says inside the `with`."""
        before, self.overlap = self.overlap, overlap
        try:
            yield
        finally:
            self.overlap = before

    def branch(self, op: AnyOp) -> None:
        """Emit `scf.if`, which yields the same kinds of values as a loop carries."""
        rings = self.stages.inside(op)
        results = list(op.results)
        condition = self.build.index(self.env.scalar(op.operands[0]))
        before = dict(self.rounds)
        kinds = [kind for value in results for kind in self.kinds_of(value)] + ["i32", "i32"] * len(rings)
        new = self.build.create("scf.if", [condition], kinds, regions=2)
        for region, source in zip(new.regions, op.regions, strict=True):
            self.rounds = dict(before)
            with self.build.at(region.blocks.append()):
                values: list[ir.Value] = []
                for inner in source.blocks:
                    self.block(inner)
                    last = list(list(inner.operations)[-1].operation.operands)
                    values = [v for pair in zip(last, results, strict=True) for v in self.values_of(*pair)]
                values += self.rounds_of(rings)
                self.build.create("scf.yield", values)
        self.rounds = before
        rest = self.take(results, list(new.results))
        self.take_rounds(rings, rest)

    def values_of(self, value: ir.Value, target: ir.Value) -> list[ir.Value]:
        """Return the scalars that stand for `value`, in the layout of `target`."""
        if not is_tile(value.type):
            return [self.build.index(self.env.scalar(value))]
        if self.copies:
            return []
        found = self.tile(value, self.layout(target))
        self.scratch.settle()
        return list(found.values)

    def kinds_of(self, value: ir.Value) -> list[str]:
        """Return the types of the scalars that stand for a value."""
        if not is_tile(value.type):
            return [str(value.type)]
        return [] if self.copies else [str(ir.ShapedType(value.type).element_type)] * self.layout(value).count

    def take(self, targets: Sequence[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        """Define `targets` from the front of `values` and return the rest."""
        place = 0
        for target in targets:
            count = len(self.kinds_of(target))
            if is_tile(target.type):
                if not self.copies:
                    element = str(ir.ShapedType(target.type).element_type)
                    self.env[target] = RegisterTile(self.layout(target), element, tuple(values[place : place + count]))
            else:
                self.env[target] = values[place]
            place += count
        return values[place:]

    def rounds_of(self, rings: Sequence[int]) -> list[ir.Value]:
        """Return the states of pipelines, as values that a loop carries."""
        return [value for ring in rings for value in self.rounds[ring].values()]

    def take_rounds(self, rings: Sequence[int], values: list[ir.Value]) -> None:
        """Continue with the states of pipelines at the front of `values`."""
        for number, ring in enumerate(rings):
            self.rounds[ring] = PipelineState(values[2 * number], values[2 * number + 1])


_OPERATIONS: Final[dict[str, Callable[[RoleEmitter, AnyOp], None]]] = {
    "tessera.id": RoleEmitter.id,
    "tessera.dim": RoleEmitter.dim,
    "tessera.read": RoleEmitter.read,
    "tessera.write": RoleEmitter.write,
    "tessera.barrier": RoleEmitter.barrier,
    "scf.for": RoleEmitter.loop,
    "scf.if": RoleEmitter.branch,
}
