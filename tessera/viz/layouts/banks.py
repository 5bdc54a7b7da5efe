"""Shared memory as its banks see it: offsets of a tile's elements, and lanes of an access in each other's way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.layouts import BANK_BYTES, BANKS, Swizzle, swizzled

WARP: Final = 32
WIDTHS: Final = (1, 2, 4, 8, 16)
_SWIZZLES: Final = (0, 32, 64, 128)
_LINE: Final = 128
XOR: Final = Swizzle(((7, 4), (8, 5), (9, 6)))
"""The swizzle of `tshared.alloc(..., swizzle="xor")`: 16-byte chunks of a line of 128 bytes, by the line's number."""


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """A tile of one or two axes in shared memory.

    itemsize: bytes of an element
    swizzle: 0 (row-major); 32, 64 or 128: the hardware's, of panels whose rows have so many bytes, one panel after the
        other (what TMA writes and wgmma reads); "xor": that of `tshared.alloc`; or a `Swizzle` of row-major offsets
    padding: bytes after each row, for row-major tiles
    """

    shape: tuple[int, ...]
    itemsize: int
    swizzle: int | str | Swizzle = 0
    padding: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.shape) <= 2 or any(extent < 1 for extent in self.shape):
            raise ValueError(f"a tile in shared memory has one or two axes with elements, not {self.shape}")
        if self.itemsize not in WIDTHS:
            raise ValueError(f"elements have 1, 2, 4, 8 or 16 bytes, not {self.itemsize}")
        if self.padding and self.swizzle != 0:
            raise ValueError("a tile is padded or swizzled, not both")
        if isinstance(self.swizzle, str) and self.swizzle != "xor":
            raise ValueError(f'the swizzle with a name is "xor", not {self.swizzle!r}')
        if isinstance(self.swizzle, int) and self.swizzle not in _SWIZZLES:
            raise ValueError(f"the hardware swizzles rows of 32, 64 or 128 bytes, not {self.swizzle}")
        if isinstance(self.swizzle, int) and self.swizzle and self.columns * self.itemsize % self.swizzle:
            raise ValueError(f"rows of {self.columns * self.itemsize} bytes are no panels of {self.swizzle}")

    @property
    def rows(self) -> int:
        """Rows; one of a vector."""
        return self.shape[0] if len(self.shape) > 1 else 1

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.shape[-1]

    def linear(self, row: int, column: int) -> int:
        """Return the byte offset of an element before the swizzle."""
        if isinstance(self.swizzle, int) and self.swizzle:
            panel, inside = divmod(column * self.itemsize, self.swizzle)
            return (panel * self.rows + row) * self.swizzle + inside
        return row * (self.columns * self.itemsize + self.padding) + column * self.itemsize

    def offset(self, row: int, column: int) -> int:
        """Return the byte offset of an element."""
        linear = self.linear(row, column)
        if isinstance(self.swizzle, int):
            return swizzled(linear, self.swizzle)
        return (XOR if isinstance(self.swizzle, str) else self.swizzle)(linear)

    def formula(self) -> tuple[str, str]:
        """Return how an element's offset and bank are computed, and how the element is found from an offset."""
        size, stride = self.itemsize, self.columns * self.itemsize + self.padding
        if isinstance(self.swizzle, int) and self.swizzle:
            width = self.swizzle // size
            linear = f"(col / {width} * {self.rows} + row) * {self.swizzle} + col % {width} * {size}"
            rows = f"row = o / {self.swizzle} % {self.rows}"
            back = f"{rows}, col = o / {self.swizzle * self.rows} * {width} + o % {self.swizzle} / {size}"
            units = self.swizzle // 16
            shifts = {3: (units - 1) << 4} if units > 1 else {}
        else:
            linear = f"row * {stride} + col * {size}" if self.rows > 1 else f"col * {size}"
            back = f"row = o / {stride}, col = o % {stride} / {size}"
            chosen = XOR if isinstance(self.swizzle, str) else self.swizzle
            shifts = chosen.shifts() if isinstance(chosen, Swizzle) else {}
        mix = "".join(f" ^ (o >> {distance} & {mask:#x})" for distance, mask in shifts.items())
        forward = f"o = {linear}; offset = o{mix}; bank = offset / {BANK_BYTES} % {BANKS}"
        if mix and _is_involution(shifts):
            back = f"o = {'offset' + mix.replace('o >>', 'offset >>')}; {back}"
        elif mix:
            back = f"o = the bits of offset, each with those above it taken out again{mix}; {back}"
        else:
            back = f"o = offset; {back}"
        return forward, back


def _is_involution(shifts: Mapping[int, int]) -> bool:
    """Tell whether no bit that is changed changes another one, so that the same exclusive or undoes the swizzle."""
    targets = 0
    for mask in shifts.values():
        targets |= mask
    return all(not (mask << distance & targets) for distance, mask in shifts.items())


@dataclass(frozen=True, slots=True)
class BankUse:
    """One bank in one pass over some lanes: the words of 4 bytes that it must give, and the lanes that want each."""

    bank: int
    words: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Served:
    """Lanes whose access is served together, and the banks that are asked for more than one word."""

    lanes: tuple[int, int]
    degree: int
    conflicts: tuple[BankUse, ...]


@dataclass(frozen=True, slots=True)
class BankReport:
    """One access of a warp: `degree` is how many times as long it takes as without conflicts."""

    degree: int
    served: tuple[Served, ...]

    @property
    def colliding(self) -> tuple[int, ...]:
        """The lanes that wait for others, or that others wait for."""
        found = {
            lane for part in self.served for use in part.conflicts for _, lanes in use.words for lane in lanes
        }  # fmt: skip
        return tuple(sorted(found))


def bank_report(addresses: Sequence[int], size: int) -> BankReport:
    """Return the bank conflicts of a warp's access: `addresses` of `size` bytes, one a lane.

    Lanes that want the same word get it at once.  Accesses of 8 and 16 bytes are served to half and quarter warps.
    """
    if size not in WIDTHS:
        raise ValueError(f"a lane accesses 1, 2, 4, 8 or 16 bytes, not {size}")
    together = len(addresses) * BANK_BYTES // max(BANK_BYTES, size) or 1
    served: list[Served] = []
    for first in range(0, len(addresses), together):
        banks: dict[int, dict[int, list[int]]] = {}
        past = min(first + together, len(addresses))
        for lane in range(first, past):
            address = addresses[lane]
            for word in range(address // BANK_BYTES, (address + size - 1) // BANK_BYTES + 1):
                banks.setdefault(word % BANKS, {}).setdefault(word, []).append(lane)
        uses = [
            BankUse(bank, tuple((word, tuple(lanes)) for word, lanes in sorted(words.items())))
            for bank, words in sorted(banks.items())
            if len(words) > 1
        ]
        served.append(Served((first, past), max((len(use.words) for use in uses), default=1), tuple(uses)))
    return BankReport(max((part.degree for part in served), default=1), tuple(served))


@dataclass(frozen=True, slots=True)
class Access:
    """One instruction of a warp: the element where each lane begins, and the bytes that a lane moves."""

    name: str
    size: int
    places: tuple[tuple[int, int], ...]


def usual_accesses(layout: SharedLayout) -> tuple[Access, ...]:
    """Return what warps do to tiles: rows, columns, rows of 16 bytes a lane, and, of 16 bits, what MMAs take.

    Indices wrap around where the tile is smaller than a warp.
    """
    rows, columns, size = layout.rows, layout.columns, layout.itemsize
    lanes = range(WARP)
    found = [Access(f"a row, {size} B a lane", size, tuple((n // columns % rows, n % columns) for n in lanes))]
    if rows > 1:
        found.append(Access(f"a column, {size} B a lane", size, tuple((n % rows, n // rows % columns) for n in lanes)))
    wide = 16 // size
    if wide > 1 and columns % wide == 0:
        chunks = columns // wide
        by_rows = tuple((n // chunks % rows, n % chunks * wide) for n in lanes)
        found.append(Access("rows, 16 B a lane", 16, by_rows))
        if rows > 1:
            found.append(
                Access("a column of 16 B a lane", 16, tuple((n % rows, n // rows % chunks * wide) for n in lanes))
            )
    if size == 2 and rows >= 16 and columns >= 16:
        matrix = tuple((n % 16, n // 16 * 8) for n in lanes)
        found.append(Access("ldmatrix.x4: 16 x 16 of 16 bits", 16, matrix))
        found.append(Access("A of mma.sync without ldmatrix, 4 B a lane", 4, tuple((n // 4, n % 4 * 2) for n in lanes)))
    return tuple(found)
