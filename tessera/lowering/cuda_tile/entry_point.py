"""The kernel around the code: its parameters, which are the artifact's slots, and the ids of its group.

A group is a tile block of the launch, numbered along x; ids along other axes are worked out from that number.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tessera.core.artifact import LaunchRule, Slot
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import NotOnCudaTile
from tessera.core.program.expressions import Expression, translate
from tessera.core.program.program import Program
from tessera.core.program.types import Array, Scalar
from tessera.lowering.cuda_tile.builder import INDEX, TileBuilder
from tessera.lowering.cuda_tile.instructions import AttributeValue, Block, TileType, Value

LANE_IDS: Final = {
    "lane": "the index of a lane: those of a CUDA Tile kernel are its compiler's own",
    "thread": "the index of a lane: those of a CUDA Tile kernel are its compiler's own",
    "lane_in_warp": "the index of a lane in its warp: the lanes of a CUDA Tile kernel are its compiler's own",
    "warp": "the index of a warp: those of a CUDA Tile kernel are its compiler's own",
}
"""Ids that no CUDA Tile kernel has, and what to say of them."""
LANE_HINT: Final = 'a `cuda_tile` kernel works on whole tiles (`x[i:i+128]`); compile this one for "cuda"'
_BLOCK_ID: Final = "i32"
_RASTER_GROUP: Final = 8


@dataclass
class EntryFrame:
    """One kernel under construction.

    blocked: order the groups so that neighbours read the same rows and columns
    arguments: what each parameter of the kernel is: an address, or a scalar
    strides: of arrays that are not contiguous, else empty
    symbols: extents by name
    group: the group's number; depth: its number along the third axis of the launch, which is always 0
    """

    program: Program
    rule: LaunchRule
    build: TileBuilder
    body: Block
    blocked: bool = False
    slots: list[Slot] = field(default_factory=list[Slot])
    arguments: list[Value] = field(default_factory=list[Value])
    strides: list[tuple[Value, ...]] = field(default_factory=list[tuple[Value, ...]])
    symbols: dict[str, Value] = field(default_factory=dict[str, Value])
    group: Value = field(init=False)
    depth: Value = field(init=False)
    _grid: tuple[Value, ...] = ()

    def begin(self) -> None:
        """Declare the parameters and read the group's number."""
        if self.rule.kind == "lanes":
            message = "a kernel for as many lanes as there are elements"
            raise NotOnCudaTile(message, self.program.span, hint=LANE_HINT)
        for number, parameter in enumerate(self.program.parameters):
            kind = parameter.value.type
            if isinstance(kind, Array):
                element = stored(kind.dtype)
                self.arguments.append(self._slot(Slot("pointer", number), f"ptr<{element}>", parameter.name))
                axes = () if kind.contiguous else range(len(kind.shape))
                self.strides.append(tuple(self._slot(Slot("stride", number, axis), INDEX) for axis in axes))
            elif isinstance(kind, Scalar):
                self.arguments.append(self._scalar(number, kind, parameter.name))
                self.strides.append(())
        for symbol in self.program.symbols:
            if symbol.name not in self.symbols:
                self.symbols[symbol.name] = self._slot(Slot("symbol", symbol=symbol.name), INDEX, symbol.name)
        if self.rule.kind == "groups":
            self._grid = tuple(self._slot(Slot("grid", axis=axis), INDEX) for axis in range(3))
        place = TileType(_BLOCK_ID)
        number, _, self.depth = self.build.emit("get_tile_block_id", (), [place] * 3).results
        if self.blocked and len(self.rule.ranges) == 2:
            number = self._in_blocks(number)
        self.group = self.build.resize(number, INDEX, signed=False)
        self.group.name = "group"

    def _in_blocks(self, number: Value) -> Value:
        """Another order of the groups: those that run at a time form a block of the grid, and share what they read.

        A band is `_RASTER_GROUP` rows of the grid; in a band, the groups of a column follow each other.
        """
        build = self.build
        rows, columns = (self._count(length, step) for length, step in self.rule.ranges)
        height = build.constant(_RASTER_GROUP, _BLOCK_ID)
        area = build.mul(height, columns)
        first = build.mul(self._unsigned("divi", number, area, rounding="zero"), height)
        height = build.smaller(build.sub(rows, first), height)
        inside = self._unsigned("remi", number, area)
        row = build.add(first, self._unsigned("remi", inside, height))
        return build.add(build.mul(row, columns), self._unsigned("divi", inside, height, rounding="zero"))

    def _count(self, length: Expression, step: int) -> Value:
        """How many steps a length has; 32 bits hold the number of groups, of which it is a factor."""
        build = self.build
        if isinstance(length, int):
            return build.constant(-(-length // step), _BLOCK_ID)
        raised = build.add(translate(length, self), build.constant(step - 1, INDEX))
        count = self._unsigned("divi", raised, build.constant(step, INDEX), rounding="zero")
        return build.resize(count, _BLOCK_ID)

    def leaf(self, leaf: int | str) -> Value:
        """Return a number, or the value of a symbol (see `core.program.expressions.Emits`)."""
        return self.symbols[leaf] if isinstance(leaf, str) else self.build.constant(leaf, INDEX)

    def apply(self, name: str, a: Value, b: Value) -> Value:
        """Emit one operation of an expression."""
        build = self.build
        make: dict[str, Callable[[Value, Value], Value]] = {
            "add": build.add, "sub": build.sub, "mul": build.mul, "min": build.smaller,
            "max": lambda x, y: build.smaller(x, y, "maxi"),
            "divide": lambda x, y: self._unsigned("divi", x, y, rounding="zero"),
        }  # fmt: skip
        return make[name](a, b)

    def _scalar(self, number: int, kind: Scalar, name: str) -> Value:
        value = self._slot(Slot("scalar", number), stored(kind.dtype), name)
        if kind.dtype.kind != "bool":
            return value
        return self.build.compare("not_equal", value, self.build.like(0, value))

    def _slot(self, slot: Slot, element: str, name: str = "") -> Value:
        self.slots.append(slot)
        value = Value(TileType(element), name)
        self.body.arguments = (*self.body.arguments, value)
        return value

    # -- ids ---------------------------------------------------------------------------------------------------

    def identify(self, of: str, axis: int | None) -> Value:
        """Return the value of an `id` of the group."""
        if of == "group":
            return self._group_at(axis)
        if of == "grid_groups":
            return self._groups(axis)
        lanes = self.program.group or (1,)
        total = 1
        for number, extent in enumerate(lanes):
            total *= extent if axis is None or axis == number else 1
        return self.build.constant(total, INDEX)

    def _groups(self, axis: int | None) -> Value:
        build = self.build
        if not self._grid:
            return build.constant(1, INDEX)
        if axis is not None:
            return self._grid[axis]
        return build.mul(build.mul(self._grid[0], self._grid[1]), self._grid[2])

    def _group_at(self, axis: int | None) -> Value:
        build = self.build
        if axis is None or not self._grid:
            return self.group if axis in (None, 0) else build.constant(0, INDEX)
        along = self.group
        for inner in range(2, axis, -1):
            along = self._unsigned("divi", along, self._grid[inner], rounding="zero")
        return along if axis == 0 else self._unsigned("remi", along, self._grid[axis])

    def _unsigned(self, name: str, a: Value, b: Value, **attributes: AttributeValue) -> Value:
        return self.build.value(name, (a, b), a.type, signedness="unsigned", **attributes)


def stored(dtype: DType) -> str:
    """Return the element type in memory; bools and floats of 8 bits are bytes (`tile-pack-floats`)."""
    if dtype.kind == "bool" or dtype.is_storage:
        return "i8"
    return dtype.name if dtype.is_float else f"i{dtype.bits}"
