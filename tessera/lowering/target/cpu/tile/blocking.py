"""How a matrix product is cut into blocks that fit registers and caches: numbers only, no code."""

from dataclasses import dataclass
from typing import Final

from tessera.lowering.target.cpu.machine import Machine
from tessera.lowering.target.loops import padded

_DEPTH: Final = 256
"""Steps of K a packed block holds: a panel of 16 f32 columns is half of a 32 KiB first-level cache."""
_DEEPEST: Final = 512
_STREAM_DEPTH: Final = 16
_PACKED_BYTES: Final = 256 << 10
"""Bytes of packed columns kept in the second-level cache while all rows pass by."""
_BAND_BYTES: Final = 136 << 10
"""Bytes of rows that stay there beside them."""
STREAM_ROWS: Final = 4
"""With so few rows, columns are used as they come: packing them would cost more than it saves."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """The blocks of a product of `rows` x `columns` x `depth`.

    lanes: elements of a vector; vectors: vectors side by side in a panel; step: rows worked on at once
    depth_block: steps of K between two visits of the accumulator; panels_packed: panels packed together
    rows_packed: rows that pass by before the next ones come
    stream: whether columns are read where they are instead of packed
    """

    rows: int
    columns: int
    depth: int
    lanes: int
    vectors: int
    step: int
    depth_block: int
    panels_packed: int
    rows_packed: int
    stream: bool

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.lanes * self.vectors

    @property
    def panels(self) -> int:
        """Panels that cover the columns; the last one may be partial."""
        return -(-self.columns // self.width)

    @property
    def full_panels(self) -> int:
        """Panels without padding."""
        return self.columns // self.width

    def bands(self) -> list[tuple[int, int, int]]:
        """(first row, number of bands, rows a band): rows whose packed block stays in the second-level cache."""
        count = -(-self.rows // max(1, self.rows_packed))
        if count == 1:
            return [(0, 1, self.rows)]
        size = -(-self.rows // (count * self.step)) * self.step
        whole, rest = divmod(self.rows, size)
        return [(0, whole, size), *([(whole * size, 1, rest)] if rest else [])]

    def row_blocks(self, count: int) -> list[tuple[int, int, int]]:
        """(first row, number of blocks, rows a block) that cover `count` rows exactly.

        Small remainders are slow, since few sums are under way at once: a 6 is split to make two 4s of 6 + 2.
        """
        step, rest = self.step, count % self.step
        whole = count // step
        sizes = [rest] if rest else []
        half = step - 2
        if whole and 0 < rest < half and step + rest >= 2 * half:
            whole, sizes = whole - 1, [half, step + rest - half]
        blocks = [(0, whole, step)] if whole else []
        first = whole * step
        for size in sizes:
            if blocks and blocks[-1][2] == size:
                blocks[-1] = (blocks[-1][0], blocks[-1][1] + 1, size)
            else:
                blocks.append((first, 1, size))
            first += size
        return blocks


def choose(rows: int, columns: int, depth: int, element_bytes: int, machine: Machine) -> Blocking:
    """The blocking of a product on `machine`."""
    row = padded(columns)
    lanes = min(machine.lanes(element_bytes), row)
    stream = rows <= STREAM_ROWS
    # One register in four holds columns and a row's element, the others sums.
    sums = machine.registers * 3 // 4
    if stream:
        vectors = max(v for v in (8, 4, 2, 1) if v * rows <= max(sums, rows) and row % (v * lanes) == 0)
    else:
        vectors = 2 if row % (2 * lanes) == 0 else 1
    step = min(rows, max(1, sums // vectors) if machine.registers < 32 or vectors == 1 else 8)
    if vectors == 1:
        step = min(step, 8 if machine.registers < 32 else 16)
    depth_block = _divisor(depth, _STREAM_DEPTH, _STREAM_DEPTH) if stream else _divisor(depth, _DEPTH, _DEEPEST)
    panel_bytes = depth_block * lanes * vectors * element_bytes
    packed = max(1, _PACKED_BYTES // panel_bytes)
    band = max(step, _BAND_BYTES // (depth_block * element_bytes))
    return Blocking(rows, columns, depth, lanes, vectors, step, depth_block, packed, band, stream)


def _divisor(extent: int, wanted: int, most: int) -> int:
    """A block length up to `most`: all of it if that fits, else a divisor near `wanted`, else `wanted`."""
    if extent <= most:
        return extent
    divisors = [d for d in range(wanted // 2, most + 1) if extent % d == 0]
    return min(divisors, key=lambda d: abs(d - wanted), default=wanted)
