"""How a matrix product is cut into blocks that fit registers and caches: numbers only, no code."""

from dataclasses import dataclass
from typing import Final

from tessera.lowering.base.structured_control import padded
from tessera.lowering.cpu.base.cache_model import CacheModel

_DEPTH: Final = 256
"""Steps of K a packed block holds, or so: fewer would visit the sums in memory more often."""
_PANEL_BYTES: Final = 32 << 10
"""Bytes of a packed panel at most: it stays in the first-level cache while rows pass by."""
_STREAM_DEPTH: Final = 16
_PACKED_VECTORS: Final = 8 << 10
"""Vectors of packed columns kept in the second-level cache while all rows pass by: a quarter of it, or half."""
_MACRO_BLOCK_BYTES: Final = 136 << 10
"""Bytes of rows that stay there beside them."""
STREAM_ROWS: Final = 4
"""With so few rows, columns are used as they come: packing them would cost more than it saves."""
_SEGMENT: Final = 384
"""Multiply-adds of vectors between two hints of what comes next."""
_UNROLL: Final = 2


@dataclass(frozen=True, slots=True)
class Heights:
    """Blocks [first, past) of `rows` rows each; block 0 would begin at row `origin` if all had so many."""

    rows: int
    first: int
    past: int
    origin: int


@dataclass(frozen=True, slots=True)
class Blocking:
    """The blocks of a product of `rows` x `columns` x `depth`.

    lanes: elements of a vector; vectors: vectors side by side in a panel; step: rows worked on at once, at most
    depth_block: steps of K between two visits of the accumulator; panels_packed: panels packed together
    band: blocks of rows that pass by before the next ones come
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
    macro_block: int
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

    @property
    def one_pass(self) -> bool:
        """Return whether all panels are packed together, so that rows pass by once."""
        return self.panels <= self.panels_packed

    @property
    def blocks(self) -> int:
        """Blocks of rows: as few as possible."""
        return -(-self.rows // self.step)

    @property
    def heights(self) -> tuple[Heights, ...]:
        """Blocks as alike as possible: high ones, then those with one row fewer.

        Small remainders would be slow, since few sums are under way at once.
        """
        low, high = divmod(self.rows, self.blocks)
        tall = Heights(low + 1, 0, high, 0)
        return (*([tall] if high else []), Heights(low, high, self.blocks, high))

    def segment(self, depth: int) -> int:
        """Steps of K between two hints, of a chain of `depth` steps: all of them where none divides it well."""
        wanted = max(1, _SEGMENT // (self.step * self.vectors))
        near = [steps for steps in range(wanted // 2 + 1, wanted + 1) if depth % steps == 0]
        return max(near, key=lambda steps: (unrolled(steps), steps), default=depth)


def unrolled(depth: int) -> int:
    """Steps of K in one round of the inner loop."""
    return next(count for count in (_UNROLL, 2, 1) if depth % count == 0)


def choose(rows: int, columns: int, depth: int, element_bytes: int, machine: CacheModel) -> Blocking:
    """Return the blocking of a product on `machine`.

    One register in four holds columns and a row's element, the others sums.  Two vectors side by side use each element
    of a row twice: then multiply-adds take longer than loads, and the panel is still narrow enough to stay near.
    """
    row = padded(columns)
    lanes = min(machine.lanes(element_bytes), row)
    stream = rows <= STREAM_ROWS
    accumulators = machine.registers * 3 // 4
    if stream:
        vectors = max(v for v in (8, 4, 2, 1) if v * rows <= max(accumulators, rows) and row % (v * lanes) == 0)
    else:
        vectors = 2 if row % (2 * lanes) == 0 else 1
    # A single vector is bound by loads in any case, and needs sums for the latency of a multiply-add only.
    step = min(rows, accumulators // vectors if vectors > 1 else machine.registers // 2)
    step_bytes = lanes * vectors * element_bytes
    wanted, most = (_STREAM_DEPTH, _STREAM_DEPTH) if stream else (_DEPTH, min(2 * _DEPTH, _PANEL_BYTES // step_bytes))
    depth_block = _divisor(depth, min(wanted, most), most)
    packed = max(1, _PACKED_VECTORS * machine.vector_bytes // (depth_block * step_bytes))
    macro_block = max(1, _MACRO_BLOCK_BYTES // (depth_block * element_bytes * step))
    return Blocking(rows, columns, depth, lanes, vectors, step, depth_block, packed, macro_block, stream)


def _divisor(extent: int, wanted: int, most: int) -> int:
    """Return a block length up to `most`: all of it if that fits, else a divisor near `wanted`, else `wanted`."""
    if extent <= most:
        return extent
    divisors = [d for d in range(wanted // 2, most + 1) if extent % d == 0]
    return min(divisors, key=lambda d: abs(d - wanted), default=wanted)
