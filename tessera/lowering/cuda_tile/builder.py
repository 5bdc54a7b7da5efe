"""Write CUDA Tile instructions: one method an operation, result types worked out from the operands."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.base.emit import required
from tessera.lowering.cuda_tile.instructions import (
    NOT_STATIC,
    TOKEN,
    AttributeValue,
    Block,
    Instruction,
    TileType,
    Value,
    ValueType,
    ViewType,
)

INDEX: Final = "i64"
SHORT: Final = "i32"
"""Offsets inside one tile: no tile has 2**31 elements along an axis."""
BOOL: Final = "i1"
FLOATS: Final = ("f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2")


class TileBuilder:
    """Appends instructions to `block`, with `location`; constants are made once a block.

    fast: the user allows the machine's own approximations of functions
    """

    def __init__(self, block: Block, location: ir.Location, *, fast: bool = False) -> None:
        self.fast = fast
        self.block = block
        self.location = location
        self._constants: list[dict[tuple[str, str, tuple[int, ...]], Value]] = [{}]
        self._numbers: dict[Value, float] = {}
        self._outermost, self._beginning = block, 0

    # -- the basics --------------------------------------------------------------------------------------------

    def emit(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[ValueType] = (),
        blocks: Sequence[Block] = (),
        **attributes: AttributeValue,
    ) -> Instruction:
        """Append an instruction with results of the given types."""
        made = tuple(Value(kind) for kind in results)
        instruction = Instruction(name, tuple(operands), made, attributes, tuple(blocks), self.location)
        self.block.instructions.append(instruction)
        return instruction

    def value(self, name: str, operands: Sequence[Value], result: ValueType, **attributes: AttributeValue) -> Value:
        """Append an instruction with one result."""
        return self.emit(name, operands, [result], (), **attributes).results[0]

    @contextmanager
    def located(self, location: ir.Location) -> Generator[None]:
        """Give what is emitted inside the `with` another location."""
        before, self.location = self.location, location
        try:
            yield
        finally:
            self.location = before

    @contextmanager
    def at(self, block: Block) -> Generator[None]:
        """Emit at the end of `block` inside the `with`; constants made there are not seen outside."""
        before, self.block = self.block, block
        self._constants.append({})
        try:
            yield
        finally:
            self._constants.pop()
            self.block = before

    def end_of_beginning(self) -> None:
        """Say that what has been emitted so far is seen by the whole kernel."""
        self._outermost, self._beginning = self.block, len(self.block.instructions)

    @contextmanager
    def at_beginning(self) -> Generator[None]:
        """Emit behind what the whole kernel sees, inside the `with`; no constants, which others may have made later."""
        block = Block()
        with self.at(block):
            yield
        self._outermost.instructions[self._beginning : self._beginning] = block.instructions
        self._beginning += len(block.instructions)

    # -- constants ---------------------------------------------------------------------------------------------

    def constant(self, number: float, element: str, shape: Sequence[int] = ()) -> Value:
        """Return a tile with `number` everywhere."""
        key = (repr(number), element, tuple(shape))  # repr tells -0.0 from 0.0
        for known in self._constants:
            if key in known:
                return known[key]
        made = self.value("constant", (), TileType(element, tuple(shape)), number=number)
        self._constants[-1][key] = made
        self._numbers[made] = number
        return made

    def like(self, number: float, value: Value) -> Value:
        """`number` in the type of `value`."""
        return self.constant(number, value.element, value.shape)

    def known(self, value: Value) -> float | None:
        """Return the number that a constant is, or None."""
        return self._numbers.get(value)

    # -- arithmetic --------------------------------------------------------------------------------------------

    def float_operation(self, name: str, *operands: Value) -> Value:
        """Emit `addf`, `mulf`, `fma`, `sqrt`, ...: rounded once, to nearest even."""
        return self.value(name, operands, operands[0].type, rounding_mode="nearest_even", flush_to_zero=False)

    def add(self, a: Value, b: Value) -> Value:
        """a + b of integers, wrapping around."""
        if self.known(b) == 0:
            return a
        return b if self.known(a) == 0 else self.value("addi", (a, b), a.type, overflow="none")

    def sub(self, a: Value, b: Value) -> Value:
        """a - b of integers, wrapping around."""
        return a if self.known(b) == 0 else self.value("subi", (a, b), a.type, overflow="none")

    def mul(self, a: Value, b: Value) -> Value:
        """a * b of integers, wrapping around."""
        if self.known(b) == 1:
            return a
        return b if self.known(a) == 1 else self.value("muli", (a, b), a.type, overflow="none")

    def smaller(self, a: Value, b: Value, name: str = "mini", *, signed: bool = True) -> Value:
        """Emit the smaller (`maxi`: the larger) of two integers."""
        return self.value(name, (a, b), a.type, signedness="signed" if signed else "unsigned")

    def bitwise(self, name: str, a: Value, b: Value) -> Value:
        """Emit `andi`, `ori`, `xori`."""
        return self.value(name, (a, b), a.type)

    def all_of(self, conditions: Sequence[Value | None]) -> Value | None:
        """Return the conjunction of conditions; None stands for one that always holds."""
        result: Value | None = None
        for condition in conditions:
            if condition is not None:
                result = condition if result is None else self.bitwise("andi", result, condition)
        return result

    def shift_right(self, a: Value, count: int, *, signed: bool = False) -> Value:
        """a >> count."""
        return self.value("shri", (a, self.like(count, a)), a.type, signedness="signed" if signed else "unsigned")

    def compare(self, predicate: str, a: Value, b: Value, *, signed: bool = True) -> Value:
        """Compare integers: `less_than`, `equal`, ..."""
        signedness = "signed" if signed else "unsigned"
        kind = a.tile_type.of(BOOL)
        return self.value("cmpi", (a, b), kind, comparison_predicate=predicate, signedness=signedness)

    def compare_floats(self, predicate: str, ordering: str, a: Value, b: Value) -> Value:
        """Compare floats; with a NaN the answer is no ("ordered") or yes ("unordered")."""
        kind = a.tile_type.of(BOOL)
        return self.value("cmpf", (a, b), kind, comparison_predicate=predicate, comparison_ordering=ordering)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """`yes` where the condition holds, else `no`; a scalar condition holds for a whole tile."""
        if condition.shape != yes.shape:
            condition = self.splat(condition, yes.shape)
        return self.value("select", (condition, yes, no), yes.type)

    def resize(self, value: Value, element: str, *, signed: bool = True) -> Value:
        """Extend or truncate an integer."""
        before, after = (int(name[1:]) for name in (value.element, element))
        if before == after:
            return value
        kind = value.tile_type.of(element)
        if before > after:
            return self.value("trunci", (value,), kind, overflow="none")
        return self.value("exti", (value,), kind, signedness="signed" if signed else "unsigned")

    def float_to(self, value: Value, element: str) -> Value:
        """Convert a float to another float type, rounded once to nearest even."""
        if value.element == element:
            return value
        return self.value("ftof", (value,), value.tile_type.of(element), rounding_mode="nearest_even")

    def bits(self, value: Value, element: str) -> Value:
        """Reinterpret the bits as another type of this width."""
        return self.value("bitcast", (value,), value.tile_type.of(element))

    def assume(self, value: Value, *, multiple_of: int = 1, most: int | None = None) -> Value:
        """Return `value`, of which the compiler may take for granted what it is a multiple of.

        An integer is not negative either, and at most `most`.
        """
        if not value.element.startswith("ptr<"):
            value = self.value("assume", (value,), value.type, bounded=(0, most))
        return value if multiple_of == 1 else self.value("assume", (value,), value.type, div_by=multiple_of)

    # -- shapes ------------------------------------------------------------------------------------------------

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Give the elements another shape, in row-major order."""
        if value.shape == tuple(shape):
            return value
        return self.value("reshape", (value,), TileType(value.element, tuple(shape)))

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """Extents of 1 repeated."""
        if value.shape == tuple(shape):
            return value
        return self.value("broadcast", (value,), TileType(value.element, tuple(shape)))

    def splat(self, value: Value, shape: Sequence[int]) -> Value:
        """Broadcast a scalar to a tile."""
        number = self.known(value)
        if number is not None:
            return self.constant(number, value.element, shape)
        return self.broadcast(self.reshape(value, [1] * len(shape)), shape)

    def along(self, value: Value, axis: int, rank: int) -> Value:
        """Return a tile of rank 1 along one axis of a tile of `rank`; the other extents are 1."""
        return self.reshape(value, [value.shape[0] if a == axis else 1 for a in range(rank)])

    def iota(self, extent: int, element: str = SHORT) -> Value:
        """0, 1, 2, ... up to `extent`."""
        return self.value("iota", (), TileType(element, (extent,)))

    def permute(self, value: Value, permutation: Sequence[int]) -> Value:
        """Permute the axes: axis i of the result is axis `permutation[i]`."""
        kind = TileType(value.element, tuple(value.shape[axis] for axis in permutation))
        return self.value("permute", (value,), kind, permutation=tuple(permutation))

    def extract(self, value: Value, shape: Sequence[int], numbers: Sequence[int | Value]) -> Value:
        """Return one of the blocks of `shape` that a tile is made of, by its number along each axis."""
        indices = [self.constant(n, SHORT) if isinstance(n, int) else n for n in numbers]
        return self.value("extract", (value, *indices), TileType(value.element, tuple(shape)))

    def reduce(self, value: Value, axis: int, name: str, identity: float, **attributes: AttributeValue) -> Value:
        """Combine the elements along an axis by operation `name`, in no particular order."""
        kind = TileType(value.element, value.shape[:axis] + value.shape[axis + 1 :])
        scalar = TileType(value.element)
        body = Block((Value(scalar), Value(scalar)))
        with self.at(body):
            combined = self.value(name, body.arguments, scalar, **attributes)
            self.emit("yield", [combined])
        return self.emit("reduce", [value], [kind], [body], dim=axis, identity=identity).results[0]

    # -- memory ------------------------------------------------------------------------------------------------

    def token(self) -> Value:
        """Return a token that waits for nothing."""
        return self.value("make_token", (), TOKEN)

    def join(self, tokens: Sequence[Value]) -> Value:
        """Return a token that waits for all of `tokens`."""
        unique = list(dict.fromkeys(tokens))
        return unique[0] if len(unique) == 1 else self.value("join_tokens", unique, TOKEN)

    def offset(self, pointers: Value, distance: Value) -> Value:
        """Addresses moved by a number of elements."""
        if self.known(distance) == 0:
            return pointers
        return self.value("offset", (pointers, distance), pointers.type)

    def load(self, pointers: Value, mask: Value | None, token: Value | None) -> tuple[Value, Value]:
        """Load the elements at the addresses, 0 where the mask is false; return them and a token."""
        element = pointers.element.removeprefix("ptr<").removesuffix(">")
        kind = pointers.tile_type.of(element)
        padding = () if mask is None else (mask, self.constant(0, element, kind.shape))
        optional = () if token is None else (token,)
        made = self.emit("load_ptr_tko", (pointers, *padding, *optional), [kind, TOKEN],
                         masked=mask is not None, ordered=token is not None)  # fmt: skip
        return made.results[0], made.results[1]

    def store(self, pointers: Value, value: Value, mask: Value | None, token: Value | None) -> Value:
        """Write the elements where the mask is true; gives a token of the store."""
        optional = [v for v in (mask, token) if v is not None]
        return self.value("store_ptr_tko", (pointers, value, *optional), TOKEN,
                          masked=mask is not None, ordered=token is not None)  # fmt: skip

    def view(self, pointer: Value, extents: Sequence[int | Value], strides: Sequence[int | Value]) -> Value:
        """Return an array in memory; extents and strides that are values are i64."""
        element = pointer.element.removeprefix("ptr<").removesuffix(">")
        numbers = [tuple(n if isinstance(n, int) else NOT_STATIC for n in row) for row in (extents, strides)]
        dynamic = [[v for v in row if isinstance(v, Value)] for row in (extents, strides)]
        kind = ViewType(element, *numbers)
        return self.value("make_tensor_view", (pointer, *dynamic[0], *dynamic[1]), kind, extents=len(dynamic[0]))

    def partition(self, view: Value, tile: Sequence[int]) -> Value:
        """Return an array cut into tiles, which are then known by their numbers along each axis."""
        kind = ViewType(view.view_type.element, view.view_type.extents, view.view_type.strides, tuple(tile))
        return self.value("make_partition_view", (view,), kind)

    def load_view(self, view: Value, numbers: Sequence[Value], token: Value | None) -> tuple[Value, Value]:
        """Return the tile with these numbers, which is not wholly outside the array; and a token of the load."""
        optional = () if token is None else (token,)
        kind = TileType(view.view_type.element, required(view.view_type.tile))
        made = self.emit("load_view_tko", (view, *numbers, *optional), [kind, TOKEN], ordered=token is not None)
        return made.results[0], made.results[1]

    def store_view(self, view: Value, value: Value, numbers: Sequence[Value], token: Value | None) -> Value:
        """Write the tile with these numbers, which is not wholly outside the array; gives a token of the store."""
        optional = () if token is None else (token,)
        return self.value("store_view_tko", (value, view, *numbers, *optional), TOKEN, ordered=token is not None)
