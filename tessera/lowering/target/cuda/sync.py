"""Lanes waiting for each other and exchanging values: barriers, cooperative groups, shuffles."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tessera.core.mistakes import NotOnCuda
from tessera.lowering.target.cuda.build import Build, width
from tessera.lowering.target.cuda.frame import WARP, Frame

_FULL: Final = -1
_LAST: Final = WARP - 1
_NAMED_BARRIERS: Final = 15
"""Barriers 1 to 15 of a block are free for cooperative groups; 0 is the group's own."""


@dataclass
class Sync:
    """Emits synchronisation.

    active: the i32 mask of the lanes of this warp that run the current code; None: all that exist
    uncertain: the code is inside a loop that lanes leave at different times: ask the hardware who is there
    needed: the kernel has statements that need to know
    """

    frame: Frame
    build: Build
    active: Any = None
    uncertain: bool = False
    needed: bool = True

    # -- who is here -------------------------------------------------------------------------------------------

    def split(self, condition: Any) -> tuple[Any, Any]:
        """The masks of the lanes on either side of a branch on the i1 `condition`, to be given to `running`."""
        if not self.needed or self.uncertain:
            return self.active, self.active
        taken = self.ballot(condition)
        return taken, self.build.value("arith.xori", [taken, self.mask()], "i32")

    @contextmanager
    def running(self, mask: Any) -> Generator[None]:
        """Inside the `with`, the lanes of `mask` run."""
        before, self.active = self.active, mask
        try:
            yield
        finally:
            self.active = before

    @contextmanager
    def looping(self, divergent: bool) -> Generator[None]:
        """Inside the `with` is a loop that lanes leave at different times, if `divergent`."""
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
        else:
            groups = -(-lanes // size)
            if groups > _NAMED_BARRIERS:
                message = f"{groups} cooperative groups of {size} lanes; a GPU block can name {_NAMED_BARRIERS}"
                raise NotOnCuda(message, hint="use larger cooperative groups, or fewer lanes in `tile[...]`")
            number = build.divide(self.frame.tid, size)
            operands = [build.to_word(build.add(number, 1)), self._arrivals(number, size)]
            some = divergent or self.frame.whole_launch
            attributes = {"operandSegmentSizes": "array<i32: 1, 1>", "aligned": "false" if some else "true"}
            build.create("nvvm.barrier", operands, attributes=attributes)

    def _arrivals(self, number: Any, size: int) -> Any:
        """An i32: how many lanes arrive at the barrier of cooperative group `number`, counted in whole warps."""
        build, lanes = self.build, self.frame.block_lanes
        if lanes % size == 0 and not self.frame.whole_launch:
            return build.word(size)
        present: Any = lanes
        if self.frame.whole_launch:  # the last block may be short
            rest = build.sub(self.frame.lanes_in_launch, build.mul(self.frame.block, lanes))
            present = build.minimum(rest, lanes)
        whole = build.mul(build.divide(build.add(present, WARP - 1), WARP), WARP)
        return build.to_word(build.minimum(build.sub(whole, build.mul(number, size)), size))

    # -- masks -------------------------------------------------------------------------------------------------

    def existing(self) -> Any:
        """The i32 mask of the lanes that this lane's warp has."""
        build, lanes = self.build, self.frame.block_lanes
        if self.frame.warps_are_full:
            return build.word(_FULL)
        if lanes < WARP:
            return build.word((1 << lanes) - 1)
        last = build.compare("uge", self.frame.tid, lanes // WARP * WARP)
        return build.select(last, build.word((1 << lanes % WARP) - 1), build.word(_FULL))

    def mask(self) -> Any:
        """The i32 mask of the lanes of this warp that run the current code."""
        if self.uncertain:
            attributes = {
                "asm_string": '"activemask.b32 $0;"', "constraints": '"=r"', "has_side_effects": "unit",
                "asm_dialect": "0 : i64", "tail_call_kind": "#llvm.tailcallkind<none>",
            }  # fmt: skip
            return self.build.value("llvm.inline_asm", [], "i32", attributes)
        return self.existing() if self.active is None else self.active

    def ballot(self, condition: Any) -> Any:
        """The i32 mask of the running lanes of this warp for which the i1 `condition` holds."""
        return self.build.value(
            "nvvm.vote.sync", [self.mask(), condition], "i32", {"kind": "#nvvm<vote_sync_kind ballot>"}
        )

    def _segment(self, size: int) -> Any:
        """The i32 mask of the aligned `size` lanes around this one, of those that exist."""
        build = self.build
        if size == WARP:
            return self.existing()
        first = build.bits(self.frame.tid, _LAST & ~(size - 1))
        mask = build.value("arith.shli", [build.word((1 << size) - 1), build.to_word(first)], "i32")
        if self.frame.block_lanes % size == 0:
            return mask
        return build.value("arith.andi", [mask, self.existing()], "i32")

    # -- shuffles ----------------------------------------------------------------------------------------------

    def butterfly(self, value: Any, distance: int, size: int) -> Any:
        """The value of lane `lane ^ distance`, all aligned `size` lanes taking part together."""
        lanes = self.build.word(distance)
        return self._exchange(value, "bfly", self._segment(size), lanes, self.build.word(_LAST))

    def shuffle(self, value: Any, lane: Any, mode: str, size: int) -> Any:
        """`warp_shuffle`: the value of another lane among the aligned `size` lanes, or the lane's own.

        `lane` is a distance (down, up, xor) or a number within the segment (idx).  A lane that would ask outside its
        segment, or one that does not run this code, gets its own value.
        """
        build = self.build
        everyone = self.active is None and not self.uncertain and self.frame.warps_are_full
        distance = build.known(lane)
        if everyone and distance is not None and 0 <= distance < size and mode != "idx":
            clamp = (WARP - size) << 8 | (0 if mode == "up" else _LAST)
            kind = "bfly" if mode == "xor" else mode
            return self._exchange(value, kind, build.word(_FULL), build.word(distance), build.word(clamp))
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
        return self._exchange(value, "idx", mask, build.to_word(source), build.word(_LAST))

    def _exchange(self, value: Any, kind: str, mask: Any, lanes: Any, clamp: Any) -> Any:
        """`shfl.sync` of a value of any type, as one or two words of 32 bits."""
        build, element = self.build, str(value.type)

        def move(word: Any) -> Any:
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
