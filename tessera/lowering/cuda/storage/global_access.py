"""Load and store tiles of global memory: vectors of up to 16 bytes a lane, predicated at the edges of arrays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.layouts import Layout, coordinates
from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.program.types import Array, Type
from tessera.lowering.analysis.divisibility import multiple_of
from tessera.lowering.analysis.integers import integer_ranges
from tessera.lowering.base.attributes import dropped_axes, proven_axes
from tessera.lowering.cuda.base.cache_hints import phrase
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width
from tessera.lowering.cuda.base.inline_ptx import inline_ptx
from tessera.lowering.cuda.base.memory import GlobalMemory, address, inside
from tessera.lowering.cuda.storage.register_tiles import WORD, RegisterTile, from_words, to_words, vector_bits
from tessera.lowering.cuda.storage.warps import WarpSet

_VECTOR_BYTES: Final = 16
_SHORT: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The part of an array that a load or store touches.

    memory: the array; starts: its first index along each axis; dropped: axes of the array that the tile lacks
    proven: axes known to stay inside; extents: the tile's own shape, before it is padded to powers of two
    bytes: that may be moved at a time, as far as alignment goes; hint: how caches should treat it (see `cache`)
    left: an axis of the tile, and how many of its indices (an index, 0 or less for none) belong to the window; or None
    """

    memory: GlobalMemory
    starts: tuple[Index, ...]
    dropped: frozenset[int]
    proven: tuple[bool, ...]
    extents: tuple[int, ...]
    bytes: int
    hint: str = ""
    left: tuple[int, Index] | None = None

    def place(self, build: IndexBuilder, indices: Sequence[Index]) -> list[Index]:
        """Return the array's indices of the tile's element at `indices`."""
        left = iter(indices)
        return [
            start if axis in self.dropped else build.add(start, next(left)) for axis, start in enumerate(self.starts)
        ]


def access_bytes(kind: Type, op: AnyOp) -> int:
    """Return how many bytes a load or store of an array may move at a time: a power of two of at most 16.

    It depends on the alignment; a row of the tile and of the array is a whole number of such pieces.
    """
    if not isinstance(kind, Array):
        message = f"{kind} is no array"
        raise TypeError(message)
    if op.name == "tessera.masked_store":  # each element by itself
        return kind.dtype.bytes
    store = op.name == "tessera.store"
    dropped = dropped_axes(op)
    shape = ir.ShapedType((op.operands[1] if store else op.results[0]).type).shape
    if not kind.aligned or not shape or len(kind.shape) - 1 in list(dropped):
        return kind.dtype.bytes
    common = math.gcd(multiple_of(list(op.operands)[-1]), shape[-1]) * kind.dtype.bytes
    return min(_VECTOR_BYTES, common & -common)


def begins_aligned(kind: Array, start: ir.Value) -> bool:
    """Return whether a window at `start` of an aligned array's last axis certainly begins at a multiple of 16 bytes.

    The TMA unit requires it, though PTX does not say so: otherwise the hardware reports an illegal instruction, and the
    process loses its context.
    """
    return multiple_of(start) * kind.dtype.bytes % _VECTOR_BYTES == 0


def before_array(op: AnyOp) -> frozenset[int]:
    """Return the axes along which an access may begin before its array, at a negative index.

    TMA reads zeros there, but a store by it that begins there is an illegal instruction, as is one that
    begins at no multiple of 16 bytes; PTX says neither.
    """
    proven = proven_axes(op)
    starts, facts = list(op.operands)[-len(proven) :], integer_ranges(op)
    return frozenset(
        axis
        for axis, (start, sure) in enumerate(zip(starts, proven, strict=True))
        if not sure and ((least := facts.least(start)) is None or least < 0)
    )


def is_padding(layout: Layout, register: int, extents: Sequence[int]) -> bool:
    """Return whether a register lies past the tile's own extents in every lane: its index in lane 0 is the lowest."""
    places = coordinates(layout.element(register), layout.shape)
    return any(place >= extent for place, extent in zip(places, extents, strict=True))


def load_tile(
    build: IndexBuilder,
    warp_set: WarpSet,
    window: Window,
    layout: Layout,
    element: str,
    gathered: tuple[int, RegisterTile] | None = None,
) -> RegisterTile:
    """Load a window; 0 outside the array.  gathered: an axis of the array, and each element's index along it."""
    places = warp_set.places(layout)
    count = 1 << _vector(window, layout, element)
    size = count * width(element) // 8
    values: list[ir.Value] = []
    zero = build.constant(0, element)
    for first in range(0, layout.count, count):
        if is_padding(layout, first, window.extents):
            values += [zero] * count
            continue
        indices = window.place(build, places.indices(first))
        if gathered is not None:
            indices[gathered[0]] = gathered[1].values[first]
        condition = condition_of(build, window, indices, places.indices(first))
        pointer = address(build, window.memory, indices)
        if size < WORD:
            values.append(_load_small(build, pointer, element, condition, window.hint))
        else:
            values += from_words(build, load_words(build, pointer, size // WORD, condition, window.hint), element)
    return RegisterTile(layout, element, tuple(values))


def store_tile(
    build: IndexBuilder, warp_set: WarpSet, window: Window, tile: RegisterTile, mask: RegisterTile | None = None
) -> None:
    """Store a tile; elements outside the array are left out, and those for which `mask`, laid out alike, is false."""
    places = warp_set.places(tile.layout)
    count = 1 << _vector(window, tile.layout, tile.element) if mask is None else 1
    size = count * width(tile.element) // 8
    with build.when(warp_set.owns(tile.layout)):
        for first in range(0, tile.layout.count, count):
            if is_padding(tile.layout, first, window.extents):
                continue
            indices = window.place(build, places.indices(first))
            condition = condition_of(build, window, indices, places.indices(first))
            if mask is not None:
                condition = build.all_of([mask.values[first], *([] if condition is None else [condition])])
            pointer = address(build, window.memory, indices)
            if size < WORD:
                store_small(build, pointer, tile.values[first], tile.element, condition, window.hint)
            else:
                words = to_words(build, tile.values[first : first + count])
                store_words(build, pointer, words, condition, window.hint)


def _vector(window: Window, layout: Layout, element: str) -> int:
    """Return log2 of the number of elements that move together: whole words, or one element."""
    if not layout.shape:
        return 0
    most = max(1, window.bytes * 8 // width(element)).bit_length() - 1
    bits = vector_bits(layout, min(layout.shape[-1].bit_length() - 1, most))
    return bits if (width(element) << bits) // 8 >= WORD else 0


def condition_of(
    build: IndexBuilder, window: Window, indices: Sequence[Index], places: Sequence[Index]
) -> ir.Value | None:
    """Return whether an element is inside the array and the tile's own extents (an i1); None where that is known."""
    within = [
        build.inside(place, extent)
        for place, extent in zip(places, window.extents, strict=True)
        if extent & (extent - 1)
    ]
    if window.left is not None:
        within.append(build.compare("slt", places[window.left[0]], window.left[1]))
    outside = inside(build, window.memory, indices, window.proven)
    return build.all_of([*within, *([] if outside is None else [outside])])


def _load_small(
    build: IndexBuilder, pointer: ir.Value, element: str, condition: ir.Value | None, hint: str
) -> ir.Value:
    """Load one element of 1 or 2 bytes."""
    stored = "i8" if element == "i1" else element
    if condition is None:
        value = build.load(pointer, stored, hint)
    else:
        before, suffix, last = phrase(hint)
        text = (
            f"{{ .reg .pred go; {before}setp.ne.u32 go, $2, 0; mov.b16 $0, 0; "
            f"@go ld.global{suffix}.{'u8' if width(stored) < _SHORT else 'b16'} $0, [$1]{last}; }}"
        )
        value = inline_ptx(build, text, "=&h,l,r", [pointer, _flag(build, condition)], ["i16"])[0]
        if stored != "i16":
            narrow = width(stored) < _SHORT
            value = build.value("arith.trunci" if narrow else "llvm.bitcast", [value], stored)
    return build.compare("ne", value, build.constant(0, stored)) if element == "i1" else value


def store_small(
    build: IndexBuilder, pointer: ir.Value, value: ir.Value, element: str, condition: ir.Value | None, hint: str
) -> None:
    """Store one element of 1 or 2 bytes, where `condition` (an i1; None: always) holds."""
    stored = "i8" if element == "i1" else element
    if element == "i1":
        value = build.value("arith.extui", [value], stored)
    if condition is None:
        build.store(value, pointer, stored, hint)
        return
    if stored != "i16":
        narrow = width(stored) < _SHORT
        value = build.value("arith.extui" if narrow else "llvm.bitcast", [value], "i16")
    kind = "b8" if width(stored) < _SHORT else "b16"
    before, suffix, last = phrase(hint, store=True)
    text = f"{{ .reg .pred go; {before}setp.ne.u32 go, $1, 0; @go st.global{suffix}.{kind} [$0], $2{last}; }}"
    inline_ptx(build, text, "l,r,h", [pointer, _flag(build, condition), value])


def load_words(
    build: IndexBuilder, pointer: ir.Value, count: int, condition: ir.Value | None, hint: str
) -> list[ir.Value]:
    """Load 1, 2 or 4 words (i32), zeros where `condition` (an i1; None: always) does not hold."""
    if condition is None:
        if count == 1:
            return [build.load(pointer, "i32", hint)]
        loaded = build.load_vector(pointer, count, "i32", hint)
        return [build.value("llvm.extractelement", [loaded, build.word(n)], "i32") for n in range(count)]
    names = ", ".join(f"${n}" for n in range(count))
    outputs = names if count == 1 else f"{{{names}}}"
    zero = " ".join(f"mov.b32 ${n}, 0;" for n in range(count))
    before, suffix, last = phrase(hint)
    suffix += "" if count == 1 else f".v{count}"
    text = (
        f"{{ .reg .pred go; {before}setp.ne.u32 go, ${count + 1}, 0; {zero} "
        f"@go ld.global{suffix}.b32 {outputs}, [${count}]{last}; }}"
    )
    constraints = ",".join([*["=&r"] * count, "l", "r"])
    return inline_ptx(build, text, constraints, [pointer, _flag(build, condition)], ["i32"] * count)


def store_words(
    build: IndexBuilder, pointer: ir.Value, words: Sequence[ir.Value], condition: ir.Value | None, hint: str
) -> None:
    """Store 1, 2 or 4 words (i32), where `condition` (an i1; None: always) holds."""
    count = len(words)
    if condition is None:
        if count == 1:
            build.store(words[0], pointer, "i32", hint)
        else:
            build.store_vector(build.vector(words), pointer, count, "i32", hint)
        return
    names = ", ".join(f"${n}" for n in range(2, 2 + count))
    inputs = names if count == 1 else f"{{{names}}}"
    before, suffix, last = phrase(hint, store=True)
    suffix += "" if count == 1 else f".v{count}"
    text = f"{{ .reg .pred go; {before}setp.ne.u32 go, $1, 0; @go st.global{suffix}.b32 [$0], {inputs}{last}; }}"
    constraints = ",".join(["l", "r", *["r"] * count])
    inline_ptx(build, text, constraints, [pointer, _flag(build, condition), *words])


def _flag(build: IndexBuilder, condition: ir.Value) -> ir.Value:
    return build.value("arith.extui", [condition], "i32")
