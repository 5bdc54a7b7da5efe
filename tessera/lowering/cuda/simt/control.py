"""Lower loops and branches: which lanes run them, the values they carry, and the barriers at their ends.

Scalars and addresses are carried as SSA values.  A carried tile has one buffer for the whole loop: it is filled before
the loop and refilled at the end of each iteration.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.memory_accesses import READS, WRITES
from tessera.lowering.base.ir_walk import is_memory, is_tile, walk
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import SHARED, IndexBuilder
from tessera.lowering.cuda.base.memory import GlobalMemory
from tessera.lowering.cuda.simt.analyses import KernelAnalyses
from tessera.lowering.cuda.simt.barrier_insertion import LANE, LEADER, BarrierInsertion, Snapshot
from tessera.lowering.cuda.simt.buffer_lifetimes import BufferLifetimes
from tessera.lowering.cuda.simt.synchronization import Sync
from tessera.lowering.cuda.simt.tile_values import Buffer, Meaning, TileBuffers, TileValue

_NONE: Final[frozenset[int]] = frozenset()
_SYNCHRONISING: Final = frozenset(("tessera.barrier", "tessera.group_sync"))
_NOT_FOR_ONE: Final = frozenset(("tessera.shuffle", "tessera.alloc", "tessera.copy")) | _SYNCHRONISING


class ControlOwner(Protocol):
    """Declare what control flow needs of the lowering."""

    frame: GpuFunction
    build: IndexBuilder
    facts: KernelAnalyses
    sync: Sync
    hazards: BarrierInsertion
    tiles: TileBuffers
    lifetimes: BufferLifetimes
    env: dict[ir.Value, Meaning]
    leading: bool

    def block(self, block: ir.Block) -> None:
        """Emit a block without its terminator."""
        ...

    def typed(self, value: ir.Value) -> ir.Value:
        """Return the target scalar as an MLIR value."""
        ...

    def tile(self, value: ir.Value) -> TileValue:
        """Return the tile of a Tile IR tile."""
        ...

    def by_leader(self) -> AbstractContextManager[None]:
        """Emit code that lane 0 runs alone inside the `with`."""
        ...

    def shared_work(self, shared: bool) -> AbstractContextManager[None]:
        """Have tiles computed by the whole group, or by each lane for itself, inside the `with`."""
        ...

    def memory_classes(self, value: ir.Value) -> frozenset[int]:
        """Return the class of a memref, if the kernel writes it."""
        ...


@dataclass(frozen=True, slots=True)
class Contents:
    """Summarize a region: `group` statements, which the group runs together, `syncs`, and the memory it accesses."""

    group: bool
    syncs: bool
    single: bool
    shuffles: bool
    reads: frozenset[int]
    writes: frozenset[int]


class Control:
    """Emit `scf.for`, `scf.if` and `scf.while` for a lowering."""

    def __init__(self, owner: ControlOwner) -> None:
        self.owner = owner
        self._spent: list[Buffer] = []

    def region(self, op: AnyOp) -> None:
        """Emit one loop or branch."""
        owner, facts = self.owner, self.owner.facts
        emit = {"scf.for": self._for, "scf.if": self._if, "scf.while": self._while}[op.name]
        if owner.leading or facts.divergence.is_divergent(op):
            emit(op)
            return
        contents = self._contents(op)
        varies = facts.divergence.is_divergent(_terminator(op))
        if not varies and self._for_one(op, contents):
            owner.hazards.access(LEADER, contents.reads, contents.writes)
            with owner.hazards.suspended(), owner.build.when(owner.frame.leader()), owner.by_leader():
                emit(op)
        elif varies or not (contents.group or contents.syncs):
            owner.hazards.access(LANE, contents.reads, contents.writes)
            with owner.hazards.suspended():
                emit(op)
        else:
            emit(op)

    # -- what is inside ----------------------------------------------------------------------------------------

    def _contents(self, op: AnyOp) -> Contents:
        facts = self.owner.facts
        inner = [o for region in op.regions for block in region.blocks for o in walk(block)]
        return Contents(
            group=any(self._is_group(o) for o in inner),
            syncs=any(o.name in _SYNCHRONISING for o in inner),
            single=not any(
                o.name in _NOT_FOR_ONE
                or any(is_tile(v.type) for v in (*o.operands, *o.results))
                or any(facts.divergence.varies(v) for v in (*o.operands, *o.results))
                for o in inner
            ),
            shuffles=any(o.name in ("tessera.shuffle", "tessera.group_sync") for o in inner),
            reads=_NONE.union(*(self._touched(o, READS) for o in inner)),
            writes=_NONE.union(*(self._touched(o, WRITES) for o in inner)),
        )

    def _touched(self, op: AnyOp, table: dict[str, int]) -> frozenset[int]:
        number = table.get(op.name)
        return _NONE if number is None else self.owner.memory_classes(op.operands[number])

    def _is_group(self, op: AnyOp) -> bool:
        """Return whether the group as a whole runs `op`, with barriers around it where they are needed."""
        facts = self.owner.facts
        if any(is_tile(v.type) for v in (*op.operands, *op.results)):
            return True
        if op.name == "tessera.copy":
            return True
        if not facts.divergence.is_uniform(op):
            return False
        return op.name == "tessera.write" or (
            op.name == "tessera.read" and bool(self.owner.memory_classes(op.operands[0]))
        )

    def _for_one(self, op: AnyOp, contents: Contents) -> bool:
        """Return whether lane 0 can run all of `op` alone: it writes memory, and its results are not used."""
        used = any(len(list(result.uses)) for result in op.results)
        return contents.single and bool(contents.writes) and not used

    # -- carried values ----------------------------------------------------------------------------------------

    def _pack(self, value: ir.Value) -> ir.Value:
        """Return the SSA value that stands for a Tile IR scalar or memory."""
        meaning = self.owner.env[value]
        return meaning.pointer if isinstance(meaning, GlobalMemory) else self.owner.typed(value)

    def _unpack(self, target: ir.Value, source: ir.Value, packed: ir.Value) -> None:
        """Define `target` by `packed`, a value of the same kind as `source`."""
        meaning = self.owner.env[source]
        self.owner.env[target] = replace(meaning, pointer=packed) if isinstance(meaning, GlobalMemory) else packed

    def _new_buffer(self, target: ir.Value, initial: ir.Value | None) -> Buffer:
        """Reserve a buffer for the carried tile `target`, filled with the Tile IR value `initial`."""
        owner, kind = self.owner, ir.ShapedType(target.type)
        with owner.shared_work(self._is_shared(target)):
            buffer = owner.tiles.required(tuple(kind.shape), str(kind.element_type))
            if initial is not None:
                owner.tiles.fill(buffer, owner.tile(initial))
        owner.env[target] = owner.tiles.value(buffer)
        return buffer

    def _is_shared(self, value: ir.Value) -> bool:
        """Return whether the group shares the tile `value`, a block argument or a result of control flow."""
        owner = self.owner
        if owner.leading or owner.frame.whole_launch or owner.facts.divergence.varies(value):
            return False
        place = value.owner
        around = next(iter(place.operations)) if isinstance(place, ir.Block) else place
        return not owner.facts.divergence.is_divergent(around)

    def _refill(self, block: ir.Block, buffers: Sequence[tuple[Buffer, ir.Value]]) -> None:
        """Copy the next values (Tile IR tiles) at the end of `block` into the buffers of carried tiles, in parallel."""
        owner = self.owner
        per_lane = owner.leading or owner.frame.whole_launch or owner.facts.divergence.is_divergent(_last(block))
        with owner.shared_work(not per_lane):
            waiting = [(buffer, self._next(buffer, value, buffers)) for buffer, value in buffers]
            for buffer, tile in waiting:
                if tile is not None:
                    owner.tiles.fill(buffer, tile)
            while self._spent:
                owner.tiles.free(self._spent.pop())

    def _next(self, buffer: Buffer, value: ir.Value, buffers: Sequence[tuple[Buffer, ir.Value]]) -> TileValue | None:
        """Return what to refill `buffer` with, copied if refilling destroys what it reads; None if it is up to date."""
        owner = self.owner
        if value in owner.lifetimes.in_place:
            return None
        tile = owner.tile(value)
        others = frozenset(b.number for b, _ in buffers if b is not buffer)
        # Local buffers have no memory classes that tell whether they are read: these are always copied.
        if not (tile.classes & others or buffer.number in tile.reads or owner.tiles.computing_lanes.serial):
            return tile
        copy = owner.tiles.required(tile.shape, tile.element)
        owner.tiles.fill(copy, tile)
        self._spent.append(copy)
        return owner.tiles.value(copy)

    # -- for ---------------------------------------------------------------------------------------------------

    def _for(self, op: AnyOp) -> None:
        owner, build = self.owner, self.owner.build
        block = op.regions[0].blocks[0]
        index, *arguments = block.arguments
        bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
        contents = self._contents(op)
        buffers = {
            number: self._new_buffer(argument, first)
            for number, (argument, first) in enumerate(zip(arguments, initial, strict=True))
            if is_tile(argument.type)
        }
        owner.lifetimes.buffers.update({arguments[number]: buffer for number, buffer in buffers.items()})
        plain = [number for number in range(len(arguments)) if number not in buffers]
        before = owner.hazards.snapshot()

        def body(value: ir.Value, carried: list[ir.Value]) -> Sequence[ir.Value]:
            owner.env[index] = value
            for number, packed in zip(plain, carried, strict=True):
                self._unpack(arguments[number], initial[number], packed)
            owner.block(block)
            last = _last(block)
            following = list(last.operands)
            self._refill(block, [(buffer, following[number]) for number, buffer in buffers.items()])
            packed = [self._pack(following[number]) for number in plain]
            self._end(last)
            if contents.group or buffers:
                owner.hazards.settle()
            return packed

        with owner.sync.looping(owner.facts.divergence.is_divergent(_last(block))):
            lower, upper, step = (owner.typed(v) for v in bounds)
            results = build.loop(lower, upper, step, [self._pack(initial[number]) for number in plain], body)
        owner.hazards.join(before)
        for number, packed in zip(plain, results, strict=True):
            self._unpack(op.results[number], initial[number], packed)
        self._leave(op, buffers)

    def _leave(self, op: AnyOp, buffers: dict[int, Buffer]) -> None:
        """Define the results of `op` that are tiles by their buffers."""
        for number, buffer in buffers.items():
            self.owner.env[op.results[number]] = self.owner.tiles.value(buffer)
            self.owner.lifetimes.free_after(op.results[number], buffer)

    def _end(self, terminator: AnyOp) -> None:
        """Free the buffers that the end of a block was the last to need."""
        for buffer in self.owner.lifetimes.done(terminator):
            self.owner.tiles.free(buffer)

    # -- if ----------------------------------------------------------------------------------------------------

    def _if(self, op: AnyOp) -> None:
        owner, build = self.owner, self.owner.build
        buffers = {n: self._new_buffer(result, None) for n, result in enumerate(op.results) if is_tile(result.type)}
        plain = [n for n in range(len(op.results)) if n not in buffers]
        condition = owner.typed(op.operands[0])
        blocks = [next(iter(region.blocks), None) for region in op.regions]
        first = _last(op.regions[0].blocks[0])
        varies = owner.facts.divergence.is_divergent(first) and not owner.leading
        shuffles = varies and self._contents(op).shuffles
        kinds = [_kind(op.results[number].type) for number in plain]
        masks = owner.sync.split(condition) if shuffles else (owner.sync.active, owner.sync.active)
        made = build.create("scf.if", [condition], kinds, regions=2)
        start = owner.hazards.snapshot()
        ends: list[Snapshot] = []
        for mask, region, block in zip(masks, made.regions, blocks, strict=True):
            if block is None:
                continue
            owner.hazards.restore(start)
            with owner.sync.running(mask):
                self._branch(region, block, buffers, plain)
            ends.append(owner.hazards.snapshot())
        owner.hazards.restore(start if len(ends) == 1 else ends[0])
        owner.hazards.join(ends[-1])
        for number, packed in zip(plain, list(made.results), strict=True):
            self._unpack(op.results[number], first.operands[number], packed)
        self._leave(op, buffers)

    def _branch(self, region: ir.Region, block: ir.Block, buffers: dict[int, Buffer], plain: list[int]) -> None:
        owner = self.owner
        with owner.build.at(region.blocks.append()):
            owner.block(block)
            last = _last(block)
            values = list(last.operands)
            self._refill(block, [(buffer, values[number]) for number, buffer in buffers.items()])
            owner.build.create("scf.yield", [self._pack(values[number]) for number in plain])
            self._end(last)

    # -- while -------------------------------------------------------------------------------------------------

    def _while(self, op: AnyOp) -> None:
        owner, build = self.owner, self.owner.build
        first, second = (region.blocks[0] for region in op.regions)
        initial, passed = list(op.operands), list(_last(first).operands)[1:]
        buffers = {
            n: self._new_buffer(argument, value)
            for n, (argument, value) in enumerate(zip(first.arguments, initial, strict=True))
            if is_tile(argument.type)
        }
        kept = {n: self._new_buffer(second.arguments[n], None) for n, v in enumerate(passed) if is_tile(v.type)}
        plain = [n for n in range(len(initial)) if n not in buffers]
        through = [n for n in range(len(passed)) if n not in kept]
        group = self._contents(op).group or bool(buffers)
        packed = [self._pack(initial[n]) for n in plain]
        kinds = [_kind(passed[n].type) for n in through]
        made = build.create("scf.while", packed, kinds, regions=2)
        state: list[Snapshot] = []

        def condition() -> None:
            owner.block(first)
            last = _last(first)
            self._refill(first, [(kept[n], passed[n]) for n in kept])
            values = [owner.typed(last.operands[0]), *(self._pack(passed[n]) for n in through)]
            build.create("scf.condition", values)
            self._end(last)
            state.append(owner.hazards.snapshot())

        def body() -> None:
            owner.block(second)
            last = _last(second)
            following = list(last.operands)
            self._refill(second, [(buffers[n], following[n]) for n in buffers])
            values = [self._pack(following[n]) for n in plain]
            self._end(last)
            if group:
                owner.hazards.settle()
            build.create("scf.yield", values)

        with owner.sync.looping(owner.facts.divergence.is_divergent(_last(second))):
            arguments, sources = [first.arguments[n] for n in plain], [initial[n] for n in plain]
            self._part(made.regions[0], arguments, sources, packed, condition)
            arguments, sources = [second.arguments[n] for n in through], [passed[n] for n in through]
            self._part(made.regions[1], arguments, sources, list(made.results), body)
        owner.hazards.restore(state[0])
        for n, value in zip(through, list(made.results), strict=True):
            self._unpack(op.results[n], passed[n], value)
        self._leave(op, kept)
        for buffer in buffers.values():
            owner.tiles.free(buffer)

    def _part(
        self,
        region: ir.Region,
        arguments: Sequence[ir.Value],
        sources: Sequence[ir.Value],
        like: Sequence[ir.Value],
        emit: Callable[[], None],
    ) -> None:
        """Emit one region of an `scf.while`, whose arguments have the types of `like`."""
        owner = self.owner
        block = region.blocks.append(*(v.type for v in like), arg_locs=[owner.build.location] * len(like))
        for argument, source, packed in zip(arguments, sources, list(block.arguments), strict=True):
            self._unpack(argument, source, packed)
        with owner.build.at(block):
            emit()


def _kind(kind: ir.Type) -> ir.Type | str:
    """Return the type of the SSA value that stands for a scalar or a memory: for a memory, that of its address."""
    return SHARED if is_memory(kind) else kind


def _last(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1].operation


def _terminator(op: AnyOp) -> ir.Operation:
    """Return the last operation of the region that `op` runs conditionally."""
    return _last(op.regions[len(op.regions) - 1 if op.name == "scf.while" else 0].blocks[0])
