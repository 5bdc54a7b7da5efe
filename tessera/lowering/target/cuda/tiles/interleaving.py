"""Bulk copies of arrays whose rows are not multiples of 16 bytes: eight windows, one for each row modulo 8.

The copy engine wants addresses and distances of rows that are multiples of 16 bytes.  Rows r, r + 8, r + 16, ... of an
array of 16-bit elements are a whole number of times 16 bytes apart, whatever the rows' length, and may begin a few
elements behind an address that is a multiple of 16: the window's place along the row makes up for that.  In shared
memory the rows of a tile then lie ordered by r % 8 first: row 8 q + s is at place s (rows / 8) + q.
"""

from typing import Any, Final

from tessera.core.layouts import Change, Layout, accumulator, bits_of
from tessera.core.mlir import ir
from tessera.core.program.types import Array
from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.memory import Memory
from tessera.lowering.target.cuda.tiles.access import multiple_of
from tessera.lowering.target.cuda.tiles.pipeline import is_transposed, source_load

APART: Final = 8
"""Rows of 2-byte elements: 8 x 2 bytes are 16, and so is 8 times any number of elements."""
SIZE: Final = 2
_UNIT: Final = 16
_OUTSIDE: Final = 1 << 30
_LEAST_ROWS: Final = 64
_MOST_ROWS: Final = 256
_LINE: Final = 128
DEPTH: Final = 64


def can_interleave(kind: Array, load: Any) -> bool:
    """Whether a load of a matrix fits: whole lines of 128 bytes, and whole sets of 64 rows."""
    rows, columns = load.results[0].type.shape
    dropped = list(ir.DenseI64ArrayAttr(load.attributes["dropped"]))
    starts = list(load.operands)[1:]
    return (
        kind.contiguous and kind.dtype.bytes == SIZE and len(kind.shape) == 2 and not dropped
        and rows % _LEAST_ROWS == 0 and rows <= _MOST_ROWS and columns * SIZE % _LINE == 0
        and multiple_of(starts[0]) % APART == 0
    )  # fmt: skip


def interleaved_loads(dot: Any, aligned: tuple[bool, bool], possible: tuple[bool, bool]) -> set[Any]:
    """The loads of a product's factors that are copied in eight windows; none where that does not help.

    aligned: which factors the copy engine can read as they are; possible: which of them it can in eight windows
    """
    loads = [source_load(factor) for factor in list(dot.operands)[:2]]
    if all(aligned) or any(load is None for load in loads):
        return set()
    deep = [is_transposed(dot.operands[0]), not is_transposed(dot.operands[1])]  # whether rows go along K
    wanted = [not known for known in aligned]
    if all(deep):
        wanted = [True, True]  # both are permuted along K in the same way
    if any(want and not can for want, can in zip(wanted, possible, strict=True)):
        return set()
    depth = dot.operands[0].type.shape[1]
    if (deep == [True, False] and wanted[0]) or (deep == [False, True] and wanted[1] and depth != DEPTH):
        return set()
    return {load for load, want in zip(loads, wanted, strict=True) if want}


def gathers(dot: Any, interleaved: set[Any]) -> bool:
    """Whether only the right factor is permuted along K, so that the left one has to follow it."""
    right = source_load(dot.operands[1])
    if right is None or right not in interleaved:
        return False
    return not is_transposed(dot.operands[1]) and not is_transposed(dot.operands[0])


def interleaved_sums(dot: Any, bits: int, interleaved: set[Any]) -> Layout:
    """The layout of the sums: rows and columns are those of the factors' places in shared memory."""
    m, n = dot.results[0].type.shape
    layout = accumulator((m, n), bits)
    flags = [is_transposed(dot.operands[0]), not is_transposed(dot.operands[1])]
    loads = [source_load(factor) for factor in list(dot.operands)[:2]]
    moved = [load is not None and load in interleaved and not deep for load, deep in zip(loads, flags, strict=True)]
    rows = [bits_of(n) + bit for bit in _order(m, moved=moved[0])]
    return layout.map(Change([*_order(n, moved=moved[1]), *rows]), (m, n))


def _order(extent: int, *, moved: bool) -> list[int]:
    """Which bit of an index each bit of a place is."""
    count, low = bits_of(extent), bits_of(APART)
    if not moved:
        return list(range(count))
    return [*range(low, count), *range(low)]


def column_of(build: Build, memory: Memory, first: int, column: Any) -> Any:
    """Where the window of rows `first` modulo 8 has `column` of the array; far outside if it has no rows."""
    bits = build.value("llvm.ptrtoint", [memory.pointer], "i64")
    begin = build.add(bits, build.mul(build.mul(memory.strides[0], first), SIZE))
    shift = build.divide(build.bits(begin, _UNIT - 1), SIZE)
    return build.select(build.compare("sgt", memory.extents[0], first), build.add(column, shift), _OUTSIDE)
