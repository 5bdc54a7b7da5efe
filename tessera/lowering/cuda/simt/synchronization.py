"""Emit synchronization between lanes: barriers, cooperative groups, ballots and shuffles."""

from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.gpu_function import WARP, GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width
from tessera.lowering.cuda.base.inline_ptx import inline_ptx

_FULL: Final = -1
_LAST: Final = WARP - 1
_NAMED_BARRIERS: Final = 15
"""Barriers 1 to 15 of a block are free for cooperative groups; 0 is the group's own."""
_OBJECT_BYTES: Final = 8
_OBJECT_INIT: Final = "mbarrier.init.shared.b64 [$0], $1;"
_OBJECT_ARRIVE: Final = "mbarrier.arrive.shared.b64 $0, [$1];"
_OBJECT_TEST: Final = "{\n.reg .pred done;\nmbarrier.test_wait.shared.b64 done, [$1], $2;\nselp.b32 $0, 1, 0, done;\n}"


@dataclass
class Sync:
    """Emit synchronization, and track which lanes of a warp are active.

    active: the i32 mask of the lanes of this warp that run the current code; None: all that exist
    uncertain: the code is inside a loop that lanes leave at different times, so the hardware is asked for the mask
    needed: the kernel has statements that need the mask
    _objects: the addresses of `mbarrier` objects in shared memory (sm_80 on), by the size of cooperative groups of
        which there are more than hardware barriers; each group has one, where a lane arrives and polls until all have
    """

    frame: GpuFunction
    build: IndexBuilder
    active: ir.Value | None = None
    uncertain: bool = False
    needed: bool = True
    _objects: dict[int, ir.Value] = field(default_factory=dict[int, ir.Value])

    # -- who is here -------------------------------------------------------------------------------------------

    def split(self, condition: ir.Value) -> tuple[ir.Value | None, ir.Value | None]:
        """Return the masks of the lanes on either side of a branch on the i1 `condition`, to be given to `running`."""
        if not self.needed or self.uncertain:
            return self.active, self.active
        taken = self.ballot(condition)
        return taken, self.build.value("arith.xori", [taken, self.mask()], "i32")

    @contextmanager
    def running(self, mask: ir.Value | None) -> Generator[None]:
        """Make the lanes of `mask` the active ones inside the `with`."""
        before, self.active = self.active, mask
        try:
            yield
        finally:
            self.active = before

    @contextmanager
    def looping(self, divergent: bool) -> Generator[None]:
        """Treat the mask as unknown inside the `with`, a loop that lanes leave at different times if `divergent`."""
        before, self.uncertain = self.uncertain, self.uncertain or divergent
        try:
            yield
        finally:
            self.uncertain = before

    # -- barriers ----------------------------------------------------------------------------------------------

    def barrier(self, *, divergent: bool = False) -> None:
        """Wait for every lane of the group."""
        if self.frame.block_lanes == 1:
            return
        attributes = {"operandSegmentSizes": "array<i32: 0, 0>", "aligned": "false" if divergent else "true"}
        self.build.create("nvvm.barrier", attributes=attributes)

    def prepare(self, sizes: Collection[int]) -> None:
        """Initialize the barriers that cooperative groups of these sizes need, before any lane runs the kernel.

        Raises:
            NotOnCuda: shared memory is full.
        """
        build, frame = self.build, self.frame
        for size in sorted(sizes):
            groups = -(-frame.block_lanes // size)
            if size <= WARP or size >= frame.block_lanes or groups <= _NAMED_BARRIERS:
                continue
            piece = frame.shared.take(groups * _OBJECT_BYTES, _OBJECT_BYTES)
            if piece is None:
                message = f"no shared memory is left for the barriers of {groups} cooperative groups"
                raise NotOnCuda(message, hint="use larger cooperative groups, or smaller buffers")
            number = build.divide(frame.tid, size)
            place = build.offset(frame.shared_base, build.add(build.mul(number, _OBJECT_BYTES), piece.start), "i8")
            self._objects[size] = build.value("llvm.ptrtoint", [place], "i32")
            with build.when(build.compare("eq", build.bits(frame.tid, size - 1), 0)):
                inline_ptx(build, _OBJECT_INIT, "r,r", [self._objects[size], self._lanes_of(number, size)])
        if self._objects:
            self.barrier()

    def group_sync(self, size: int, *, divergent: bool) -> None:
        """Wait for the lanes of this lane's cooperative group: `size` lanes (a power of two), aligned."""
        build, lanes = self.build, self.frame.block_lanes
        if size >= lanes:
            self.barrier(divergent=divergent)
        elif size <= WARP:
            mask = self._segment(size)
            if self.frame.whole_launch and self.active is not None:
                mask = build.value("arith.andi", [mask, self.active], "i32")
            build.create("nvvm.bar.warp.sync", [mask])
        elif size in self._objects:
            self._meet(self._objects[size])
        else:
            number = build.divide(self.frame.tid, size)
            operands = [build.to_word(build.add(number, 1)), self._arrivals(number, size)]
            some = divergent or self.frame.whole_launch
            attributes = {"operandSegmentSizes": "array<i32: 1, 1>", "aligned": "false" if some else "true"}
            build.create("nvvm.barrier", operands, attributes=attributes)

    def _meet(self, place: ir.Value) -> None:
        """Arrive at the barrier object at `place` (an i32 address of shared memory) and wait for the others."""
        build = self.build
        (state,) = inline_ptx(build, _OBJECT_ARRIVE, "=l,r", [place], ["i64"])
        op = build.create("scf.while", regions=2)
        with build.at(op.regions[0].blocks.append()):
            (done,) = inline_ptx(build, _OBJECT_TEST, "=r,r,l", [place, state], ["i32"])
            build.create("scf.condition", [build.compare("eq", done, build.word(0))])
        with build.at(op.regions[1].blocks.append()):
            build.create("scf.yield")

    def _arrivals(self, number: Index, size: int) -> ir.Value:
        """Emit an i32: how many lanes arrive at the barrier of cooperative group `number`, counted in whole warps."""
        build = self.build
        if self._all_there(size):
            return build.word(size)
        whole = build.mul(build.divide(build.add(self._present(), WARP - 1), WARP), WARP)
        return build.to_word(build.minimum(build.sub(whole, build.mul(number, size)), size))

    def _lanes_of(self, number: Index, size: int) -> ir.Value:
        """Emit an i32: how many lanes cooperative group `number` has."""
        build = self.build
        if self._all_there(size):
            return build.word(size)
        return build.to_word(build.minimum(build.sub(self._present(), build.mul(number, size)), size))

    def _all_there(self, size: int) -> bool:
        return self.frame.block_lanes % size == 0 and not self.frame.whole_launch

    def _present(self) -> Index:
        """Emit the number of lanes of this block that run the kernel: the last block of a launch may be short."""
        build, lanes = self.build, self.frame.block_lanes
        if not self.frame.whole_launch:
            return lanes
        rest = build.sub(self.frame.lanes_in_launch, build.mul(self.frame.block, lanes))
        return build.minimum(rest, lanes)

    # -- masks -------------------------------------------------------------------------------------------------

    def existing(self) -> ir.Value:
        """Emit the i32 mask of the lanes that this lane's warp has."""
        build, lanes = self.build, self.frame.block_lanes
        if self.frame.warps_are_full:
            return build.word(_FULL)
        if lanes < WARP:
            return build.word((1 << lanes) - 1)
        last = build.compare("uge", self.frame.tid, lanes // WARP * WARP)
        return build.select(last, build.word((1 << lanes % WARP) - 1), build.word(_FULL))

    def mask(self) -> ir.Value:
        """Emit the i32 mask of the lanes of this warp that run the current code."""
        if self.uncertain:
            return inline_ptx(self.build, "activemask.b32 $0;", "=r", (), ["i32"], memory=False)[0]
        return self.existing() if self.active is None else self.active

    def ballot(self, condition: ir.Value) -> ir.Value:
        """Emit the i32 mask of the active lanes of this warp for which the i1 `condition` holds."""
        return self.build.value(
            "nvvm.vote.sync", [self.mask(), condition], "i32", {"kind": "#nvvm<vote_sync_kind ballot>"}
        )

    def _segment(self, size: int) -> ir.Value:
        """Emit the i32 mask of the aligned `size` lanes around this one, of those that exist."""
        build = self.build
        if size == WARP:
            return self.existing()
        first = build.bits(self.frame.tid, _LAST & ~(size - 1))
        mask = build.value("arith.shli", [build.word((1 << size) - 1), build.to_word(first)], "i32")
        if self.frame.block_lanes % size == 0:
            return mask
        return build.value("arith.andi", [mask, self.existing()], "i32")

    # -- shuffles ----------------------------------------------------------------------------------------------

    def butterfly(self, value: ir.Value, distance: int, size: int) -> ir.Value:
        """Emit the value of lane `lane ^ distance`, in which all aligned `size` lanes take part together."""
        build = self.build
        return exchange(build, value, "bfly", self._segment(size), build.word(distance), build.word(_LAST))

    def shuffle(self, value: ir.Value, lane: Index, mode: str, size: int) -> ir.Value:
        """Emit `warp_shuffle`: the value of another lane among the aligned `size` lanes, or the lane's own.

        `lane` is a distance (down, up, xor) or a number within the segment (idx).  A lane that asks for one outside its
        segment, or for one that does not run this code, gets its own value.
        """
        build = self.build
        everyone = self.active is None and not self.uncertain and self.frame.warps_are_full
        distance = build.known(lane)
        if everyone and distance is not None and 0 <= distance < size and mode != "idx":
            clamp = (WARP - size) << 8 | (0 if mode == "up" else _LAST)
            kind = "bfly" if mode == "xor" else mode
            return exchange(build, value, kind, build.word(_FULL), build.word(distance), build.word(clamp))
        mine = build.bits(self.frame.tid, _LAST)
        first = build.bits(mine, _LAST & ~(size - 1))
        within = build.bits(mine, size - 1)
        if mode == "idx":
            wanted = lane
        elif mode == "xor":
            wanted = build.xor(within, lane)
        else:
            wanted = build.add(within, lane) if mode == "down" else build.sub(within, lane)
        mask = self.mask()
        source = build.add(first, wanted)
        source = build.select(build.inside(wanted, size), source, mine)
        if not everyone:
            bit = build.value("arith.shrui", [mask, build.to_word(source)], "i32")
            source = build.select(build.value("arith.trunci", [bit], "i1"), source, mine)
        return exchange(build, value, "idx", mask, build.to_word(source), build.word(_LAST))


def exchange(
    build: IndexBuilder, value: ir.Value, kind: str, mask: ir.Value, lanes: ir.Value, clamp: ir.Value
) -> ir.Value:
    """Emit `shfl.sync` of a value of any type, in one or two words of 32 bits; mask, lanes, clamp: its i32 operands."""
    element = str(value.type)

    def move(word: ir.Value) -> ir.Value:
        return build.value(
            "nvvm.shfl.sync", [mask, word, lanes, clamp], word.type, {"kind": f"#nvvm<shfl_kind {kind}>"}
        )

    if element in ("f32", "i32"):
        return move(value)
    size = 1 if element == "i1" else width(element)
    bits = value if element[0] == "i" else build.value("arith.bitcast", [value], f"i{size}")
    if size < 32:
        wide = move(build.value("arith.extui", [bits], "i32"))
        bits = build.value("arith.trunci", [wide], f"i{size}")
    else:
        low = move(build.value("arith.trunci", [bits], "i32"))
        shifted = build.value("arith.shrui", [bits, build.index(32)], "i64")
        high = move(build.value("arith.trunci", [shifted], "i32"))
        low, high = (build.value("arith.extui", [half], "i64") for half in (low, high))
        high = build.value("arith.shli", [high, build.index(32)], "i64")
        bits = build.value("arith.ori", [high, low], "i64")
    return bits if element[0] == "i" else build.value("arith.bitcast", [bits], element)
