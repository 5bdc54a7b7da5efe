"""Loops and branches: who runs them, what they carry, and the barriers at their ends.

Scalars and addresses are carried as SSA values.  A carried tile has one buffer for the whole loop: it is filled before
the loop and refilled at the end of each iteration.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from tessera.lowering.analysis.uniformity import READS, WRITES, Uniformity, is_memory, is_tile, walk
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import SHARED, IndexBuilder
from tessera.lowering.cuda.base.memory import Memory
from tessera.lowering.cuda.simt.barrier_insertion import LANE, LEADER, BarrierInsertion
from tessera.lowering.cuda.simt.liveness import Liveness
from tessera.lowering.cuda.simt.synchronization import Sync
from tessera.lowering.cuda.simt.tile_values import Buffer, Tiles, TileValue

_NONE: Final[frozenset[int]] = frozenset()
_SYNCHRONISING: Final = frozenset(("tessera.barrier", "tessera.group_sync"))
_NOT_FOR_ONE: Final = frozenset(("tessera.shuffle", "tessera.alloc", "tessera.copy")) | _SYNCHRONISING


class ControlOwner(Protocol):
    """What control flow asks of the lowering around it."""

    frame: GpuFunction
    build: IndexBuilder
    facts: Uniformity
    sync: Sync
    hazards: BarrierInsertion
    tiles: Tiles
    lifetimes: Liveness
    env: dict[Any, Any]
    leading: bool

    def block(self, block: Any) -> None:
        """Emit a block without its terminator."""
        ...

    def typed(self, value: Any) -> Any:
        """The target scalar as an MLIR value."""
        ...

    def shared_work(self, shared: bool) -> AbstractContextManager[None]:
        """Inside the `with`, tiles are computed by the whole group, or by each lane for itself."""
        ...

    def memory_classes(self, value: Any) -> frozenset[int]:
        """The class of a memref, if the kernel writes it."""
        ...


@dataclass(frozen=True, slots=True)
class Contents:
    """What a region holds: `group` statements that the group runs together, `syncs`, and the memory it touches."""

    group: bool
    syncs: bool
    single: bool
    shuffles: bool
    reads: frozenset[int]
    writes: frozenset[int]


class Control:
    """Emits `scf.for`, `scf.if` and `scf.while` for a lowering."""

    def __init__(self, owner: ControlOwner) -> None:
        self.owner = owner
        self._spent: list[Buffer] = []

    def region(self, op: Any) -> None:
        """Emit one loop or branch."""
        owner, facts = self.owner, self.owner.facts
        emit = {"scf.for": self._for, "scf.if": self._if, "scf.while": self._while}[op.name]
        if owner.leading or facts.is_divergent(op):
            emit(op)
            return
        contents = self._contents(op)
        varies = facts.is_divergent(_terminator(op))
        if not varies and self._for_one(op, contents):
            owner.hazards.access(LEADER, contents.reads, contents.writes)
            with owner.hazards.suspended(), owner.build.when(owner.frame.leader()):
                owner.leading = True
                emit(op)
                owner.leading = False
        elif varies or not (contents.group or contents.syncs):
            owner.hazards.access(LANE, contents.reads, contents.writes)
            with owner.hazards.suspended():
                emit(op)
        else:
            emit(op)

    # -- what is inside ----------------------------------------------------------------------------------------

    def _contents(self, op: Any) -> Contents:
        facts = self.owner.facts
        inner = [o for region in op.regions for block in region.blocks for o in walk(block)]
        return Contents(
            group=any(self._is_group(o) for o in inner),
            syncs=any(o.name in _SYNCHRONISING for o in inner),
            single=not any(
                o.name in _NOT_FOR_ONE
                or any(is_tile(v.type) for v in (*o.operands, *o.results))
                or any(facts.varies(v) for v in (*o.operands, *o.results))
                for o in inner
            ),
            shuffles=any(o.name in ("tessera.shuffle", "tessera.group_sync") for o in inner),
            reads=_NONE.union(*(self._touched(o, READS) for o in inner)),
            writes=_NONE.union(*(self._touched(o, WRITES) for o in inner)),
        )

    def _touched(self, op: Any, table: dict[str, int]) -> frozenset[int]:
        number = table.get(op.name)
        return _NONE if number is None else self.owner.memory_classes(op.operands[number])

    def _is_group(self, op: Any) -> bool:
        """Whether the group as a whole runs `op`, with barriers around it where they are needed."""
        facts = self.owner.facts
        if any(is_tile(v.type) for v in (*op.operands, *op.results)):
            return True
        if op.name == "tessera.copy":
            return True
        if not facts.is_uniform(op):
            return False
        return op.name == "tessera.write" or (
            op.name == "tessera.read" and bool(self.owner.memory_classes(op.operands[0]))
        )

    def _for_one(self, op: Any, contents: Contents) -> bool:
        """Whether lane 0 can run all of `op` alone: it writes, and nothing of it is needed elsewhere."""
        used = any(len(list(result.uses)) for result in op.results)
        return contents.single and bool(contents.writes) and not used

    # -- carried values ----------------------------------------------------------------------------------------

    def _pack(self, value: Any) -> Any:
        """The SSA value that stands for a Tile IR scalar or memory."""
        meaning = self.owner.env[value]
        return meaning.pointer if isinstance(meaning, Memory) else self.owner.build.index(meaning)

    def _unpack(self, target: Any, source: Any, packed: Any) -> None:
        """`target` is `packed`, a value of the kind that `source` is."""
        meaning = self.owner.env[source]
        self.owner.env[target] = replace(meaning, pointer=packed) if isinstance(meaning, Memory) else packed

    def _new_home(self, target: Any, initial: Any | None) -> Buffer:
        """A buffer for the carried tile `target`, filled with the Tile IR value `initial`."""
        owner, kind = self.owner, target.type
        with owner.shared_work(self._is_shared(target)):
            buffer = owner.tiles.required(tuple(kind.shape), str(kind.element_type))
            if initial is not None:
                owner.tiles.fill(buffer, owner.env[initial])
        owner.env[target] = owner.tiles.value(buffer)
        return buffer

    def _is_shared(self, value: Any) -> bool:
        """Whether the group shares the tile `value` (a block argument or a result of control flow)."""
        owner = self.owner
        if owner.leading or owner.frame.whole_launch or owner.facts.varies(value):
            return False
        around = value.owner if hasattr(value.owner, "name") else next(iter(value.owner.operations))
        return not owner.facts.is_divergent(around)

    def _refill(self, block: Any, homes: Sequence[tuple[Buffer, Any]]) -> None:
        """At the end of `block`, put the next values (Tile IR tiles) into the buffers of carried tiles, all at once."""
        owner = self.owner
        apart = owner.leading or owner.frame.whole_launch or owner.facts.is_divergent(_last(block))
        with owner.shared_work(not apart):
            waiting = [(buffer, self._next(buffer, value, homes)) for buffer, value in homes]
            for buffer, tile in waiting:
                if tile is not None:
                    owner.tiles.fill(buffer, tile)
            while self._spent:
                owner.tiles.free(self._spent.pop())

    def _next(self, buffer: Buffer, value: Any, homes: Sequence[tuple[Buffer, Any]]) -> TileValue | None:
        """What `buffer` is refilled with: a copy, where refilling would destroy what is read; None: it is done."""
        owner = self.owner
        if value in owner.lifetimes.in_place:
            return None
        tile: TileValue = owner.env[value]
        others = frozenset(b.number for b, _ in homes if b is not buffer)
        # Local buffers have no classes to tell whether they are read: always go by way of a copy.
        if not (tile.classes & others or buffer.number in tile.reads or owner.tiles.team.serial):
            return tile
        copy = owner.tiles.required(tile.shape, tile.element)
        owner.tiles.fill(copy, tile)
        self._spent.append(copy)
        return owner.tiles.value(copy)

    # -- for ---------------------------------------------------------------------------------------------------

    def _for(self, op: Any) -> None:
        owner, build = self.owner, self.owner.build
        block = op.regions[0].blocks[0]
        index, *arguments = block.arguments
        bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
        contents = self._contents(op)
        homes = {
            number: self._new_home(argument, first)
            for number, (argument, first) in enumerate(zip(arguments, initial, strict=True))
            if is_tile(argument.type)
        }
        owner.lifetimes.homes.update({arguments[number]: buffer for number, buffer in homes.items()})
        plain = [number for number in range(len(arguments)) if number not in homes]
        before = owner.hazards.snapshot()

        def body(value: Any, carried: list[Any]) -> Sequence[Any]:
            owner.env[index] = value
            for number, packed in zip(plain, carried, strict=True):
                self._unpack(arguments[number], initial[number], packed)
            owner.block(block)
            last = _last(block)
            following = list(last.operands)
            self._refill(block, [(buffer, following[number]) for number, buffer in homes.items()])
            packed = [self._pack(following[number]) for number in plain]
            self._end(last)
            if contents.group or homes:
                owner.hazards.settle()
            return packed

        with owner.sync.looping(owner.facts.is_divergent(_last(block))):
            lower, upper, step = (owner.typed(v) for v in bounds)
            results = build.loop(lower, upper, step, [self._pack(initial[number]) for number in plain], body)
        owner.hazards.join(before)
        for number, packed in zip(plain, results, strict=True):
            self._unpack(op.results[number], initial[number], packed)
        self._leave(op, homes)

    def _leave(self, op: Any, homes: dict[int, Buffer]) -> None:
        """The results of `op` that are tiles are in their buffers."""
        for number, buffer in homes.items():
            self.owner.env[op.results[number]] = self.owner.tiles.value(buffer)
            self.owner.lifetimes.free_after(op.results[number], buffer)

    def _end(self, terminator: Any) -> None:
        """Free what only the end of a block needed."""
        for buffer in self.owner.lifetimes.done(terminator):
            self.owner.tiles.free(buffer)

    # -- if ----------------------------------------------------------------------------------------------------

    def _if(self, op: Any) -> None:
        owner, build = self.owner, self.owner.build
        homes = {n: self._new_home(result, None) for n, result in enumerate(op.results) if is_tile(result.type)}
        plain = [n for n in range(len(op.results)) if n not in homes]
        condition = owner.typed(op.operands[0])
        blocks = [region.blocks[0] if len(region.blocks) else None for region in op.regions]
        varies = owner.facts.is_divergent(_last(blocks[0])) and not owner.leading
        shuffles = varies and self._contents(op).shuffles
        kinds = [_kind(op.results[number].type) for number in plain]
        masks = owner.sync.split(condition) if shuffles else (owner.sync.active, owner.sync.active)
        made = build.create("scf.if", [condition], kinds, regions=2)
        start = owner.hazards.snapshot()
        ends: list[Any] = []
        for mask, region, block in zip(masks, made.regions, blocks, strict=True):
            if block is None:
                continue
            owner.hazards.restore(start)
            with owner.sync.running(mask):
                self._branch(region, block, homes, plain)
            ends.append(owner.hazards.snapshot())
        owner.hazards.restore(start if len(ends) == 1 else ends[0])
        owner.hazards.join(ends[-1])
        for number, packed in zip(plain, list(made.results), strict=True):
            self._unpack(op.results[number], _last(blocks[0]).operands[number], packed)
        self._leave(op, homes)

    def _branch(self, region: Any, block: Any, homes: dict[int, Buffer], plain: list[int]) -> None:
        owner = self.owner
        with owner.build.at(region.blocks.append()):
            owner.block(block)
            last = _last(block)
            values = list(last.operands)
            self._refill(block, [(buffer, values[number]) for number, buffer in homes.items()])
            owner.build.create("scf.yield", [self._pack(values[number]) for number in plain])
            self._end(last)

    # -- while -------------------------------------------------------------------------------------------------

    def _while(self, op: Any) -> None:
        owner, build = self.owner, self.owner.build
        first, second = (region.blocks[0] for region in op.regions)
        initial, passed = list(op.operands), list(_last(first).operands)[1:]
        homes = {
            n: self._new_home(argument, value)
            for n, (argument, value) in enumerate(zip(first.arguments, initial, strict=True))
            if is_tile(argument.type)
        }
        kept = {n: self._new_home(second.arguments[n], None) for n, v in enumerate(passed) if is_tile(v.type)}
        plain = [n for n in range(len(initial)) if n not in homes]
        through = [n for n in range(len(passed)) if n not in kept]
        group = self._contents(op).group or bool(homes)
        packed = [self._pack(initial[n]) for n in plain]
        kinds = [_kind(passed[n].type) for n in through]
        made = build.create("scf.while", packed, kinds, regions=2)
        state: list[Any] = []

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
            self._refill(second, [(homes[n], following[n]) for n in homes])
            values = [self._pack(following[n]) for n in plain]
            self._end(last)
            if group:
                owner.hazards.settle()
            build.create("scf.yield", values)

        with owner.sync.looping(owner.facts.is_divergent(_last(second))):
            arguments, sources = [first.arguments[n] for n in plain], [initial[n] for n in plain]
            self._part(made.regions[0], arguments, sources, packed, condition)
            arguments, sources = [second.arguments[n] for n in through], [passed[n] for n in through]
            self._part(made.regions[1], arguments, sources, list(made.results), body)
        owner.hazards.restore(state[0])
        for n, value in zip(through, list(made.results), strict=True):
            self._unpack(op.results[n], passed[n], value)
        self._leave(op, kept)
        for buffer in homes.values():
            owner.tiles.free(buffer)

    def _part(
        self, region: Any, arguments: list[Any], sources: list[Any], like: list[Any], emit: Callable[[], None]
    ) -> None:
        """Fill one region of an `scf.while`: its arguments are of the types of `like`."""
        owner = self.owner
        block = region.blocks.append(*(v.type for v in like), arg_locs=[owner.build.location] * len(like))
        for argument, source, packed in zip(arguments, sources, list(block.arguments), strict=True):
            self._unpack(argument, source, packed)
        with owner.build.at(block):
            emit()


def _kind(kind: Any) -> Any:
    """The type of the SSA value that stands for a scalar or a memory: of a memory, its address."""
    return SHARED if is_memory(kind) else kind


def _last(block: Any) -> Any:
    return list(block.operations)[-1].operation


def _terminator(op: Any) -> Any:
    """The last operation of the region whose control `op` decides."""
    return _last(op.regions[len(op.regions) - 1 if op.name == "scf.while" else 0].blocks[0])
