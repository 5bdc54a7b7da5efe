"""Lower Tile IR to Target IR: one GPU function, each lane of a group one thread.

Scalars become scalars: every lane computes uniform values too.  What runs once per group, such as a uniform write, is
left to lane 0; `BarrierInsertion` keeps the order.  A loop or branch that is uniform throughout and only writes memory
is given to lane 0 as a whole, so that a read-modify-write loop needs no barrier in it.  All lanes share the work of
tile operations (`tile_operations`), or each does all of it where only some lanes run.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.tile.location import identities
from tessera.lowering.base.attributes import named_axis, proven_axes
from tessera.lowering.base.ir_walk import is_memory, is_tile, walk
from tessera.lowering.base.visitor import at_operation, operations_of
from tessera.lowering.cuda.base.cache_hints import cache_of
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.kernel_parameters import Signs, parameter, symbol_value
from tessera.lowering.cuda.base.memory import SWIZZLE_BYTES, GlobalMemory, bytes_of, read, row_major, write
from tessera.lowering.cuda.base.profile_records import begin_group, end_group
from tessera.lowering.cuda.base.scalars import scalar_operation
from tessera.lowering.cuda.simt.analyses import KernelAnalyses
from tessera.lowering.cuda.simt.async_copies import PendingCopies
from tessera.lowering.cuda.simt.barrier_insertion import GROUP, LANE, LEADER, BarrierInsertion
from tessera.lowering.cuda.simt.buffer_lifetimes import BufferLifetimes
from tessera.lowering.cuda.simt.coarsened_emission import CoarsenedEmission
from tessera.lowering.cuda.simt.control import Control
from tessera.lowering.cuda.simt.copies import copy_window
from tessera.lowering.cuda.simt.synchronization import Sync
from tessera.lowering.cuda.simt.thread_coarsening import Coarsening
from tessera.lowering.cuda.simt.tile_operations import tile_operation
from tessera.lowering.cuda.simt.tile_values import ComputingLanes, Meaning, TileBuffers, TileValue

_NONE: Final[frozenset[int]] = frozenset()


class SimtLowering:
    """Lower one kernel; `env`: what each Tile IR value has become."""

    def __init__(
        self, frame: GpuFunction, facts: KernelAnalyses, function: AnyOp, plan: Coarsening | None = None
    ) -> None:
        self.frame = frame
        self.plan = plan or Coarsening()
        self.facts = facts
        self.build: IndexBuilder = frame.build
        self.sync = Sync(frame, self.build)
        self.hazards = BarrierInsertion(self.sync.barrier, enabled=not frame.whole_launch)
        self.group_lanes = ComputingLanes(frame.tid, frame.block_lanes)
        self.tiles = TileBuffers(frame, self.build, self.hazards, self.group_lanes, facts.memory.next_class)
        self.lifetimes = BufferLifetimes(facts)
        self.control = Control(self)
        self.env: dict[ir.Value, Meaning] = {}
        self.leading = False
        self.body = function.regions[0].blocks[0]
        names = {op.name for op in walk(self.body)}
        self.copies = "tessera.copy" in names
        self.flight = PendingCopies(self.build, facts)
        self.sync.needed = not names.isdisjoint(("tessera.shuffle", "tessera.group_sync"))
        self._signs = Signs(frame.program)
        for number, argument in enumerate(self.body.arguments):
            self.env[argument] = parameter(frame, number)

    # -- the whole ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Emit the function's code."""
        frame, build = self.frame, self.build
        self.sync.prepare({_size(op) for op in walk(self.body) if op.name == "tessera.group_sync"})
        if self.plan.elements > 1:
            begin_group(build, frame)
            CoarsenedEmission(self, self.plan).run()
            end_group(build, frame)
        elif frame.whole_launch:
            inside = build.inside(frame.lane, frame.lanes_in_launch)
            begin_group(build, frame)
            with self.sync.running(self.sync.split(inside)[0]), build.when(inside):
                self.block(self.body)
            end_group(build, frame)
        elif frame.spill:
            groups = build.index(frame.groups())

            def one(group: Index, _: list[ir.Value]) -> list[ir.Value]:
                frame.group = group
                begin_group(build, frame)
                self.block(self.body)
                self.sync.barrier()
                end_group(build, frame)
                return []

            build.loop(frame.block, groups, frame.blocks(), [], one)
        else:
            begin_group(build, frame)
            self.block(self.body)
            end_group(build, frame)
        build.create("llvm.return")

    def block(self, block: ir.Block) -> None:
        """Emit every operation of `block` but its terminator."""
        for op in operations_of(block):
            self.operation(op)

    def operation(self, op: AnyOp) -> None:
        """Emit one operation, with its own location."""
        with at_operation(self.build, op):
            self._operation(op)
        for buffer in self.lifetimes.done(op):
            self.tiles.free(buffer)

    def _operation(self, op: AnyOp) -> None:
        name = str(op.name)
        if name in ("scf.for", "scf.if", "scf.while"):
            self.control.region(op)
            return
        special = _OPERATIONS.get(name)
        if special is not None:
            special(self, op)
        elif any(is_tile(v.type) for v in (*op.operands, *op.results)):
            with self.lanes_of(op):
                tile_operation(self, op)
        else:
            self._scalar(op)

    # -- what values are ---------------------------------------------------------------------------------------

    def define(self, value: ir.Value, meaning: Meaning) -> None:
        """Record what a Tile IR value has become."""
        self.env[value] = meaning

    def scalar(self, value: ir.Value) -> Index:
        """Return the target scalar of a Tile IR scalar."""
        found = self.env[value]
        assert not isinstance(found, GlobalMemory | TileValue), "an array or a tile is no scalar"
        return found

    def typed(self, value: ir.Value) -> ir.Value:
        """Return the target scalar as an MLIR value."""
        return self.build.index(self.scalar(value))

    def tile(self, value: ir.Value) -> TileValue:
        """Return the tile of a Tile IR tile."""
        found = self.env[value]
        assert isinstance(found, TileValue), "an array or a scalar is no tile"
        return found

    def memory(self, value: ir.Value) -> GlobalMemory:
        """Return the array or buffer behind a Tile IR memref."""
        found = self.env[value]
        assert isinstance(found, GlobalMemory), "a tile or a scalar is no array"
        return found

    def memory_classes(self, value: ir.Value) -> frozenset[int]:
        """Return the class of a memref, if the kernel writes it."""
        number = self.facts.memory.class_of(value)
        return frozenset((number,)) if number in self.facts.memory.written else _NONE

    def unsigned(self, op: AnyOp) -> bool:
        """Return whether the operands of `op` are unsigned integers in the Program."""
        return self._signs.unsigned(op)

    @contextmanager
    def lanes_of(self, op: AnyOp) -> Generator[None]:
        """Have tiles computed by all lanes, or by each for itself if `op` is not uniform, inside the `with`."""
        with self.shared_work(
            self.facts.divergence.is_uniform(op) and not self.frame.whole_launch and not self.leading
        ):
            yield

    @contextmanager
    def by_leader(self) -> Generator[None]:
        """Emit code that lane 0 runs alone inside the `with`."""
        before, self.leading = self.leading, True
        try:
            yield
        finally:
            self.leading = before

    @contextmanager
    def shared_work(self, shared: bool) -> Generator[None]:
        """Have tiles computed by the whole group, or by each lane for itself, inside the `with`."""
        before = self.tiles.computing_lanes
        self.tiles.computing_lanes = self.group_lanes if shared else ComputingLanes(self.build.index(0), 1, serial=True)
        try:
            yield
        finally:
            self.tiles.computing_lanes = before

    def agent(self, op: AnyOp) -> str:
        """Return the agent that runs `op`: each lane, the leader or the group."""
        if self.leading:
            return LEADER
        return GROUP if self.facts.divergence.is_uniform(op) else LANE

    # -- operations --------------------------------------------------------------------------------------------

    def _scalar(self, op: AnyOp) -> None:
        result = op.results[0]
        if is_memory(result.type):  # a buffer chosen by a condition
            condition, *arrays = op.operands
            yes, no = (self.memory(v) for v in arrays)
            pointer = self.build.select(self.typed(condition), yes.pointer, no.pointer)
            self.env[result] = GlobalMemory(pointer, yes.element, yes.extents, yes.strides, yes.swizzled)
            return
        attributes = {key: op.attributes[key] for key in op.attributes}
        operands = [self.typed(v) for v in op.operands]
        self.env[result] = scalar_operation(self.build, str(op.name), operands, str(result.type), attributes)

    def id(self, op: AnyOp) -> None:
        """Emit `tessera.id`."""
        axis = named_axis(op)
        value = self.frame.identify(ir.StringAttr(op.attributes["of"]).value, axis)
        self.env[op.results[0]] = value
        # The value may have been computed at the entry of the function: that code now represents this operation.
        owner = None if isinstance(value, int) or isinstance(value.owner, ir.Block) else value.owner.operation
        if owner is not None and not identities(owner.location):
            owner.location = op.location

    def dim(self, op: AnyOp) -> None:
        """Emit `tessera.dim`: the value of a symbol."""
        self.env[op.results[0]] = symbol_value(self.frame, ir.StringAttr(op.attributes["symbol"]).value)

    def read(self, op: AnyOp) -> None:
        """Emit `tessera.read`: one element."""
        memory, *indices = op.operands
        self.hazards.access(self.agent(op), reads=self.memory_classes(memory))
        places, kind = [self.scalar(v) for v in indices], str(op.results[0].type)
        self.env[op.results[0]] = read(self.build, self.memory(memory), places, kind, proven_axes(op), cache_of(op))

    def write(self, op: AnyOp) -> None:
        """Emit `tessera.write`: by lane 0 alone if the group writes once."""
        memory, value, *indices = op.operands
        alone = self.facts.divergence.is_uniform(op) and not self.leading
        self.hazards.access(LEADER if alone else self.agent(op), writes=self.memory_classes(memory))
        with self.build.when(self.frame.leader() if alone else None):
            places = [self.scalar(v) for v in indices]
            write(self.build, self.memory(memory), self.typed(value), places, proven_axes(op), cache_of(op))

    def alloc(self, op: AnyOp) -> None:
        """Emit `tessera.alloc`: reserve a part of the block's shared memory."""
        kind = ir.MemRefType(op.results[0].type)
        extents, element = tuple(kind.shape), str(kind.element_type)
        swizzled = "xor" in str(kind.memory_space)
        piece = self.frame.shared.take(bytes_of(element, extents, swizzled), SWIZZLE_BYTES if swizzled else 128)
        if piece is None:
            limit = self.frame.chip.shared_bytes
            message = f"the kernel's shared memory is more than the {limit} bytes a group has on {self.frame.chip.name}"
            raise NotOnCuda(message, hint="allocate smaller buffers")
        pointer = self.build.offset(self.frame.shared_base, piece.start, "i8")
        self.env[op.results[0]] = GlobalMemory(pointer, element, extents, row_major(self.build, extents), swizzled)

    def copy(self, op: AnyOp) -> None:
        """Emit `tessera.copy`: start copying a window into shared memory."""
        destination, source, *starts = op.operands
        with self.lanes_of(op):
            self.tiles.access(self.memory_classes(source), self.memory_classes(destination))
            copy_window(self, op, self.memory(destination), self.memory(source), [self.scalar(v) for v in starts])
        self.flight.started(op)

    def barrier(self, op: AnyOp) -> None:
        """Emit `tessera.barrier`: wait for the copies that may be observed next, then for all lanes."""
        if self.frame.whole_launch:
            message = "a barrier in a kernel whose one group is the whole launch"
            raise NotOnCuda(message, hint="give the group's size: `@kernel tile[(128,)]`")
        if self.copies:
            self.flight.land(op)
        self.sync.barrier(divergent=self.facts.divergence.is_divergent(op))
        self.hazards.clear()

    def group_sync(self, op: AnyOp) -> None:
        """Emit `tessera.group_sync`."""
        self.sync.group_sync(_size(op), divergent=self.facts.divergence.is_divergent(op))

    def shuffle(self, op: AnyOp) -> None:
        """Emit `tessera.shuffle`."""
        value, lane = op.operands
        mode, width = ir.StringAttr(op.attributes["mode"]).value, ir.IntegerAttr(op.attributes["width"]).value
        self.env[op.results[0]] = self.sync.shuffle(self.typed(value), self.scalar(lane), mode, width)


def lower(frame: GpuFunction, facts: KernelAnalyses, function: AnyOp, plan: Coarsening | None = None) -> None:
    """Emit the code of the `func.func` into `frame`, with several elements per thread if `plan` says so.

    Raises:
        NotOnCuda: the kernel needs something that a GPU does not have.
    """
    SimtLowering(frame, facts, function, plan).run()


def _size(op: AnyOp) -> int:
    """Return the number of lanes of a cooperative group."""
    return int(ir.IntegerAttr(op.attributes["size"]).value)


_OPERATIONS: Final[dict[str, Callable[[SimtLowering, AnyOp], None]]] = {
    "tessera.id": SimtLowering.id,
    "tessera.dim": SimtLowering.dim,
    "tessera.read": SimtLowering.read,
    "tessera.write": SimtLowering.write,
    "tessera.alloc": SimtLowering.alloc,
    "tessera.copy": SimtLowering.copy,
    "tessera.barrier": SimtLowering.barrier,
    "tessera.group_sync": SimtLowering.group_sync,
    "tessera.shuffle": SimtLowering.shuffle,
}
