"""Group the warps that compute a tile together, and locate their lanes in layouts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.layouts import Layout, axis_bits, coordinates
from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.isa.sm90 import named_barrier

WARP: Final = 32
ROLLED: Final = {"llvm.loop_annotation": "#llvm.loop_annotation<unroll = <disable = true>>"}
"""Of loops that are long enough as they are: LLVM must not unroll them."""


@dataclass
class WarpSet:
    """Warps [0, 2 ** bits) of a block, counted by `thread`.

    thread: the lane's number within these warps, an index
    barrier: the hardware barrier of these warps: its number, or an i32
    in_turn: the code emitted now is run by one warp group at a time (ping-pong)
    stalls: code was emitted in which a warp group waits for the other one inside its turn: it must not run
    """

    build: IndexBuilder
    thread: Index
    bits: int
    barrier: Index = 0
    in_turn: bool = False
    stalls: bool = False

    @property
    def warps(self) -> int:
        """Return the number of warps."""
        return 1 << self.bits

    @property
    def lanes(self) -> int:
        """Return the number of lanes."""
        return self.warps * WARP

    def wait(self) -> None:
        """Wait for all lanes of these warps."""
        self.stalls |= self.in_turn
        if self.warps == 1:
            self.build.create("nvvm.bar.warp.sync", [self.build.word(-1)])
        else:
            named_barrier(self.build, self.barrier, self.lanes)

    def first(self) -> ir.Value:
        """Return whether this is the first lane of these warps, an i1."""
        return self.build.compare("eq", self.thread, 0)

    def base(self, layout: Layout) -> Index:
        """Return the element (a row-major number, as an index) in register 0 of this lane."""
        build = self.build
        bits = (*layout.lanes, *layout.warps)
        total: Index = 0
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
        """Return the indices of this lane's elements of a layout."""
        return LanePlaces(self.build, layout, self.base(layout))

    def owns(self, layout: Layout) -> ir.Value | None:
        """Return whether this lane is the first with its elements (an i1); None where no other lane has them."""
        build = self.build
        mask = 0
        for position, basis in enumerate((*layout.lanes, *layout.warps)):
            if not basis:
                mask |= 1 << position
        return build.compare("eq", build.bits(self.thread, mask), 0) if mask else None


class LanePlaces:
    """The indices of a lane's elements, as a part that depends on the lane and one that depends on the register."""

    def __init__(self, build: IndexBuilder, layout: Layout, base: Index) -> None:
        self.layout = layout
        self.base = base
        self._build = build
        self._bases = [self._along(axis) for axis in range(len(layout.shape))]

    def _along(self, axis: int) -> Index:
        """Return the index along `axis` of register 0."""
        build, bits = self._build, axis_bits(self.layout.shape, axis)
        if not bits:
            return 0
        return build.bits(build.divide(self.base, bits[0]), (1 << len(bits)) - 1)

    def indices(self, register: int) -> list[Index]:
        """Return the indices of the element in a register; lane and register parts never share a bit."""
        constant = coordinates(self.layout.element(register), self.layout.shape)
        return [self._build.add(base, offset) for base, offset in zip(self._bases, constant, strict=True)]

    def parts(self, register: int) -> tuple[list[Index], Sequence[int]]:
        """Return these indices in two parts: those of the lane, and constants."""
        return self._bases, coordinates(self.layout.element(register), self.layout.shape)
