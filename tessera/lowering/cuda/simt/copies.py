"""Copy from global to shared memory, with `cp.async` where it applies.

`cp.async` moves 4, 8 or 16 aligned bytes without a register and fills with zeros what lies outside the array.  Elements
of 4 and 8 bytes are always aligned; pieces of 16 bytes are used if the rows turn out to be aligned at run time.
"""

import math
from collections.abc import Sequence
from typing import Final, Protocol

from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.base.attributes import dropped_axes, proven_axes
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width
from tessera.lowering.cuda.base.memory import GlobalMemory, address, inside, read, split, write
from tessera.lowering.cuda.simt.tile_values import TileBuffers

_PIECE: Final = 16
_ASYNCHRONOUS: Final = (4, 8, 16)


class CopyContext(Protocol):
    """Declare what copies need of the lowering."""

    build: IndexBuilder
    tiles: TileBuffers


def copy_window(
    host: CopyContext, op: AnyOp, destination: GlobalMemory, source: GlobalMemory, starts: Sequence[Index]
) -> None:
    """Start copying the window of `source` at `starts` that the `tessera.copy` names into `destination`.

    The copy is complete after the next `cp.async.wait_all` and barrier.
    """
    shape = tuple(ir.ShapedType(op.operands[0].type).shape)
    window = _CopyWindow(host, destination, source, shape, starts, dropped_axes(op), proven_axes(op))
    condition = window.aligned()
    build = host.build
    if condition is None:
        window.elements()
        return
    made = build.create("scf.if", [condition], (), regions=2)
    for region, emit in zip(made.regions, (window.pieces, window.elements), strict=True):
        with build.at(region.blocks.append()):
            emit()
            build.create("scf.yield")


class _CopyWindow:
    """Emit one copy; `shape`: that of `destination`, and of the window without the dropped axes."""

    def __init__(
        self,
        host: CopyContext,
        destination: GlobalMemory,
        source: GlobalMemory,
        shape: tuple[int, ...],
        starts: Sequence[Index],
        dropped: frozenset[int],
        proven: list[bool],
    ) -> None:
        self.tiles = host.tiles
        self.build = host.build
        self.destination = destination
        self.source = source
        self.shape = shape
        self.starts = starts
        self.dropped = dropped
        self.proven = proven
        self.size = width(source.element) // 8

    def _place(self, indices: Sequence[Index]) -> list[Index]:
        left = iter(indices)
        return [
            start if axis in self.dropped else self.build.add(start, next(left))
            for axis, start in enumerate(self.starts)
        ]

    # -- pieces of 16 bytes --------------------------------------------------------------------------------------

    def aligned(self) -> ir.Value | None:
        """Emit an i1: every row of the window starts at a multiple of 16 bytes; None if pieces cannot be used."""
        build, source = self.build, self.source
        count = _PIECE // self.size
        last = len(source.strides) - 1
        if self.tiles.computing_lanes.serial or last < 0 or last in self.dropped:
            return None
        if self.shape[-1] % count or source.strides[last] != 1:
            return None
        first = address(build, source, self.starts)
        bits = build.value("llvm.ptrtoint", [first], "i64")
        for axis, stride in enumerate(source.strides[:-1]):
            if axis not in self.dropped:
                bits = build.value("arith.ori", [bits, build.index(build.mul(stride, self.size))], "i64")
        even = build.compare("eq", build.bits(bits, _PIECE - 1), 0)
        if self.proven[-1]:
            return even
        # A window that begins before the array could have a piece of which only the end is inside.
        return build.all_of([even, build.compare("sge", self.starts[-1], 0)])

    def pieces(self) -> None:
        """Copy 16 bytes at a time, and zeros for what is past the end of a row."""
        build, count = self.build, _PIECE // self.size
        shape = [*self.shape[:-1], self.shape[-1] // count]

        def piece(number: Index) -> None:
            *rows, along = split(build, number, shape)
            indices = [*rows, build.mul(along, count)]
            place = self._place(indices)
            fully = inside(build, self.source, [*place[:-1], 0], [*self.proven[:-1], True])
            left: Index = count
            if not self.proven[-1]:
                remaining = build.sub(self.source.extents[-1], place[-1])
                left = build.minimum(build.maximum(remaining, 0), count)
            if fully is not None:
                left = build.select(fully, left, 0)
            if isinstance(left, int):
                self._asynchronous(place, indices, _PIECE, left * self.size)
                return
            # The hardware reads 16 bytes or none: where a row ends inside a piece, lanes copy that piece's elements one
            # by one.
            whole = build.compare("eq", build.remainder(left, count), 0)
            made = build.create("scf.if", [whole], (), regions=2)
            with build.at(made.regions[0].blocks.append()):
                self._asynchronous(place, indices, _PIECE, build.mul(left, self.size))
                build.create("scf.yield")
            with build.at(made.regions[1].blocks.append()):
                for step in range(count):
                    self._element([*rows, build.add(indices[-1], step)])
                build.create("scf.yield")

        self.tiles.each(math.prod(shape), piece)

    # -- single elements -----------------------------------------------------------------------------------------

    def elements(self) -> None:
        """Copy element by element."""
        build, shape = self.build, self.shape

        def element(number: Index) -> None:
            indices = split(build, number, shape)
            place = self._place(indices)
            if self.size in _ASYNCHRONOUS and not self.tiles.computing_lanes.serial:
                condition = inside(build, self.source, place, self.proven)
                amount: Index = self.size if condition is None else build.select(condition, self.size, 0)
                self._asynchronous(place, indices, self.size, amount)
                return
            self._element(indices)

        self.tiles.each(math.prod(shape), element)

    def _element(self, indices: Sequence[Index]) -> None:
        """Copy one element through a register."""
        build = self.build
        value = read(build, self.source, self._place(indices), self.source.element, self.proven)
        write(build, self.destination, value, indices, [True] * len(indices))

    def _asynchronous(self, place: list[Index], indices: list[Index], size: int, amount: Index) -> None:
        """Emit a `cp.async` of `size` bytes, of which `amount` are read and the others are zeros."""
        build = self.build
        # An address outside the array is not read (amount 0), but must not be formed from a wild index either.
        origin: list[Index] = [0] * len(place)
        if not isinstance(amount, int):
            some = build.compare("ne", amount, 0)
            place = [build.select(some, p, o) for p, o in zip(place, origin, strict=True)]
        operands = [address(build, self.destination, indices), address(build, self.source, place)]
        if not (isinstance(amount, int) and amount == size):
            operands.append(build.to_word(amount))
        cache = "cg" if size == _PIECE else "ca"
        attributes = {"size": f"{size} : i32", "modifier": f"#nvvm<load_cache_modifier {cache}>"}
        build.create("nvvm.cp.async.shared.global", operands, (), attributes)
