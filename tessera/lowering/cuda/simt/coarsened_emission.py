"""Emit a kernel with several elements per thread, as `thread_coarsening` planned it.

A value that varies between lanes becomes one value per element (a *pack*), and an operation is emitted once for each;
wide accesses, and arithmetic on pairs of 16-bit floats, are emitted once for several.
"""

from collections.abc import Callable, Container, Generator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.analysis.memory_accesses import WRITES
from tessera.lowering.base.ir_walk import walk
from tessera.lowering.base.visitor import operations_of
from tessera.lowering.cuda.base.cache_hints import cache_of
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.memory import GlobalMemory, address, read, write
from tessera.lowering.cuda.simt.analyses import KernelAnalyses
from tessera.lowering.cuda.simt.thread_coarsening import PIECE, CoarsenedAccess, CoarsenedPlace, Coarsening, realise

_LANES: Final = frozenset(("lane", "thread"))
# Each rounds once in 16 bits, which gives the bits of rounding through f32: 24 >= 2 * 11 + 2.
_PAIRED: Final = frozenset(("arith.addf", "arith.subf", "arith.mulf", "arith.maximumf", "arith.minimumf", "math.fma"))
_HALVES: Final = frozenset(("f16", "bf16"))
_PLAIN_LOOP: Final = "#llvm.loop_annotation<unroll = <disable = true>>"


class CoarsenedOwner(Protocol):
    """Declare what the emission needs of the lowering."""

    frame: GpuFunction
    build: IndexBuilder
    facts: KernelAnalyses
    body: ir.Block

    @property
    def env(self) -> Container[ir.Value]:
        """Return the values that are known already."""
        ...

    def define(self, value: ir.Value, meaning: Index) -> None:
        """Record the target scalar of a Tile IR scalar."""
        ...

    def scalar(self, value: ir.Value) -> Index:
        """Return the target scalar of a Tile IR scalar."""
        ...

    def typed(self, value: ir.Value) -> ir.Value:
        """Return the target scalar as an MLIR value."""
        ...

    def memory(self, value: ir.Value) -> GlobalMemory:
        """Return the array or buffer behind a Tile IR memref."""
        ...

    def operation(self, op: AnyOp) -> None:
        """Emit one operation."""
        ...

    def block(self, block: ir.Block) -> None:
        """Emit a block without its terminator."""
        ...


class CoarsenedEmission:
    """Emit the function body of `owner` with `plan.elements` lanes of the launch per thread."""

    def __init__(self, owner: CoarsenedOwner, plan: Coarsening) -> None:
        self.owner = owner
        self.plan = plan
        self.build = owner.build
        self.packs: dict[ir.Value, Sequence[Index]] = {}
        self.lanes: list[Index] = []
        self.wide = False

    def run(self) -> None:
        """Emit the three versions of a block's code, and the choice between them."""
        build, frame, count = self.build, self.owner.frame, self.plan.elements
        threads = frame.rule.threads
        first = build.mul(frame.block, threads * count) if frame.whole_launch else 0
        end = build.add(first, threads * count)
        whole, aligned = self._whole(first, end), self._aligned()

        def wide() -> None:
            start = build.add(first, build.mul(frame.tid, count))
            self._all([build.add(start, j) for j in range(count)], wide=True)

        def narrow() -> None:
            start = build.add(first, frame.tid)
            self._all([build.add(start, j * threads) for j in range(count)], wide=False)

        self._either(whole, lambda: self._either(aligned, wide, narrow), lambda: self._edge(first, end))

    def _either(self, condition: ir.Value | None, yes: Callable[[], None], no: Callable[[], None]) -> None:
        if condition is None:
            yes()
            return
        made = self.build.create("scf.if", [condition], (), regions=2)
        for region, emit in zip(made.regions, (yes, no), strict=True):
            with self.build.at(region.blocks.append()):
                emit()
                self.build.create("scf.yield")

    @contextmanager
    def _other_lanes(self) -> Generator[None]:
        """Let the code inside the `with` be that of other lanes than the thread's own."""
        before = self.owner.frame.lane
        try:
            yield
        finally:
            self.owner.frame.lane = before

    # -- conditions, the same for all lanes of a block ------------------------------------------------------------

    def _whole(self, first: Index, end: Index) -> ir.Value | None:
        """Emit an i1: nothing between the lanes `first` and `end` of the launch, or of a group, has to be masked."""
        build, owner = self.build, self.owner
        conditions: list[ir.Value] = []
        if owner.frame.whole_launch:
            conditions.append(build.compare("sle", end, owner.frame.lanes_in_launch))
        for guards in self.plan.guards.values():
            for guard in guards:
                realise(guard.bound, owner.env, owner.operation)
                with build.located(guard.op.location):
                    if guard.place is None:
                        conditions.append(owner.typed(guard.bound))
                        continue
                    limit = build.add(owner.typed(guard.bound), guard.beyond)
                    predicate, lane = ("sge", first) if guard.least else ("sle", end)
                    conditions.append(build.compare(predicate, self._index(guard.place, lane), limit))
        for access in self.plan.accesses.values():
            if not access.proven:
                with build.located(access.op.location):
                    extent, place = owner.memory(access.memory).extents[-1], access.place
                    conditions.append(build.compare("sle", self._index(place, end), extent))
                    if place.offset < 0 or place.shared:
                        conditions.append(build.compare("sge", self._index(place, first), 0))
        return build.all_of(conditions)

    def _index(self, place: CoarsenedPlace, lane: Index) -> Index:
        """Emit the index that `place` stands for in a lane of the launch, or of this group."""
        build, owner, frame = self.build, self.owner, self.owner.frame
        if place.launch and not frame.whole_launch:
            lane = build.add(build.mul(frame.group_at(place.axis), frame.block_lanes), lane)
        for value in place.shared:
            realise(value, owner.env, owner.operation)
            lane = build.add(lane, owner.scalar(value))
        return build.add(lane, place.offset)

    def _aligned(self) -> ir.Value | None:
        """Emit an i1: every wide access starts at a multiple of its size."""
        build, owner, bits = self.build, self.owner, None
        seen: set[tuple[ir.Value, int, tuple[ir.Value, ...]]] = set()
        for access in (access for access in self.plan.accesses.values() if access.wide):
            memory = owner.memory(access.memory)
            size = min(PIECE, self.plan.elements * access.bytes)
            if (access.memory, size, access.place.shared) in seen:
                continue
            seen.add((access.memory, size, access.place.shared))
            places = [build.value("llvm.ptrtoint", [memory.pointer], "i64")]
            places += [build.index(build.mul(stride, access.bytes)) for stride in memory.strides[-2:-1]]
            for value in access.place.shared:
                realise(value, owner.env, owner.operation)
                places.append(build.index(build.mul(owner.scalar(value), access.bytes)))
            for place in places:
                low = build.index(build.bits(place, size - 1))
                bits = low if bits is None else build.value("arith.ori", [bits, low], "i64")
        return None if bits is None else build.compare("eq", bits, 0)

    # -- a range that is not whole --------------------------------------------------------------------------------

    def _edge(self, first: Index, end: Index) -> None:
        """Emit a loop over the lanes, each with all of the kernel's own conditions."""
        build, owner = self.build, self.owner
        last = build.minimum(end, owner.frame.lanes_in_launch) if owner.frame.whole_launch else end

        def one(lane: Index, _: list[ir.Value]) -> list[ir.Value]:
            owner.frame.lane = lane
            owner.block(owner.body)
            return []

        with self._other_lanes():
            start = build.add(first, owner.frame.tid)
            build.loop(start, last, owner.frame.rule.threads, [], one, {"llvm.loop_annotation": _PLAIN_LOOP})

    # -- a whole range ---------------------------------------------------------------------------------------------

    def _all(self, lanes: list[Index], *, wide: bool) -> None:
        self.lanes, self.wide, self.packs = lanes, wide, {}
        with self._other_lanes():
            self._block(self.owner.body)

    def _block(self, block: ir.Block) -> None:
        for op in operations_of(block):
            if op in self.plan.guards:
                self._block(op.regions[0].blocks[0])
            elif not self._varies(op):
                self.owner.frame.lane = self.lanes[0]
                self.owner.operation(op)
            else:
                with self.build.located(op.location):
                    self._emit(op)

    def _varies(self, op: AnyOp) -> bool:
        """Return whether `op` has to be emitted for each element."""
        uniform = self.owner.facts.divergence.is_uniform
        for inner in (op, *(o for region in op.regions for b in region.blocks for o in walk(b))):
            if inner.name == "tessera.id" and ir.StringAttr(inner.attributes["of"]).value in _LANES:
                return True
            if any(v in self.packs for v in inner.operands) or (inner.name in WRITES and not uniform(inner)):
                return True
        return False

    def _emit(self, op: AnyOp) -> None:
        access = self.plan.accesses.get(op)
        if access is not None and not (self.wide and access.wide):
            self._single(access)
        elif access is not None and op.name == "tessera.read":
            self._read(access)
        elif access is not None:
            self._write(access)
        elif op.name in _PAIRED and str(op.results[0].type) in _HALVES:
            self._pairs(op)
        else:
            self._each(op)

    def _each(self, op: AnyOp) -> None:
        """Emit `op` once per element."""
        results: list[list[Index]] = [[] for _ in op.results]
        for number in range(self.plan.elements):
            self._select(number)
            self.owner.operation(op)
            for pack, result in zip(results, op.results, strict=True):
                pack.append(self.owner.scalar(result))
        self.packs.update(zip(op.results, results, strict=True))

    def _select(self, number: int) -> None:
        """Make the environment that of one element."""
        self.owner.frame.lane = self.lanes[number]
        for value, pack in self.packs.items():
            self.owner.define(value, pack[number])

    def _pack(self, value: ir.Value) -> list[ir.Value]:
        """Return the values of a Tile IR scalar, one per element."""
        if value in self.packs:
            return [self.build.index(found) for found in self.packs[value]]
        return [self.owner.typed(value)] * self.plan.elements

    def _single(self, access: CoarsenedAccess) -> None:
        """Read or write element by element, without masks, as a whole range lies inside the array."""
        op, memory = access.op, self.owner.memory(access.memory)
        indices = list(op.operands)[2 if op.name in WRITES else 1 :]
        proven, found = [True] * len(indices), list[ir.Value]()
        for number in range(self.plan.elements):
            self._select(number)
            places = [self.owner.scalar(v) for v in indices]
            if op.name in WRITES:
                write(self.build, memory, self._pack(op.operands[1])[number], places, proven, cache_of(op))
            else:
                found.append(read(self.build, memory, places, str(op.results[0].type), proven, cache_of(op)))
        if found:
            self.packs[op.results[0]] = found

    # -- vectors ----------------------------------------------------------------------------------------------------

    def _pieces(self, access: CoarsenedAccess) -> list[tuple[int, ir.Value]]:
        """Return the number and the address of the first element of each vector of a wide access."""
        self._select(0)
        build, memory = self.build, self.owner.memory(access.memory)
        indices = [self.owner.scalar(v) for v in list(access.op.operands)[2 if access.op.name in WRITES else 1 :]]
        start = address(build, memory, indices)
        return [
            (number, build.offset(start, number, memory.element))
            for number in range(0, self.plan.elements, self._length(access))
        ]

    def _length(self, access: CoarsenedAccess) -> int:
        return min(self.plan.elements, PIECE // access.bytes)

    def _read(self, access: CoarsenedAccess) -> None:
        build, result = self.build, access.op.results[0]
        element = self.owner.memory(access.memory).element
        length = self._length(access)
        found: list[ir.Value] = []
        for _, place in self._pieces(access):
            vector = build.load_vector(place, length, element, cache_of(access.op))
            found += [build.element(vector, number) for number in range(length)]
        if str(result.type) == "i1":
            zero = build.constant(0, element)
            found = [build.compare("ne", value, zero) for value in found]
        self.packs[result] = found

    def _write(self, access: CoarsenedAccess) -> None:
        build, element = self.build, self.owner.memory(access.memory).element
        values = self._pack(access.op.operands[1])
        if str(values[0].type) == "i1":
            values = [build.value("arith.extui", [value], element) for value in values]
        length = self._length(access)
        for first, place in self._pieces(access):
            vector = build.vector(values[first : first + length])
            build.store_vector(vector, place, length, element, cache_of(access.op))

    def _pairs(self, op: AnyOp) -> None:
        """Emit arithmetic on two 16-bit floats at a time."""
        build, element = self.build, str(op.results[0].type)
        operands = [self._pack(v) for v in op.operands]
        found: list[ir.Value] = []
        for number in range(0, self.plan.elements, 2):
            pairs = [build.vector(_two(pack, number)) for pack in operands]
            result = build.value(str(op.name), pairs, f"vector<2x{element}>")
            found += [build.element(result, 0), build.element(result, 1)]
        self.packs[op.results[0]] = found


def _two(pack: Sequence[ir.Value], number: int) -> list[ir.Value]:
    return list(pack[number : number + 2])
