"""Tile IR to Target IR for tile kernels: the team's code, and that of the warp that copies ahead.

Both run the same program; the copying warp leaves out everything but control flow, scalars and its copies.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final

from tessera.core.layouts import Layout
from tessera.core.mlir import ir
from tessera.core.tile.schedule_attributes import own_attributes
from tessera.lowering.analysis.uniformity import is_tile, walk
from tessera.lowering.base.attributes import dropped_axes, named_axis, proven_axes
from tessera.lowering.base.visitor import at_operation, operations_of
from tessera.lowering.cuda.base.cache_hints import cache_of
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.kernel_parameters import Signs, parameter, symbol_value
from tessera.lowering.cuda.base.memory import read, write
from tessera.lowering.cuda.base.profile_records import begin_group, end_group, phase
from tessera.lowering.cuda.base.scalars import scalar_operation
from tessera.lowering.cuda.epilogue.deferred import DeferredEpilogue, DeferredStore
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
from tessera.lowering.cuda.storage.global_access import Window, access_bytes
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile, convert, permuted
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.warps import ROLLED, WarpSet


class RoleEmitter:
    """Lowers one kernel for one role; `team` is None in the copying warp."""

    def __init__(
        self,
        frame: GpuFunction,
        plan: ScheduleView,
        stages: Pipelines,
        room: SharedScratch,
        copied: CpAsyncCopies,
        team: WarpSet | None,
    ) -> None:
        self.frame = frame
        self.plan = plan
        self.build: IndexBuilder = frame.build
        self.stages = stages
        self.room = room
        self.copied = copied
        self._team = team
        self.env: dict[Any, Any] = {}
        self.rounds: dict[int, PipelineState] = {}
        self._signs = Signs(frame.program)
        self.group: Any = frame.group
        self._where: Sequence[Any] = ()
        self.later = self._later(plan.later) if plan.later is not None and team is not None else None
        self.later_round: Any = None
        self.overlap: OverlappedMma | None = None
        self.running: AsyncAccumulation | None = None
        # The values of the largest tile computed lately: what hides a wait for a running product.
        self._lately: tuple[Any, ...] = ()

    def _later(self, plan: DeferredPlan) -> DeferredEpilogue:
        """What stores a group's result in the next one."""
        return DeferredRows(self, plan) if plan.rows else DeferredStore(self, plan)

    # -- roles -------------------------------------------------------------------------------------------------

    @property
    def copies(self) -> bool:
        """Whether this is the copying warp."""
        return self._team is None

    @property
    def team(self) -> WarpSet:
        """The team, whose code this is."""
        if self._team is None:
            message = "the copying warp has no tiles"
            raise AssertionError(message)
        return self._team

    def run(self, function: Any, group: Any, where: Sequence[Any] = ()) -> None:
        """Emit the code of one group; `where`: its row and its column, where it has them and they are known."""
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

    def block(self, block: Any) -> None:
        """Emit every operation of `block` but its terminator."""
        lately, self._lately = self._lately, ()
        for op in operations_of(block):
            with at_operation(self.build, op):
                self._step(op)
        if self.plan.specialised or block.owner.operation.name != "func.func":
            self.room.settle()
        self._lately = lately

    def _step(self, op: Any) -> None:
        """Emit one operation, and what has to come in front of it and behind it."""
        running = self.overlap
        if running is not None:
            if running.skips(op):
                return
            running.before(op)
        if len(op.regions):
            self.room.settle()
        self._settle(op)
        self.stages.before(self, op)
        self._operation(op)
        self.stages.after(self, op)
        if running is not None:
            running.after(op)

    def _settle(self, op: Any) -> None:
        """Wait for what still runs and is used somewhere inside `op`: a wait inside would be for one branch only."""
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

    def _operation(self, op: Any) -> None:
        name = str(op.name)
        special = _OPERATIONS.get(name)
        if special is not None:
            special(self, op)
        elif any(is_tile(v.type) for v in (*op.operands, *op.results)):
            if self.copies:
                self.stages.copy(self, op)
                return
            if self.later is not None and op == self.later.plan.store:
                self.later.keep()
                return
            # Where nothing is copied ahead a store is where loads are waited for, so its time says nothing.
            timed = name == "tessera.store" and self.plan.pipelined
            with phase(self.build, self.frame, "store") if timed else nullcontext():
                tile_operation(self, op)
        else:
            self._scalar(op)

    def repeat(self, op: Any) -> None:
        """Emit a scalar operation with the operands that are in `env` now."""
        self._operation(op)

    def _scalar(self, op: Any) -> None:
        axis = axis_of(op) if self._where else None
        if axis is not None:
            self.env[op.results[0]] = self.build.index(self._where[axis])
            return
        attributes = own_attributes(op)
        operands = [self.build.index(self.env[v]) for v in op.operands]
        self.env[op.results[0]] = scalar_operation(
            self.build, str(op.name), operands, str(op.results[0].type), attributes
        )

    def id(self, op: Any) -> None:
        """`tessera.id`: the group, or the number of groups."""
        axis = named_axis(op)
        of = ir.StringAttr(op.attributes["of"]).value
        if of == "group" and axis in (None, 0) and self.frame.rule.kind != "groups":
            self.env[op.results[0]] = self.group
            return
        before, self.frame.group = self.frame.group, self.group
        self.env[op.results[0]] = self.frame.identify(of, axis)
        self.frame.group = before

    def dim(self, op: Any) -> None:
        """`tessera.dim`: the value of a symbol."""
        self.env[op.results[0]] = symbol_value(self.frame, ir.StringAttr(op.attributes["symbol"]).value)

    def read(self, op: Any) -> None:
        """`tessera.read`: one element, the same for all lanes."""
        memory, *indices = op.operands
        self.order(op)
        places = [self.env[v] for v in indices]
        self.env[op.results[0]] = read(self.build, self.env[memory], places, str(op.results[0].type), proven_axes(op))

    def write(self, op: Any) -> None:
        """`tessera.write`: by one lane."""
        if self.copies:
            return
        memory, value, *indices = op.operands
        self.order(op)
        with self.build.when(self.team.first()):
            places = [self.env[v] for v in indices]
            write(self.build, self.env[memory], self.build.index(self.env[value]), places, proven_axes(op))

    def barrier(self, op: Any) -> None:
        """`tessera.barrier`: a kernel without lanes has nobody to wait for; what needs a wait is in `plan.order`."""

    def order(self, op: Any) -> bool:
        """Wait for the team where other lanes may touch what `op` does in an array; gives whether that is so."""
        order = self.plan.order
        if op in order.waits and not self.copies:
            if op in order.behind_stores and self.stages.copies_stores:
                sm90.bulk_wait(self.build, 0)
                sm90.fence_async_global(self.build)
            self.team.wait()
        return op in order.waits

    # -- tiles -------------------------------------------------------------------------------------------------

    def define(self, value: Any, tile: RegisterTile) -> None:
        """Say what a tile is; it is moved to its own layout where it is in another one."""
        self.env[value] = tile
        if tile.layout != self.layout(value):
            self.env[value] = self.tile(value)
        different = tuple(dict.fromkeys(tile.values))
        if tile.element == "f32" and len(different) >= len(self._lately):
            self._lately = different

    def layout(self, value: Any) -> Layout:
        """The layout that the plan gives a tile."""
        return self.plan.layouts[value]

    def tile(self, value: Any, layout: Layout | None = None) -> RegisterTile:
        """A tile in a layout, its own if none is given."""
        found: RegisterTile = self.env[value]
        if isinstance(found, Pending):
            found = self.env[value] = found.settle(self._lately)
        layout = layout or self.layout(value)
        if found.layout == layout:
            return found
        moved = permuted(found, layout)
        if moved is not None:
            return moved
        if found.again is not None:
            return found.again(layout)
        return convert(self.build, self.team, self.room, found, layout)

    def window(self, op: Any, memory: Any, starts: Sequence[Any], extents: Sequence[int]) -> Window:
        """The part of an array that `op` touches."""
        kind = self.stages.array(ir.BlockArgument(memory).arg_number)
        return Window(
            self.env[memory], tuple(self.env[v] for v in starts), dropped_axes(op), tuple(proven_axes(op)),
            tuple(extents), access_bytes(kind, op), cache_of(op),
        )  # fmt: skip

    def unsigned(self, op: Any) -> bool:
        """Whether the operands of `op` are unsigned integers in the Program."""
        return self._signs.unsigned(op)

    # -- control -----------------------------------------------------------------------------------------------

    def loop(self, op: Any) -> None:
        """`scf.for`: scalars, the values of tiles, and the rounds of rings are carried."""
        if op in self.plan.overlaps and not self.copies:
            OverlappedLoop(self, op, self.plan.overlaps[op], turns=self.plan.schedule.pingpong).emit()
            return
        lower, upper, step, *initial = op.operands
        inner = op.regions[0].blocks[0]
        carried = list(inner.arguments)[1:]
        last = list(list(inner.operations)[-1].operation.operands)
        rings = self.stages.inside(op)
        start = [v for pair in zip(initial, carried, strict=True) for v in self.values_of(*pair)]
        start += self.rounds_of(rings)
        bounds = [self.build.index(self.env[v]) for v in (lower, upper, step)]
        some = self.build.compare("slt", bounds[0], bounds[1])
        running = (
            AsyncAccumulation(self, self.stages.running[op]) if op in self.stages.running and not self.copies else None
        )
        if running is not None:
            start = running.begin_loop(some, start)
        elif not self.copies:
            start += self.copied.begin_loop(self, op)

        def body(index: Any, values: list[Any]) -> Sequence[Any]:
            self.env[inner.arguments[0]] = index
            before, self.later_round = self.later_round, self.build.compare("ne", index, bounds[0])
            rest = self.take(carried, values)
            self.take_rounds(rings, rest)
            if running is not None:
                more = self.build.compare("slt", self.build.add(index, bounds[2]), bounds[1])
                running.begin_round(rest[2 * len(rings) :], self.later_round, more)
            elif not self.copies:
                self.copied.begin_round(self, op, rest[2 * len(rings) :])
            outer, self.running = self.running, running
            self.block(inner)
            self.later_round, self.running = before, outer
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

    def branch(self, op: Any) -> None:
        """`scf.if`."""
        rings = self.stages.inside(op)
        results = list(op.results)
        condition = self.build.index(self.env[op.operands[0]])
        before = dict(self.rounds)
        kinds = [kind for value in results for kind in self.kinds_of(value)] + ["i32", "i32"] * len(rings)
        new = self.build.create("scf.if", [condition], kinds, regions=2)
        for region, source in zip(new.regions, op.regions, strict=True):
            self.rounds = dict(before)
            with self.build.at(region.blocks.append()):
                values: list[Any] = []
                for inner in source.blocks:
                    self.block(inner)
                    last = list(list(inner.operations)[-1].operation.operands)
                    values = [v for pair in zip(last, results, strict=True) for v in self.values_of(*pair)]
                values += self.rounds_of(rings)
                self.build.create("scf.yield", values)
        self.rounds = before
        rest = self.take(results, list(new.results))
        self.take_rounds(rings, rest)

    def values_of(self, value: Any, target: Any) -> list[Any]:
        """The scalars that stand for `value`, in the layout of `target`."""
        if not is_tile(value.type):
            return [self.build.index(self.env[value])]
        if self.copies:
            return []
        found = self.tile(value, self.layout(target))
        self.room.settle()
        return list(found.values)

    def kinds_of(self, value: Any) -> list[str]:
        """The types of the scalars that stand for a value."""
        if not is_tile(value.type):
            return [str(value.type)]
        return [] if self.copies else [str(value.type.element_type)] * self.layout(value).count

    def take(self, targets: list[Any], values: list[Any]) -> list[Any]:
        """Define `targets` from the front of `values`; gives the rest."""
        place = 0
        for target in targets:
            count = len(self.kinds_of(target))
            if is_tile(target.type):
                if not self.copies:
                    element = str(target.type.element_type)
                    self.env[target] = RegisterTile(self.layout(target), element, tuple(values[place : place + count]))
            else:
                self.env[target] = values[place]
            place += count
        return values[place:]

    def rounds_of(self, rings: Sequence[int]) -> list[Any]:
        """The rounds of rings, as values that a loop carries."""
        return [value for ring in rings for value in self.rounds[ring].values()]

    def take_rounds(self, rings: Sequence[int], values: list[Any]) -> None:
        """Go on with the rounds of rings at the front of `values`."""
        for number, ring in enumerate(rings):
            self.rounds[ring] = PipelineState(values[2 * number], values[2 * number + 1])


_OPERATIONS: Final[dict[str, Callable[[RoleEmitter, Any], None]]] = {
    "tessera.id": RoleEmitter.id,
    "tessera.dim": RoleEmitter.dim,
    "tessera.read": RoleEmitter.read,
    "tessera.write": RoleEmitter.write,
    "tessera.barrier": RoleEmitter.barrier,
    "scf.for": RoleEmitter.loop,
    "scf.if": RoleEmitter.branch,
}
