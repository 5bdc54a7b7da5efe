"""Copies from global to shared memory, asynchronous where the hardware has them.

`cp.async` moves 4, 8 or 16 aligned bytes without a register and fills with zeros what lies outside the array.  Elements
of 4 and 8 bytes are always aligned; pieces of 16 bytes are used when, at run time, the rows turn out to be aligned.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

from tessera.lowering.base.attributes import dropped_axes, proven_axes
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width
from tessera.lowering.cuda.base.memory import Memory, address, inside, read, split, write
from tessera.lowering.cuda.simt.tile_values import Tiles

_PIECE: Final = 16
_ASYNCHRONOUS: Final = (4, 8, 16)


class CopyContext(Protocol):
    """What copies ask of the lowering around them."""

    build: IndexBuilder
    tiles: Tiles


def copy_window(host: CopyContext, op: Any, destination: Memory, source: Memory, starts: Sequence[Any]) -> None:
    """Start copying the window of `source` at `starts` that the `tessera.copy` names into `destination`.

    The bytes are there after the next `cp.async.wait_all` and barrier.
    """
    dropped = dropped_axes(op)
    proven = proven_axes(op)
    window = _Window(host, destination, source, list(starts), dropped, proven)
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


class _Window:
    """One copy: `destination` has the window's shape without the dropped axes."""

    def __init__(
        self,
        host: CopyContext,
        destination: Memory,
        source: Memory,
        starts: list[Any],
        dropped: frozenset[int],
        proven: list[bool],
    ) -> None:
        self.tiles = host.tiles
        self.build = host.build
        self.destination = destination
        self.source = source
        self.starts = starts
        self.dropped = dropped
        self.proven = proven
        self.size = width(source.element) // 8

    def _place(self, indices: Sequence[Any]) -> list[Any]:
        left = iter(indices)
        return [
            start if axis in self.dropped else self.build.add(start, next(left))
            for axis, start in enumerate(self.starts)
        ]

    # -- pieces of 16 bytes --------------------------------------------------------------------------------------

    def aligned(self) -> Any:
        """An i1: every row of the window starts at a multiple of 16 bytes; None where pieces cannot be used."""
        build, source = self.build, self.source
        count = _PIECE // self.size
        last = len(source.strides) - 1
        rows = self.destination.extents
        if self.tiles.team.serial or last < 0 or last in self.dropped or rows[-1] % count or source.strides[last] != 1:
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
        """Copy 16 bytes at a time; what is past the end of a row arrives as zeros."""
        build, count = self.build, _PIECE // self.size
        shape = [*self.destination.extents[:-1], self.destination.extents[-1] // count]

        def piece(number: Any) -> None:
            *rows, along = split(build, number, shape)
            indices = [*rows, build.mul(along, count)]
            place = self._place(indices)
            fully = inside(build, self.source, [*place[:-1], 0], [*self.proven[:-1], True])
            left: Any = count
            if not self.proven[-1]:
                room = build.sub(self.source.extents[-1], place[-1])
                left = build.minimum(build.maximum(room, 0), count)
            if fully is not None:
                left = build.select(fully, left, 0)
            if isinstance(left, int):
                self._asynchronous(place, indices, _PIECE, left * self.size)
                return
            # The hardware reads 16 bytes or none: of the last piece of a row that ends in its middle, lanes read each
            # element that is there.
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
        build, shape = self.build, self.destination.extents

        def element(number: Any) -> None:
            indices = split(build, number, shape)
            place = self._place(indices)
            if self.size in _ASYNCHRONOUS and not self.tiles.team.serial:
                condition = inside(build, self.source, place, self.proven)
                amount: Any = self.size if condition is None else build.select(condition, self.size, 0)
                self._asynchronous(place, indices, self.size, amount)
                return
            self._element(indices)

        self.tiles.each(math.prod(shape), element)

    def _element(self, indices: Sequence[Any]) -> None:
        """Copy one element by way of a register."""
        build = self.build
        value = read(build, self.source, self._place(indices), self.source.element, self.proven)
        write(build, self.destination, value, indices, [True] * len(indices))

    def _asynchronous(self, place: list[Any], indices: list[Any], size: int, amount: Any) -> None:
        """`cp.async` of `size` bytes, of which `amount` are read and the others are zeros."""
        build = self.build
        # An address outside the array is not read (amount 0), but must not be formed from a wild index either.
        origin: list[Any] = [0] * len(place)
        if not isinstance(amount, int):
            some = build.compare("ne", amount, 0)
            place = [build.select(some, p, o) for p, o in zip(place, origin, strict=True)]
        operands = [address(build, self.destination, indices), address(build, self.source, place)]
        if not (isinstance(amount, int) and amount == size):
            operands.append(build.to_word(amount))
        cache = "cg" if size == _PIECE else "ca"
        attributes = {"size": f"{size} : i32", "modifier": f"#nvvm<load_cache_modifier {cache}>"}
        build.create("nvvm.cp.async.shared.global", operands, (), attributes)
