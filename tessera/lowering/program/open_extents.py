"""Open extents: turn a program for arrays of one length into one for every length up to a bucket.

before: ``%x: array<4x61xf32>``, ``%t = load %x, 0, 0 [extents=4x61] : tile<4x61xf32>``, ``%s = reduce %t [axis=1]``
after:  ``%x: array<4x"x.shape[1]"xf32>``, ``%t = load %x, 0, 0 [extents=4x64] : tile<4x64xf32>``, the same reduction

The elements that a tile has beyond its array are absent (`core/program/spec.py`): nothing stores them, and reductions
leave them out.  A sum has the association of a longer one whose last elements are 0 (`core/base/reductions.py`), so the
opened program computes the same bits.  An axis of tiles stays a number where that does not hold: it is multiplied,
gathered, reshaped or carried by a loop; a reduction meets elements that exist beyond the length, such as those of a
constant; or a sum of floats may be one of nothing but -0.0, which is 0.0 as soon as an absent element counts as 0.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, TypeAlias

from tessera.core.base.dtypes import i64
from tessera.core.program.expressions import Expression
from tessera.core.program.program import Attribute, Block, Op, Parameter, Program, Symbol, Value
from tessera.core.program.spec import BINARY, UNARY
from tessera.core.program.types import Array, Scalar, Tile

ParameterAxis: TypeAlias = tuple[int, int]
"""The number of a parameter, and one of its axes."""
Axis: TypeAlias = tuple[Value, int]
"""One axis of an array or a tile."""

LONGEST: Final = 1 << 14
"""Tiles of more elements along an axis stay as they are: a bucket might not fit where they do."""
_ELEMENTWISE: Final = frozenset((*BINARY, *UNARY, "fma", "cmp", "cast", "fill"))
_KEEP_SIGN: Final = frozenset((
    "add", "mul", "div", "max", "min", "sqrt", "cast", "broadcast", "reshape", "transpose", "full",
))  # fmt: skip
"""Operations whose result has no sign where no operand has one."""
_NUMBERS: Final = frozenset(("mod", "floordiv"))
"""Operations that need a number to be fast: an extent that is read at launch makes them divide."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A program for many lengths, and the one that it stands for.

    program: the program to compile; closed: the program for one length, with the symbols that the compiled one reads
    """

    program: Program
    closed: Program


def bucket(extent: int) -> int:
    """Return the extent of the tiles for arrays of `extent`: the next power of two."""
    return 1 << (extent - 1).bit_length()


def open_extents(program: Program, axes: Collection[ParameterAxis], tile: int | None = None) -> Opened | None:
    """Open the extents of some axes of a program's arrays; None where none of them can be opened.

    axes: the axes that may differ from call to call; axes that have to be equal are opened together, or not at all
    tile: the extent of all tiles along opened axes, None for the `bucket` of each
    """
    analysis = _Analysis(program)
    classes = analysis.openable(axes)
    if not classes:
        return None
    opening = _Opening(program, analysis)
    for members in classes:
        opening.add(members, tile)
    return opening.opened()


@dataclass
class _Analysis:
    """Find the axes of arrays and tiles that have one extent for one reason, and those that must keep theirs.

    parent: links of disjoint sets of axes; pinned: axes whose set keeps its extent
    ending: axes of tiles without any element beyond the array that they were loaded from
    zeros: constants of 0; unsigned: values none of whose elements is negative or -0.0
    """

    program: Program
    parent: dict[Axis, Axis] = field(default_factory=dict[Axis, Axis])
    pinned: set[Axis] = field(default_factory=set[Axis])
    ending: set[Axis] = field(default_factory=set[Axis])
    zeros: set[Value] = field(default_factory=set[Value])
    unsigned: set[Value] = field(default_factory=set[Value])

    def __post_init__(self) -> None:
        """Visit the operations in their order, and the memory that the launcher supplies."""
        supplied = self.program.parameters[len(self.program.parameters) - len(self.program.given) :]
        for parameter in supplied:
            self.pin(parameter.value)
        visits = {
            "load": self._load, "store": self._store, "broadcast": self._broadcast, "transpose": self._transpose,
            "reshape": self._reshape, "reduce": self._reduce, "softmax": self._reduce, "select": self._select,
            "const": self._const, **dict.fromkeys(_ELEMENTWISE, self._elementwise),
        }  # fmt: skip
        for op in self.program.body.walk():
            self._note_sign(op)
            if op.opcode not in ("full", "arange"):  # all their elements exist; operands give their extents
                visits.get(op.opcode, self._keep)(op)

    def openable(self, axes: Collection[ParameterAxis]) -> list[list[Axis]]:
        """Return the sets of axes that can be opened, those of arrays first in each."""
        values = [parameter.value for parameter in self.program.parameters]
        varying = {(values[number], axis) for number, axis in axes}
        closed = {self.root(axis) for axis in self.pinned}
        sets: dict[Axis, dict[Axis, None]] = {}
        for axis in chain(((value, a) for value in values for a in range(rank(value))), self.parent):
            sets.setdefault(self.root(axis), {})[axis] = None
        return [
            list(members) for root, members in sets.items()
            if root not in closed and not varying.isdisjoint(members) and self._same_extent(members)
        ]  # fmt: skip

    def _same_extent(self, members: Collection[Axis]) -> bool:
        extents = {extent(axis) for axis in members}
        tiled = any(isinstance(value.type, Tile) for value, _ in members)
        number = next(iter(extents))
        return len(extents) == 1 and isinstance(number, int) and 2 <= number <= (LONGEST if tiled else number)

    # -- sets of axes -----------------------------------------------------------------------------------------------

    def root(self, axis: Axis) -> Axis:
        """Return the representative of an axis's set."""
        while (above := self.parent.get(axis, axis)) != axis:
            axis = above
        return axis

    def join(self, a: Axis, b: Axis) -> None:
        """Let two axes have one extent."""
        self.parent.setdefault(a, a)
        self.parent.setdefault(b, b)
        self.parent[self.root(b)] = self.root(a)

    def pin(self, value: Value, axes: Iterable[int] | None = None) -> None:
        """Let a value's axes, or some of them, keep their extents."""
        self.pinned.update((value, axis) for axis in (range(rank(value)) if axes is None else axes))

    # -- operations -------------------------------------------------------------------------------------------------

    def _note_sign(self, op: Op) -> None:
        """Note results without a sign: exponentials, squares, and what has none where its operands have none."""
        square = op.opcode == "mul" and op.operands[0] is op.operands[1]
        keeps = op.opcode in _KEEP_SIGN or (op.opcode == "reduce" and op.attributes["kind"] == "sum")
        number = op.opcode == "const" and not str(op.attributes["value"]).startswith("-")
        if op.opcode in ("exp", "exp2", "abs") or square or number or (keeps and self.unsigned.issuperset(op.operands)):
            self.unsigned.update(op.results)

    def _const(self, op: Op) -> None:
        if op.attributes["value"] == 0:
            self.zeros.add(op.result)

    def _load(self, op: Op) -> None:
        self._window(op.result, op.operands[0], op.operands[1:], op)
        self.ending.update((op.result, axis) for axis in range(rank(op.result)))

    def _store(self, op: Op) -> None:
        self._window(op.operands[1], op.operands[0], op.operands[2:], op)

    def _broadcast(self, op: Op) -> None:
        self._along(
            op, [(a, a) for a in range(rank(op.result)) if extent((op.operands[0], a)) == extent((op.result, a))]
        )

    def _transpose(self, op: Op) -> None:
        permutation = op.attributes["permutation"]
        assert isinstance(permutation, tuple)
        self._along(op, [(old, new) for new, old in enumerate(permutation) if isinstance(old, int)])

    def _keep(self, op: Op) -> None:
        """Keep the extents of all tiles of an operation that may look at them."""
        carried = [value for region in op.regions for value in region.arguments]
        for value in (*op.operands, *op.results, *carried):
            if isinstance(value.type, Tile):
                self.pin(value)

    def _window(self, tile: Value, memory: Value, starts: Sequence[Value], op: Op) -> None:
        """Join the axes that a window on an array has from end to end; a part of an axis has its own extent."""
        extents, dropped = op.attributes["extents"], op.attributes.get("dropped") or ()
        assert isinstance(extents, tuple)
        assert isinstance(dropped, tuple)
        window_axes = [axis for axis in range(len(extents)) if axis not in dropped]
        for tile_axis, axis in enumerate(window_axes):
            if (
                isinstance(memory.type, Array)
                and starts[axis] in self.zeros
                and extent((memory, axis)) == extents[axis]
            ):
                self.join((memory, axis), (tile, tile_axis))
            else:
                self.pin(tile, [tile_axis])

    def _along(self, op: Op, axes: Sequence[tuple[int, int]]) -> None:
        """Join axes of the only operand with axes of the result."""
        for old, new in axes:
            self.join((op.operands[0], old), (op.result, new))
            if (op.operands[0], old) in self.ending:
                self.ending.add((op.result, new))

    def _reshape(self, op: Op) -> None:
        """Join the axes of a reshape that adds and drops axes of one element; any other keeps the extents."""
        longer = [
            [axis for axis in range(rank(value)) if extent((value, axis)) != 1] for value in (op.operands[0], op.result)
        ]
        sizes = [
            [extent((value, axis)) for axis in axes]
            for value, axes in zip((op.operands[0], op.result), longer, strict=True)
        ]
        if sizes[0] == sizes[1]:
            self._along(op, list(zip(*longer, strict=True)))
        else:
            self._keep(op)

    def _reduce(self, op: Op) -> None:
        """Join what a reduction keeps; along its axis nothing may exist beyond the array."""
        (operand,), axis = op.operands, op.attributes["axis"]
        if not isinstance(axis, int):
            axis = 0
            if rank(operand) > 1:  # in row-major order: the place of an element depends on the extents
                self._keep(op)
                return
        axis %= rank(operand)
        floats = op.attributes.get("kind") == "sum" and operand.type.dtype.is_float
        signed = floats and operand not in self.unsigned
        if (operand, axis) not in self.ending or signed:
            self.pin(operand, [axis])
        kept = [a for a in range(rank(operand)) if a != axis or op.opcode == "softmax"]
        self._along(op, list(zip(kept, range(rank(op.result)), strict=True)))

    def _elementwise(self, op: Op) -> None:
        tiles = [value for value in op.operands if isinstance(value.type, Tile)]
        self._join_all(op, tiles)
        if op.opcode != "fill":
            self._end(op.result, map(self._ends, tiles))

    def _select(self, op: Op) -> None:
        """Join a choice of elements: it exists where the condition and the chosen operand do."""
        condition, *chosen = op.operands
        tiles = [value for value in op.operands if isinstance(value.type, Tile)]
        self._join_all(op, tiles)
        first, second = map(self._ends, chosen)
        self._end(op.result, [first & second, self._ends(condition)])

    def _join_all(self, op: Op, tiles: Iterable[Value]) -> None:
        for tile in tiles:
            for axis in range(rank(op.result)):
                self.join((op.result, axis), (tile, axis))

    def _ends(self, value: Value) -> set[int]:
        """Return the axes of a value of which nothing exists beyond the array."""
        return {axis for axis in range(rank(value)) if (value, axis) in self.ending}

    def _end(self, result: Value, ends: Iterable[set[int]]) -> None:
        self.ending.update((result, axis) for axis in set[int]().union(*ends))


@dataclass
class _Opening:
    """The new extents, and the program with them."""

    program: Program
    analysis: _Analysis
    extents: dict[Axis, int | str] = field(default_factory=dict[Axis, int | str])
    symbols: list[Symbol] = field(default_factory=list[Symbol])
    names: dict[int, str | None] = field(default_factory=dict[int, "str | None"])
    instead: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def add(self, members: Sequence[Axis], tile: int | None) -> None:
        """Open one set of axes: a symbol for the arrays, a bucket for the tiles."""
        numbers = {parameter.value: number for number, parameter in enumerate(self.program.parameters)}
        bindings = [(numbers[value], axis) for value, axis in members if value in numbers]
        length = extent(members[0])
        assert isinstance(length, int)
        bound = {(s.parameter, s.axis): s.name for s in self.program.symbols if s.scale == 1}
        first, first_axis = bindings[0]
        default = f"{self.program.parameters[first].name}.shape[{first_axis}]"
        name = next((bound[binding] for binding in bindings if binding in bound), default)
        self.symbols += [Symbol(name, *binding) for binding in bindings if bound.get(binding) != name]
        self.names[length] = None if length in self.names else name  # two symbols of one extent: which is not known
        for value, axis in members:
            self.extents[value, axis] = name if isinstance(value.type, Array) else tile or bucket(length)

    def opened(self) -> Opened:
        """Return the program with the new extents."""
        symbols = (*self.program.symbols, *self.symbols)
        parameters = tuple(self._parameter(parameter) for parameter in self.program.parameters)
        domain = self.program.domain
        domain = replace(
            domain, extents=self._bounds(domain.extents), axes=tuple(self._bounds(bounds) for bounds in domain.axes)
        )
        body = self._block(self.program.body, self._fixed_numbers())
        opened = replace(self.program, parameters=parameters, symbols=symbols, domain=domain, body=body)
        return Opened(opened, replace(self.program, symbols=symbols))

    def _bounds(self, bounds: Sequence[Expression]) -> tuple[Expression, ...]:
        return tuple(self._named(bound) or bound for bound in bounds)

    def _named(self, number: object) -> str | None:
        return self.names.get(number) if isinstance(number, int) and not isinstance(number, bool) else None

    def _fixed_numbers(self) -> set[Value]:
        """Return the constants that stay numbers: steps of loops, and divisors."""
        fixed: set[Value] = set()
        for op in self.program.body.walk():
            if op.opcode in _NUMBERS:
                fixed.update(op.operands)
            elif op.opcode == "for":
                fixed.add(op.operands[2])
        return fixed

    def _parameter(self, parameter: Parameter) -> Parameter:
        return replace(parameter, value=self._value(parameter.value))

    def _value(self, value: Value) -> Value:
        """Return what stands for a value: one with the new extents, or itself."""
        if value not in self.instead:
            shape = tuple(self.extents.get((value, axis), extent((value, axis))) for axis in range(rank(value)))
            self.instead[value] = value if shape == _shape(value) else replace(value, type=_resized(value, shape))
        return self.instead[value]

    def _block(self, block: Block, fixed: Collection[Value]) -> Block:
        return Block(tuple(map(self._value, block.arguments)), tuple(self._ops(block.ops, fixed)))

    def _ops(self, ops: Sequence[Op], fixed: Collection[Value]) -> Iterator[Op]:
        for op in ops:
            name = self._named(op.attributes["value"]) if op.opcode == "const" else None
            if name is not None and op.result.type == Scalar(i64) and op.result not in fixed:
                yield replace(op, opcode="dim", attributes={"symbol": name})
                continue
            yield replace(
                op, operands=tuple(map(self._value, op.operands)), results=tuple(map(self._value, op.results)),
                attributes=self._attributes(op), regions=tuple(self._block(region, fixed) for region in op.regions),
            )  # fmt: skip

    def _attributes(self, op: Op) -> Mapping[str, Attribute]:
        """Return the attributes of an operation, with the new extents of its window on memory."""
        extents = op.attributes.get("extents")
        if op.opcode not in ("load", "store") or not isinstance(extents, tuple):
            return op.attributes
        tile = op.result if op.opcode == "load" else op.operands[1]
        dropped = op.attributes.get("dropped") or ()
        assert isinstance(dropped, tuple)
        window_axes = [axis for axis in range(len(extents)) if axis not in dropped]
        sizes = list(extents)
        for tile_axis, axis in enumerate(window_axes):
            sizes[axis] = self.extents.get((tile, tile_axis), sizes[axis])
        return {**op.attributes, "extents": tuple(sizes)}


def rank(value: Value) -> int:
    """Return the number of axes of a value; 0 for a scalar."""
    return len(_shape(value))


def extent(axis: Axis) -> int | str:
    """Return the extent of an axis: a number or a symbol."""
    value, number = axis
    return _shape(value)[number]


def _shape(value: Value) -> tuple[int | str, ...]:
    return () if isinstance(value.type, Scalar) else value.type.shape


def _resized(value: Value, shape: tuple[int | str, ...]) -> Array | Tile:
    if isinstance(value.type, Tile):
        return replace(value.type, shape=tuple(int(size) for size in shape))
    assert isinstance(value.type, Array)
    return replace(value.type, shape=shape)
