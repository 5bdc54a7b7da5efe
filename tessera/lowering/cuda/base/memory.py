"""Address, read and write elements of arrays, shared buffers and the compiler's own buffers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.index_builder import GLOBAL, IndexBuilder, width

SWIZZLE_BYTES: Final = 1024
"""A swizzled buffer is permuted in blocks of this many bytes, and so aligned to, and a multiple of, them."""
_LINE: Final = 128
_CHUNK: Final = 16


@dataclass(frozen=True, slots=True)
class GlobalMemory:
    """One array or buffer.

    pointer: address of element 0, of an LLVM pointer type
    element: MLIR text of an element's type in memory (a bool is `i8`)
    extents, strides: one index an axis (Python int or i64 value), strides in elements
    swizzled: 16-byte chunks are permuted within each 8 lines of 128 bytes (see `address`)
    """

    pointer: ir.Value
    element: str
    extents: tuple[Index, ...]
    strides: tuple[Index, ...]
    swizzled: bool = False


def row_major(build: IndexBuilder, extents: Sequence[Index]) -> tuple[Index, ...]:
    """Return the strides, in elements, of an array in C order."""
    strides: list[Index] = []
    step: Index = 1
    for extent in reversed(extents):
        strides.append(step)
        step = build.mul(step, extent)
    return tuple(reversed(strides))


def bytes_of(element: str, extents: Sequence[int], swizzled: bool = False) -> int:
    """Return the bytes of a row-major buffer; a swizzled one is rounded up to whole blocks."""
    size = width(element) // 8 * math.prod(extents)
    return -(-size // SWIZZLE_BYTES) * SWIZZLE_BYTES if swizzled else size


def address(build: IndexBuilder, memory: GlobalMemory, indices: Sequence[Index]) -> ir.Value:
    """Return the address of one element.

    The xor swizzle maps the byte address a to a ^ ((a >> 7 & 7) << 4): line r of 128 bytes has its 16-byte chunk c at
    c ^ (r % 8), so that the lanes of a warp that read one column of 8 rows meet 8 different groups of banks.
    """
    number: Index = 0
    for index, stride in zip(indices, memory.strides, strict=True):
        number = build.add(number, build.mul(index, stride))
    if memory.swizzled:
        size = width(memory.element) // 8
        line, chunk = _LINE // size, _CHUNK // size
        row = build.bits(build.divide(number, line), 7)
        number = build.xor(number, build.mul(row, chunk))
    return build.offset(memory.pointer, number, memory.element)


def inside(
    build: IndexBuilder, memory: GlobalMemory, indices: Sequence[Index], proven: Sequence[bool] = ()
) -> ir.Value | None:
    """Return an i1: every index is inside its axis; None where `proven` holds for all axes."""
    known = list(proven) or [False] * len(indices)
    conditions = [
        build.inside(index, extent)
        for index, extent, sure in zip(indices, memory.extents, known, strict=True)
        if not sure and not _within(index, extent)
    ]
    return build.all_of(conditions)


def read(
    build: IndexBuilder,
    memory: GlobalMemory,
    indices: Sequence[Index],
    kind: str,
    proven: Sequence[bool] = (),
    hint: str = "",
) -> ir.Value:
    """Read the element at `indices` as a value of type `kind` (its text); 0 outside.  For `hint` see `cache_hints`."""
    condition = inside(build, memory, indices, proven)

    def load() -> ir.Value:
        value = build.load(address(build, memory, indices), memory.element, _usable(memory, hint))
        if kind == "i1":
            return build.compare("ne", value, build.constant(0, memory.element))
        return value

    return load() if condition is None else build.choose(condition, load, lambda: build.constant(0, kind), kind)


def write(
    build: IndexBuilder,
    memory: GlobalMemory,
    value: ir.Value,
    indices: Sequence[Index],
    proven: Sequence[bool] = (),
    hint: str = "",
) -> None:
    """Write `value` at `indices`; outside nothing is written.  For `hint` see `cache_hints`."""
    with build.when(inside(build, memory, indices, proven)):
        if str(value.type) == "i1":
            value = build.value("arith.extui", [value], memory.element)
        build.store(value, address(build, memory, indices), memory.element, _usable(memory, hint))


def _usable(memory: GlobalMemory, hint: str) -> str:
    """Return the hint where there is a cache, "" for shared memory, which has none."""
    return hint if str(memory.pointer.type) == GLOBAL else ""


def split(build: IndexBuilder, number: Index, shape: Sequence[int]) -> list[Index]:
    """Return the indices, one per axis, of element `number` of a row-major block of `shape`."""
    indices: list[Index] = []
    for axis in range(len(shape)):
        below = math.prod(shape[axis + 1 :])
        along = build.divide(number, below)
        indices.append(along if axis == 0 else build.remainder(along, shape[axis]))
    return indices


def _within(index: Index, extent: Index) -> bool:
    return isinstance(index, int) and isinstance(extent, int) and 0 <= index < extent
