"""Layouts, which say where the elements of a tile lie: one algebra for registers, shared memory and swizzles.

A tile's extents are powers of two, and its elements are numbered in row-major order, so an element is a string of bits.
A layout is linear over these bits: the number of an element is the exclusive or of one *basis* for each bit that is
set in the place where it lies (Zhou et al., "Linear Layouts", arXiv 2505.23819).  Reshaping changes nothing,
transposing moves bits, and a swizzle is a basis with two bits set.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Self

BANKS: Final = 32
BANK_BYTES: Final = 4
"""Shared memory answers one word of each bank at a time (CUDA C++ Programming Guide, compute capability 5.0 on)."""
_WORD_BITS: Final = 2
_UNIT_BITS: Final = 4
_LINE_BITS: Final = 7


def bits_of(extent: int) -> int:
    """Number of bits of the indices below `extent`, a power of two.

    Raises:
        ValueError: `extent` is no power of two.
    """
    if extent < 1 or extent & (extent - 1):
        message = f"{extent} is not a power of two"
        raise ValueError(message)
    return extent.bit_length() - 1


def combine(bases: Sequence[int], place: int) -> int:
    """The element at `place`: the exclusive or of the bases of the bits set in it."""
    element = 0
    for bit, basis in enumerate(bases):
        if place >> bit & 1:
            element ^= basis
    return element


@dataclass(frozen=True, slots=True)
class Layout:
    """A tile in registers: which element is in register r of lane l of warp w.

    shape: extents, powers of two
    registers, lanes, warps: a basis for each bit of r, l and w; a lane's or warp's basis of 0 means that both have the
    same elements
    """

    shape: tuple[int, ...]
    registers: tuple[int, ...] = ()
    lanes: tuple[int, ...] = ()
    warps: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Elements a lane holds."""
        return 1 << len(self.registers)

    @property
    def bases(self) -> tuple[int, ...]:
        """All bases, registers first."""
        return (*self.registers, *self.lanes, *self.warps)

    @property
    def used(self) -> int:
        """The bits that differ between elements: those of all bases together."""
        mask = 0
        for basis in self.bases:
            mask |= basis
        return mask

    def element(self, register: int, lane: int = 0, warp: int = 0) -> int:
        """The row-major number of an element."""
        return combine(self.registers, register) ^ combine(self.lanes, lane) ^ combine(self.warps, warp)

    def register_of(self, element: int) -> int:
        """The register whose element has exactly the bits of `element` that registers cover; lanes are ignored."""
        found = 0
        for bit, basis in enumerate(self.registers):
            if element & basis:
                found |= 1 << bit
        return found

    def covers(self) -> bool:
        """Return whether every element lies somewhere, and no register twice in one lane."""
        if any(not basis for basis in self.registers):
            return False
        return rank(self.bases) == bits_of(math.prod(self.shape))

    # -- other shapes ------------------------------------------------------------------------------------------

    def map(self, change: "Change", shape: tuple[int, ...]) -> "Layout":
        """The layout whose bases are those of this one with their bits moved; registers that vanish are dropped."""
        moved = [tuple(change(basis) for basis in bases) for bases in (self.registers, self.lanes, self.warps)]
        return Layout(shape, tuple(basis for basis in moved[0] if basis), moved[1], moved[2])

    def transposed(self, permutation: Sequence[int]) -> "Layout":
        """The layout of the transposed tile whose axis i is axis `permutation[i]` of this one."""
        shape = tuple(self.shape[axis] for axis in permutation)
        return self.map(Change.transpose(self.shape, permutation), shape)

    def reshaped(self, shape: tuple[int, ...]) -> "Layout":
        """Return the layout of a tile of other extents with the same elements in row-major order."""
        return Layout(shape, self.registers, self.lanes, self.warps)

    def sliced(self, axes: Iterable[int]) -> "Layout":
        """The layout of a tile whose extents along `axes` are 1: every lane holds what it needs of it."""
        dropped = set(axes)
        shape = tuple(1 if axis in dropped else extent for axis, extent in enumerate(self.shape))
        moved = self.map(Change.drop(self.shape, dropped), shape)
        unique: list[int] = []
        for basis in moved.registers:
            if rank((*unique, basis)) > len(unique):
                unique.append(basis)
        return Layout(shape, tuple(unique), moved.lanes, moved.warps)

    def text(self) -> str:
        """One line: for each register, lane and warp bit the axis and distance it moves along, as `1:2`."""
        parts = [f"{name} [{', '.join(self._basis(b) for b in bases)}]" for name, bases in self._named() if bases]
        return " ".join(parts) or "one element"

    @classmethod
    def parse(cls, text: str, shape: tuple[int, ...]) -> Self:
        """Return the layout of a tile of `shape` whose `text` this is.

        Raises:
            ValueError: it is the text of no such layout.
        """
        if _LAYOUT_TEXT.fullmatch(text) is None:
            message = f"`{text}` is not the text of a layout, such as `registers [1:1] lanes [1:2, 0:1+1:4, -]`"
            raise ValueError(message)
        parts = {name: _bases(found, shape) for name, found in _PART_TEXT.findall(text)}
        return cls(shape, **parts)

    def _named(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return (("registers", self.registers), ("lanes", self.lanes), ("warps", self.warps))

    def _basis(self, basis: int) -> str:
        if not basis:
            return "-"
        places = coordinates(basis, self.shape)
        return "+".join(f"{axis}:{place}" for axis, place in enumerate(places) if place)


_LAYOUT_TEXT: Final = re.compile(r"one element|(registers \[.*?\])? ?(lanes \[.*?\])? ?(warps \[.*?\])?")
_PART_TEXT: Final = re.compile(r"(registers|lanes|warps) \[(.*?)\]")


def _bases(text: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the bases that a text such as `1:2, 0:1+1:4, -` says."""
    return tuple(sum(_step(move, shape) for move in basis.split("+") if move != "-") for basis in text.split(", "))


def _step(move: str, shape: tuple[int, ...]) -> int:
    """Return how far `0:4`, a move along an axis, goes in a row-major number."""
    axis, _, distance = move.partition(":")
    if not (axis.isdecimal() and distance.isdecimal()) or int(axis) >= len(shape) or int(distance) >= shape[int(axis)]:
        message = (
            f"`{move}` is no move inside a tile of {' x '.join(map(str, shape))}: an axis, and a distance along it"
        )
        raise ValueError(message)
    return int(distance) * math.prod(shape[int(axis) + 1 :])


class Change:
    """A permutation of an element's bits, some of which may vanish: `places[i]` is where bit i goes, or None."""

    def __init__(self, places: Sequence[int | None]) -> None:
        self.places = tuple(places)

    def __call__(self, element: int) -> int:
        """The element with its bits moved."""
        result = 0
        for bit, place in enumerate(self.places):
            if place is not None and element >> bit & 1:
                result |= 1 << place
        return result

    @classmethod
    def transpose(cls, shape: Sequence[int], permutation: Sequence[int]) -> "Change":
        """From elements of `shape` to those of the transposed tile."""
        starts = _starts(shape)
        new = _starts([shape[axis] for axis in permutation])
        places: list[int | None] = [None] * sum(map(bits_of, shape))
        for axis, old in enumerate(permutation):
            for bit in range(bits_of(shape[old])):
                places[starts[old] + bit] = new[axis] + bit
        return cls(places)

    @classmethod
    def exchange(cls, count: int, one: int, other: int) -> "Change":
        """Of elements of `count` bits, those whose values are `one` and `other` change places."""
        first, second = one.bit_length() - 1, other.bit_length() - 1
        places = {first: second, second: first}
        return cls([places.get(bit, bit) for bit in range(count)])

    @classmethod
    def drop(cls, shape: Sequence[int], axes: set[int]) -> "Change":
        """From elements of `shape` to those of the tile with extents 1 along `axes`."""
        starts = _starts(shape)
        new = _starts([1 if axis in axes else extent for axis, extent in enumerate(shape)])
        places: list[int | None] = [None] * sum(map(bits_of, shape))
        for axis, extent in enumerate(shape):
            if axis not in axes:
                for bit in range(bits_of(extent)):
                    places[starts[axis] + bit] = new[axis] + bit
        return cls(places)

    @classmethod
    def compress(cls, mask: int) -> "Change":
        """From elements whose bits are all in `mask` to a number without the bits between them."""
        places: list[int | None] = []
        kept = 0
        for bit in range(mask.bit_length()):
            places.append(kept if mask >> bit & 1 else None)
            kept += mask >> bit & 1
        return cls(places)


def _starts(shape: Sequence[int]) -> list[int]:
    """The lowest bit of each axis in a row-major number."""
    below = 0
    starts: list[int] = []
    for extent in reversed(shape):
        starts.append(below)
        below += bits_of(extent)
    return starts[::-1]


def axis_bits(shape: Sequence[int], axis: int) -> list[int]:
    """The row-major number of the elements at 1, 2, 4, ... along `axis`: its bits, lowest first."""
    start = _starts(shape)[axis]
    return [1 << (start + bit) for bit in range(bits_of(shape[axis]))]


def coordinates(element: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The indices, one an axis, of a row-major number."""
    places: list[int] = []
    for extent in reversed(shape):
        places.append(element % extent)
        element //= extent
    return tuple(reversed(places))


def rank(bases: Iterable[int]) -> int:
    """How many of `bases` are independent over exclusive or (Gaussian elimination)."""
    reduced: list[int] = []
    for basis in bases:
        rest = basis
        for known in reduced:
            rest = min(rest, rest ^ known)
        if rest:
            reduced.append(rest)
    return len(reduced)


# -- how a tile is spread ----------------------------------------------------------------------------------------


def spread(shape: tuple[int, ...], order: Sequence[tuple[str, int]], warps: int, lanes: int = 5) -> Layout:
    """A layout that hands out bits in `order`.

    order: pairs ("registers", "lanes" or "warps", basis): lowest bit of each first; a place that is full passes its
           bit on to the next of lanes, warps, registers
    warps, lanes: how many bits of warp and lane numbers there are; what is left over holds the same elements
    """
    capacity = {"registers": 64, "lanes": lanes, "warps": warps}
    given: dict[str, list[int]] = {"registers": [], "lanes": [], "warps": []}
    for place, basis in order:
        choices = [place, *(p for p in ("lanes", "warps", "registers") if p != place)]
        free = next(p for p in choices if len(given[p]) < capacity[p])
        given[free].append(basis)
    for place, size in (("lanes", lanes), ("warps", warps)):
        given[place] += [0] * (size - len(given[place]))
    return Layout(shape, tuple(given["registers"]), tuple(given["lanes"]), tuple(given["warps"]))


def blocked(shape: tuple[int, ...], vector: int, warps: int) -> Layout:
    """Lanes side by side along the last axis, each with `vector` neighbouring elements: the way memory likes it.

    `warps` is the number of bits of warp numbers.
    """
    vector_bits = min(bits_of(vector), bits_of(shape[-1]))
    total = sum(map(bits_of, shape))
    order = [("registers" if bit < vector_bits else "lanes", 1 << bit) for bit in range(total)]
    return spread(shape, order, warps)


def accumulator(shape: tuple[int, int], warps: int, columns: int = 0) -> Layout:
    """The result of `wgmma` and `mma.sync`: 16 rows a warp, 8 columns at a time (PTX ISA, 9.7.14.5 and 9.7.15.5).

    Lane l holds columns 2 (l % 4) and the next one of rows l / 4 and l / 4 + 8; warps are stacked along the rows, but
    the highest `columns` bits of their numbers are the highest bits of columns.  Tiles with fewer rows than the warps
    cover are held several times.
    """
    rows, along = (axis_bits(shape, axis) for axis in (0, 1))
    inner = len(along) - columns
    stacked = rows[4 : 4 + warps - columns]
    registers = (along[0], rows[3], *along[3:inner], *rows[4 + len(stacked) :])
    repeated = (0,) * (warps - columns - len(stacked))
    return Layout(shape, registers, (*along[1:3], *rows[:3]), (*stacked, *repeated, *along[inner:]))


def register_blocks(shape: tuple[int, int], warps: int, columns: int, neighbours: tuple[bool, bool]) -> Layout:
    """The result of a product that lanes compute by themselves: about as many rows as columns in each lane.

    neighbours: whether a lane holds 4 neighbouring rows (columns), or the lanes beside it have the next ones
    columns: how many bits of warp numbers are columns; the others are rows

    Lanes that differ in bit 0 share columns, and those that differ in bit 1 share rows: a half warp's reads of 16
    bytes then are served together, from 4 places (two lanes side by side read the same).
    """
    rows, along = (axis_bits(shape, axis) for axis in (0, 1))
    order: list[tuple[str, int]] = []
    for bits, together in ((along, neighbours[1]), (rows, neighbours[0])):
        if together:
            order += [("registers", bit) for bit in bits[:2]]
            del bits[:2]
    wanted = (rows, along, along, rows, along)
    for bits in wanted:
        source = bits or rows or along
        if source:
            order.append(("lanes", source.pop(0)))
    stacked: list[int] = []
    for count, bits in ((warps - columns, rows), (columns, along)):
        stacked += [(bits or rows or along).pop() for _ in range(min(count, len(rows) + len(along)))]
    order += [("warps", bit) for bit in sorted(stacked)]
    order += [("registers", bit) for bit in (*along, *rows)]
    return spread(shape, order, warps)


def bank_conflicts(addresses: Sequence[int], size: int) -> int:
    """How many times longer than without conflicts a warp's access takes.

    addresses: byte address of each lane's access of `size` bytes (4, 8 or 16); accesses of 8 and 16 bytes are served
    to half and quarter warps at a time.
    """
    lanes = len(addresses) * BANK_BYTES // max(BANK_BYTES, size)
    longest = 1
    for first in range(0, len(addresses), max(1, lanes)):
        words: dict[int, set[int]] = {}
        for address in addresses[first : first + lanes]:
            for word in range(address // BANK_BYTES, (address + size - 1) // BANK_BYTES + 1):
                words.setdefault(word % BANKS, set()).add(word)
        longest = max(longest, *(len(group) for group in words.values()))
    return longest


@dataclass(frozen=True, slots=True)
class Swizzle:
    """A permutation of byte offsets: bit `source` is combined into the lower bit `target`, for each pair.

    pairs: (source, target), every source above every target, so that the offset can be told from the result
    """

    pairs: tuple[tuple[int, int], ...] = ()

    def __call__(self, offset: int) -> int:
        """Return where the byte at `offset` lies; linear: that of an exclusive or is the exclusive or of those."""
        result = offset
        for source, target in self.pairs:
            result ^= (offset >> source & 1) << target
        return result

    def shifts(self) -> dict[int, int]:
        """Return the swizzle as `offset ^ (offset >> distance & mask)`: the mask of each distance."""
        masks: dict[int, int] = {}
        for source, target in self.pairs:
            masks[source - target] = masks.get(source - target, 0) | 1 << target
        return masks


def choose_swizzle(accesses: Sequence[tuple[Layout, int]], size: int) -> Swizzle:
    """The swizzle with which accesses to shared memory meet the fewest bank conflicts.

    accesses: a layout, whose elements of `size` bytes lie in memory in row-major order, and how many neighbouring
    registers move together; units of 16 bytes stay whole
    """
    above = range(_LINE_BITS, max((layout.used * size).bit_length() for layout, _ in accesses))
    choices = [(None, *above)] * (_LINE_BITS - _UNIT_BITS)
    best, least = Swizzle(), math.inf
    for sources in product(*choices):
        pairs = tuple((s, _UNIT_BITS + bit) for bit, s in enumerate(sources) if s is not None)
        swizzle = Swizzle(pairs)
        cost = sum(slowdown(layout, together, size, swizzle) for layout, together in accesses)
        if (cost, len(pairs)) < (least, len(best.pairs)):
            best, least = swizzle, cost
    return best


def slowdown(layout: Layout, together: int, size: int, swizzle: Swizzle) -> int:
    """How many times longer than without bank conflicts a warp's access takes: `bank_conflicts`, by rank."""
    wide = max(BANK_BYTES, together * size)
    served = (BANKS * BANK_BYTES // wide).bit_length() - 1
    words = [swizzle(basis * size) >> _WORD_BITS for basis in layout.lanes[:served]]
    units = (wide // BANK_BYTES).bit_length() - 1
    return 1 << rank(word >> units for word in words) - rank((word & BANKS - 1) >> units for word in words)


def swizzled(offset: int, swizzle: int) -> int:
    """A byte offset after the hardware's swizzle of `swizzle` (0, 32, 64 or 128) bytes.

    Within rows of `swizzle` bytes, the number of a 16-byte unit is combined with the number of the 128-byte line it
    lies in (PTX ISA, 5.5.7 "Tensor Swizzling Modes"): `offset ^ (offset >> 7 & units - 1) << 4`.
    """
    units = swizzle // 16
    return offset ^ (offset >> 7 & units - 1) << 4 if units > 1 else offset
