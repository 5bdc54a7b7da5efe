"""The warps that compute a tile together, and where each of their lanes stands in a layout."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tessera.core.layouts import Layout, axis_bits, coordinates
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.isa.sm90 import named_barrier

WARP: Final = 32
ROLLED: Final = {"llvm.loop_annotation": "#llvm.loop_annotation<unroll = <disable = true>>"}
"""Of loops that are long enough as they are: LLVM must not unroll them."""


@dataclass
class WarpSet:
    """Warps [0, 2 ** bits) of a block, counted by `thread`.

    thread: the lane's number within the team, an index
    barrier: the hardware barrier that is the team's own: its number, or an i32
    in_turn: the code emitted now is run by one warp group, while the other waits for its turn
    stalls: code was emitted in which a warp group that has its turn waits for the other one: it must not run
    """

    build: IndexBuilder
    thread: Any
    bits: int
    barrier: Any = 0
    in_turn: bool = False
    stalls: bool = False
    _bases: dict[Layout, Any] = field(default_factory=dict[Layout, Any])

    @property
    def warps(self) -> int:
        """Number of warps."""
        return 1 << self.bits

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return self.warps * WARP

    def wait(self) -> None:
        """Wait for all lanes of the team."""
        self.stalls |= self.in_turn
        if self.warps == 1:
            self.build.create("nvvm.bar.warp.sync", [self.build.word(-1)])
        else:
            named_barrier(self.build, self.barrier, self.lanes)

    def first(self) -> Any:
        """An i1: this is the team's first lane."""
        return self.build.compare("eq", self.thread, 0)

    def base(self, layout: Layout) -> Any:
        """The element (a row-major number, as an index) that register 0 of this lane holds."""
        build = self.build
        bits = (*layout.lanes, *layout.warps)
        total: Any = 0
        position = 0
        while position < len(bits):
            if not bits[position]:
                position += 1
                continue
            length = 1  # a run of bits that move together
            while position + length < len(bits) and bits[position + length] == bits[position] << length:
                length += 1
            part = build.bits(build.divide(self.thread, 1 << position), (1 << length) - 1)
            total = build.add(total, build.mul(part, bits[position]))
            position += length
        return total

    def places(self, layout: Layout) -> "LanePlaces":
        """Where the elements of a layout are, for this lane."""
        return LanePlaces(self.build, layout, self.base(layout))

    def owns(self, layout: Layout) -> Any | None:
        """An i1: this lane is the first of those that hold the same elements; None when none do."""
        build = self.build
        mask = 0
        for position, basis in enumerate((*layout.lanes, *layout.warps)):
            if not basis:
                mask |= 1 << position
        return build.compare("eq", build.bits(self.thread, mask), 0) if mask else None


class LanePlaces:
    """The indices of a lane's elements: a part that depends on the lane, and one that depends on the register."""

    def __init__(self, build: IndexBuilder, layout: Layout, base: Any) -> None:
        self.layout = layout
        self.base = base
        self._build = build
        self._bases = [self._along(axis) for axis in range(len(layout.shape))]

    def _along(self, axis: int) -> Any:
        """The index along `axis` of register 0."""
        build, bits = self._build, axis_bits(self.layout.shape, axis)
        if not bits:
            return 0
        return build.bits(build.divide(self.base, bits[0]), (1 << len(bits)) - 1)

    def indices(self, register: int) -> list[Any]:
        """The indices of the element in a register; lane and register parts never share a bit."""
        constant = coordinates(self.layout.element(register), self.layout.shape)
        return [self._build.add(base, offset) for base, offset in zip(self._bases, constant, strict=True)]

    def parts(self, register: int) -> tuple[list[Any], Sequence[int]]:
        """The same in two parts: what depends on the lane, and a number."""
        return self._bases, coordinates(self.layout.element(register), self.layout.shape)
