"""A CUDA Tile program as data: what the lowering makes, the printer shows and the encoder writes as bytecode.

The operations are those of CUDA Tile IR (https://docs.nvidia.com/cuda/tile-ir/), by their names there (`addf`,
`load_ptr_tko`).  Attributes are plain Python values: the encoder knows which enumeration each belongs to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tessera.core.mlir import ir

NOT_STATIC: Final = -1
"""In a `ViewType`: an extent or a stride that is an operand, not a number."""


@dataclass(frozen=True, slots=True)
class TileType:
    """A tile of `shape`, each extent a power of two; () is a scalar.

    element: "f32", "bf16", "i64", "i1", ..., or "ptr<f32>" for addresses of elements
    """

    element: str
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"tile<{'x'.join([*map(str, self.shape), self.element])}>"

    def of(self, element: str) -> "TileType":
        """Return the type of this shape with another element."""
        return TileType(element, self.shape)


@dataclass(frozen=True, slots=True)
class ViewType:
    """An array in memory, cut into tiles when `tile` is given; `NOT_STATIC` stands for extents that are operands.

    Elements of a tile that lie outside the array read as 0 and are not written.
    """

    element: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    tile: tuple[int, ...] | None = None

    def __str__(self) -> str:
        extents, strides = (["?" if n == NOT_STATIC else str(n) for n in row] for row in (self.extents, self.strides))
        tensor = f"tensor_view<{'x'.join([*extents, self.element])}, strides=[{','.join(strides)}]>"
        if self.tile is None:
            return tensor
        return f"partition_view<tile=({'x'.join(map(str, self.tile))}), padding_value=zero, {tensor}>"


@dataclass(frozen=True, slots=True)
class TokenType:
    """Orders memory operations: one that takes a token happens after the one that made it."""

    def __str__(self) -> str:
        return "token"


TOKEN: Final = TokenType()
AttributeValue: TypeAlias = bool | int | float | str | tuple[int | None, ...]
ValueType = TileType | ViewType | TokenType


@dataclass(eq=False, slots=True)
class Value:
    """One SSA value; `name` is what the user calls it, or empty."""

    type: ValueType
    name: str = ""

    @property
    def tile_type(self) -> TileType:
        """Return the type of a tile.

        Raises:
            TypeError: the value is an array or a token.
        """
        if isinstance(self.type, TileType):
            return self.type
        raise TypeError(f"{self.type} is no tile")

    @property
    def view_type(self) -> ViewType:
        """Return the type of an array.

        Raises:
            TypeError: the value is a tile or a token.
        """
        if isinstance(self.type, ViewType):
            return self.type
        raise TypeError(f"{self.type} is no view")

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of a tile."""
        return self.tile_type.shape

    @property
    def element(self) -> str:
        """Return the element type of a tile."""
        return self.tile_type.element


@dataclass(eq=False, slots=True)
class Block:
    """Instructions in order; the last one says where control goes."""

    arguments: tuple[Value, ...] = ()
    instructions: "list[Instruction]" = field(default_factory=list["Instruction"])


@dataclass(eq=False, slots=True)
class Instruction:
    """One operation; `location` is the Tile IR location it came from."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: Mapping[str, AttributeValue]
    blocks: tuple[Block, ...]
    location: ir.Location

    def number(self, name: str) -> float:
        """Return an attribute that is a number.

        Raises:
            TypeError: it is something else.
        """
        found = self.attributes[name]
        if isinstance(found, int | float):
            return found
        raise TypeError(f"the attribute {name} is no number: {found!r}")

    def numbers(self, name: str) -> tuple[int | None, ...]:
        """Return an attribute that is a tuple of numbers.

        Raises:
            TypeError: it is something else.
        """
        found = self.attributes[name]
        if isinstance(found, tuple):
            return found
        raise TypeError(f"the attribute {name} is no tuple: {found!r}")


@dataclass(eq=False, slots=True)
class Entry:
    """A kernel: its parameters are the body's arguments."""

    name: str
    body: Block
    location: ir.Location


def instructions_of(block: Block) -> Iterator[Instruction]:
    """Yield every instruction inside `block`, outer before inner."""
    for instruction in block.instructions:
        yield instruction
        for inner in instruction.blocks:
            yield from instructions_of(inner)


def padded(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the tile that holds one of `shape`: every extent the next power of two."""
    return tuple(1 << (extent - 1).bit_length() for extent in shape)
