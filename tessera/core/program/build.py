"""Build Programs operation by operation, without source text: what graphs are lowered to.

Everything here is typed already: promotion and what a user may mean are the frontend's.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import prod

from tessera.core.base.dtypes import DType, boolean, i64
from tessera.core.base.source import NOWHERE, Span
from tessera.core.program.program import Attribute, Block, Op, Value
from tessera.core.program.types import Array, Scalar, Shared, Tile, Type

Body = Callable[[Value, Sequence[Value]], Sequence[Value]]
"""Builds a loop's trip: takes the index and the carried values, returns the next ones."""


class ProgramBuilder:
    """Appends operations to the innermost block.  span: the place in the user's text of the next ones."""

    def __init__(self) -> None:
        self.span: Span = NOWHERE
        self._blocks: list[list[Op]] = [[]]

    def finish(self) -> Block:
        """Return the outermost block."""
        return Block((), tuple(self._blocks[0]))

    @contextmanager
    def at(self, span: Span) -> Generator[None]:
        """Give what is emitted inside the `with` this place."""
        before, self.span = self.span, span if span != NOWHERE else self.span
        try:
            yield
        finally:
            self.span = before

    def emit(
        self, opcode: str, operands: Sequence[Value], results: Sequence[Type], regions: Sequence[Block] = (),
        **attributes: Attribute,
    ) -> tuple[Value, ...]:  # fmt: skip
        """Append one operation and return its results."""
        values = tuple(Value(kind, "", self.span) for kind in results)
        self._blocks[-1].append(Op(opcode, tuple(operands), values, attributes, tuple(regions), self.span))
        return values

    def value(self, opcode: str, operands: Sequence[Value], result: Type, **attributes: Attribute) -> Value:
        """Append one operation with one result and return it."""
        (made,) = self.emit(opcode, operands, (result,), (), **attributes)
        return made

    # Scalars and indices

    def constant(self, number: float | bool, dtype: DType) -> Value:
        """Return a literal."""
        return self.value("const", (), Scalar(dtype), value=number)

    def index(self, number: int) -> Value:
        """Return an index."""
        return self.constant(number, i64)

    def arithmetic(self, opcode: str, left: Value, right: Value) -> Value:
        """Apply a binary operation to two values of one type."""
        return self.value(opcode, (left, right), left.type)

    def compare(self, predicate: str, left: Value, right: Value) -> Value:
        """Compare two values of one type."""
        kind = Tile(boolean, left.type.shape) if isinstance(left.type, Tile) else Scalar(boolean)
        return self.value("cmp", (left, right), kind, predicate=predicate)

    # Tiles

    def full(self, number: Value, shape: Sequence[int]) -> Value:
        """Return a tile of one scalar; the scalar itself for no axes."""
        if not shape:
            return number
        return self.value("full", (number,), Tile(dtype_of(number), tuple(shape)))

    def arange(self, start: Value, extent: int) -> Value:
        """Return start, start + 1, ... as a tile of i64."""
        return self.value("arange", (start,), Tile(i64, (extent,)))

    def cast(self, value: Value, dtype: DType) -> Value:
        """Convert."""
        return value if dtype_of(value) == dtype else self.value("cast", (value,), with_dtype(value.type, dtype))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the same elements in row-major order in another shape; no axes stand for a scalar."""
        if shape_of(value) == tuple(shape):
            return value
        assert prod(shape) == prod(shape_of(value))
        if not shape_of(value):
            return self.full(value, shape)
        if not shape:  # the sum of one element is that element
            return self.reduce(self.reshape(value, (prod(shape_of(value)),)), "sum", 0)
        return self.value("reshape", (value,), Tile(dtype_of(value), tuple(shape)))

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """Permute: result axis i is axis `permutation[i]`."""
        if tuple(permutation) == tuple(range(len(permutation))):
            return value
        shape = tuple(shape_of(value)[axis] for axis in permutation)
        return self.value("transpose", (value,), Tile(dtype_of(value), shape), permutation=tuple(permutation))

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """Repeat extents of 1."""
        if shape_of(value) == tuple(shape):
            return value
        return self.value("broadcast", (value,), Tile(dtype_of(value), tuple(shape)))

    def reduce(self, value: Value, kind: str, axis: int) -> Value:
        """Reduce a tile along one axis; to a scalar where it is the only one."""
        shape = shape_of(value)
        rest = (*shape[:axis], *shape[axis + 1 :])
        made: Type = Tile(dtype_of(value), rest) if rest else Scalar(dtype_of(value))
        return self.value("reduce", (value,), made, kind=kind, axis=axis)

    def dot(
        self, left: Value, right: Value, acc: Value | None, dtype: DType, *, exact: bool = False, compute: str = ""
    ) -> Value:
        """Return acc + left @ right, summed in `dtype`; acc: None for 0."""
        more: dict[str, Attribute] = {"compute": compute} if compute else {}
        kind = Tile(dtype, (shape_of(left)[0], shape_of(right)[1]))
        operands = (left, right) if acc is None else (left, right, acc)
        return self.value("dot", operands, kind, exact=exact, **more)

    # Memory

    def read(self, array: Value, index: Sequence[Value]) -> Value:
        """Read one element; outside the array there is 0."""
        return self.value("read", (array, *index), Scalar(element_of(array)), cache="")

    def write(self, array: Value, value: Value, index: Sequence[Value]) -> None:
        """Write one element; outside the array nothing happens."""
        self.emit("write", (array, value, *index), (), cache="")

    def load(self, array: Value, index: Sequence[Value], extents: Sequence[int], dropped: Sequence[int]) -> Value:
        """Load a tile from `index` on; axes in `dropped` have extent 1 and no place in the tile."""
        shape = tuple(extent for axis, extent in enumerate(extents) if axis not in dropped)
        kind = Tile(element_of(array), shape)
        return self.value("load", (array, *index), kind, extents=tuple(extents), dropped=tuple(dropped), cache="")

    def store(
        self, array: Value, tile: Value, index: Sequence[Value], extents: Sequence[int], dropped: Sequence[int]
    ) -> None:
        """Store a tile; what lies outside the array is left out."""
        self.emit("store", (array, tile, *index), (), extents=tuple(extents), dropped=tuple(dropped), cache="")

    # Control

    def loop(
        self, lower: Value, upper: Value, step: Value, carried: Sequence[Value], body: Body, kind: str = "range"
    ) -> tuple[Value, ...]:  # fmt: skip
        """Emit a `for`; return what its last trip carries out."""
        index = Value(Scalar(i64), "", self.span)
        arguments = tuple(Value(value.type, "", self.span) for value in carried)
        self._blocks.append([])
        self.emit("yield", tuple(body(index, arguments)), ())
        block = Block((index, *arguments), tuple(self._blocks.pop()))
        kinds = [value.type for value in carried]
        return self.emit("for", (lower, upper, step, *carried), kinds, (block,), kind=kind, prefetch=0)

    def branch(
        self, condition: Value, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]
    ) -> tuple[Value, ...]:
        """Emit an `if` on a boolean scalar; return what the branch taken yields."""
        blocks: list[Block] = []
        kinds: list[Type] = []
        for make in (then, otherwise):
            self._blocks.append([])
            made = tuple(make())
            self.emit("yield", made, ())
            blocks.append(Block((), tuple(self._blocks.pop())))
            kinds = [value.type for value in made]
        return self.emit("if", (condition,), kinds, blocks)


def dtype_of(value: Value) -> DType:
    """Return the element type of a scalar, a tile or an array."""
    return value.type.dtype


def element_of(array: Value) -> DType:
    """Return the element type of memory."""
    assert isinstance(array.type, Array | Shared)
    return array.type.dtype


def shape_of(value: Value) -> tuple[int, ...]:
    """Return the shape of a tile; no axes for a scalar."""
    return value.type.shape if isinstance(value.type, Tile) else ()


def with_dtype(kind: Type, dtype: DType) -> Type:
    """Return a scalar's or a tile's type with another element type."""
    return Tile(dtype, kind.shape) if isinstance(kind, Tile) else Scalar(dtype)
