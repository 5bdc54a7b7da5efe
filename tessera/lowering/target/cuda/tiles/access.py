"""Global memory and registers: vectors of up to 16 bytes a lane, predicated where a tile may reach over an edge."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tessera.core.layouts import Layout
from tessera.core.mlir import ir
from tessera.lowering.target.cuda.build import Build, width
from tessera.lowering.target.cuda.memory import Memory, address, inside, read, write
from tessera.lowering.target.cuda.tiles.assembly import assembly
from tessera.lowering.target.cuda.tiles.team import Team
from tessera.lowering.target.cuda.tiles.values import WORD, RegisterTile, pack, unpack, vector_bits

_VECTOR_BYTES: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The part of an array that a load or store touches.

    memory: the array; starts: its first index along each axis; dropped: axes of the array that the tile lacks
    proven: axes known to stay inside; extents: the tile's own shape, before it is padded to powers of two
    aligned: rows, and the window's start in a row, are multiples of 16 bytes
    """

    memory: Memory
    starts: tuple[Any, ...]
    dropped: frozenset[int]
    proven: tuple[bool, ...]
    extents: tuple[int, ...]
    aligned: bool

    def place(self, build: Build, indices: Sequence[Any]) -> list[Any]:
        """The array's indices of the tile's element at `indices`."""
        left = iter(indices)
        return [
            start if axis in self.dropped else build.add(start, next(left)) for axis, start in enumerate(self.starts)
        ]


def multiple_of(value: Any, depth: int = 8) -> int:
    """A number that a Tile IR index is certainly a multiple of (0 for the constant 0)."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        loop = owner.owner
        if loop is None or loop.operation.name != "scf.for" or value != owner.arguments[0]:
            return 1
        return math.gcd(*(multiple_of(v, depth - 1) for v in (loop.operation.operands[0], loop.operation.operands[2])))
    op = owner.operation
    if op.name == "arith.constant":
        attribute = op.attributes["value"]
        return abs(int(attribute.value)) if isinstance(attribute, ir.IntegerAttr) else 1
    if depth == 0 or op.name not in ("arith.muli", "arith.addi", "arith.subi"):
        return 1
    a, b = (multiple_of(v, depth - 1) for v in op.operands)
    return a * b if op.name == "arith.muli" else math.gcd(a, b)


def load_tile(build: Build, team: Team, window: Window, layout: Layout, element: str) -> RegisterTile:
    """Load a window; 0 outside the array."""
    places = team.places(layout)
    count = 1 << _vector(window, layout, element)
    values: list[Any] = []
    for first in range(0, layout.count, count):
        indices = window.place(build, places.indices(first))
        padded = _beyond(build, window, places.indices(first))
        if count * width(element) // 8 < WORD:
            values.append(_load_one(build, window, indices, element, padded))
            continue
        outside = inside(build, window.memory, indices, window.proven)
        condition = build.all_of([c for c in (outside, padded) if c is not None])
        pointer = address(build, window.memory, indices)
        words = _load_words(build, pointer, count * width(element) // 8 // WORD, condition)
        values += [value for word in words for value in unpack(build, word, element)]
    return RegisterTile(layout, element, tuple(values))


def store_tile(build: Build, team: Team, window: Window, tile: RegisterTile) -> None:
    """Store a tile; elements outside the array are left out."""
    places = team.places(tile.layout)
    count = 1 << _vector(window, tile.layout, tile.element)
    with build.when(team.owns(tile.layout)):
        for first in range(0, tile.layout.count, count):
            indices = window.place(build, places.indices(first))
            padded = _beyond(build, window, places.indices(first))
            if count * width(tile.element) // 8 < WORD:
                with build.when(padded):
                    write(build, window.memory, tile.values[first], indices, window.proven)
                continue
            outside = inside(build, window.memory, indices, window.proven)
            condition = build.all_of([c for c in (outside, padded) if c is not None])
            each = 8 * WORD // width(tile.element)
            values = tile.values[first : first + count]
            words = [pack(build, values[n : n + each]) for n in range(0, count, each)]
            _store_words(build, address(build, window.memory, indices), words, condition)


def _load_one(build: Build, window: Window, indices: list[Any], element: str, padded: Any | None) -> Any:
    if padded is None:
        return read(build, window.memory, indices, element, window.proven)
    return build.choose(
        padded, lambda: read(build, window.memory, indices, element, window.proven),
        lambda: build.constant(0, element), element,
    )  # fmt: skip


def _vector(window: Window, layout: Layout, element: str) -> int:
    """Bits of the number of elements that move together."""
    size = width(element)
    if size not in (16, 32) or len(layout.shape) == 0 or (len(window.starts) - 1) in window.dropped:
        return 0
    if not window.aligned:
        return 0
    row = layout.shape[-1].bit_length() - 1
    return vector_bits(layout, min(row, (_VECTOR_BYTES * 8 // size).bit_length() - 1))


def _beyond(build: Build, window: Window, indices: Sequence[Any]) -> Any | None:
    """An i1: the indices are inside the tile's own extents; None where the tile was not padded."""
    return build.all_of(
        [
            build.inside(index, extent)
            for index, extent in zip(indices, window.extents, strict=True)
            if extent & (extent - 1)
        ]
    )


def _load_words(build: Build, pointer: Any, count: int, condition: Any | None) -> list[Any]:
    if condition is None:
        kind = "i32" if count == 1 else f"vector<{count}xi32>"
        attributes = {"alignment": f"{WORD * count} : i64", "ordering": "0 : i64"}
        loaded = build.value("llvm.load", [pointer], kind, attributes)
        if count == 1:
            return [loaded]
        return [build.value("llvm.extractelement", [loaded, build.word(n)], "i32") for n in range(count)]
    names = ", ".join(f"${n}" for n in range(count))
    outputs = names if count == 1 else f"{{{names}}}"
    zero = " ".join(f"mov.b32 ${n}, 0;" for n in range(count))
    suffix = "" if count == 1 else f".v{count}"
    text = (
        f"{{ .reg .pred go; setp.ne.u32 go, ${count + 1}, 0; {zero} @go ld.global{suffix}.b32 {outputs}, [${count}]; }}"
    )
    constraints = ",".join([*["=&r"] * count, "l", "r"])
    return assembly(build, text, constraints, [pointer, _flag(build, condition)], ["i32"] * count)


def _store_words(build: Build, pointer: Any, words: Sequence[Any], condition: Any | None) -> None:
    count = len(words)
    if condition is None:
        kind = "i32" if count == 1 else f"vector<{count}xi32>"
        value = words[0]
        if count > 1:
            value = build.value("llvm.mlir.poison", [], kind)
            for number, word in enumerate(words):
                value = build.value("llvm.insertelement", [value, word, build.word(number)], kind)
        attributes = {"alignment": f"{WORD * count} : i64", "ordering": "0 : i64"}
        build.create("llvm.store", [value, pointer], (), attributes)
        return
    names = ", ".join(f"${n}" for n in range(2, 2 + count))
    inputs = names if count == 1 else f"{{{names}}}"
    suffix = "" if count == 1 else f".v{count}"
    text = f"{{ .reg .pred go; setp.ne.u32 go, $1, 0; @go st.global{suffix}.b32 [$0], {inputs}; }}"
    constraints = ",".join(["l", "r", *["r"] * count])
    assembly(build, text, constraints, [pointer, _flag(build, condition), *words])


def _flag(build: Build, condition: Any) -> Any:
    return build.value("arith.extui", [condition], "i32")
