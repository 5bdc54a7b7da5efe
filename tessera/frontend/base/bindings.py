"""Values that a name can stand for while a kernel is built, besides an SSA value or a plain Python number."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tessera.core.base.source import Span
from tessera.core.program.program import Value
from tessera.core.program.types import Shared, Tile
from tessera.frontend.base.observer import Observer

Number = int | float | bool


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """A block along one axis, as `tile.range(X, axis=, step=)` and `tile.mma(...)` give: [start, start + extent)."""

    start: Value | int
    extent: int
    axis: int


@dataclass(frozen=True, slots=True)
class Region:
    """A box of an array or buffer, not read yet: one start and one extent an axis; `dropped` axes are indexed away.

    One of the starts may be a tile of indices: the region has there, one for each, what the memory has at them.
    """

    memory: Value
    starts: tuple[Value | int, ...]
    extents: tuple[int, ...]
    dropped: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tile that reading the region gives."""
        return tuple(e for axis, e in enumerate(self.extents) if axis not in self.dropped)

    @property
    def gathered(self) -> int | None:
        """The axis that has a tile of indices; None in a box."""
        tiles = (axis for axis, start in enumerate(self.starts) if isinstance(start, Value))
        return next((axis for axis in tiles if isinstance(cast("Value", self.starts[axis]).type, Tile)), None)


@dataclass(frozen=True, slots=True)
class CooperativeGroup:
    """`size` neighbouring lanes that synchronise and exchange values."""

    size: int


@dataclass(frozen=True, slots=True)
class SharedHole:
    """Shared memory whose shape is not known yet: it comes from the first copy into any of these allocations."""

    sites: frozenset[Span]


@dataclass(frozen=True, slots=True)
class Undefined:
    """A name that some path leaves without a value; using it is a mistake, which `reason` explains."""

    reason: str
    span: Span


@dataclass(frozen=True, slots=True)
class Method:
    """`value.name`, to be called."""

    owner: object
    name: str


class Rebuild(Exception):
    """The builder learnt a fact (a shape of shared memory, an extent to fix) and must start again with it."""


class HoleUsed(Exception):
    """A statement needs the type of shared memory that is not known yet; later statements may tell."""

    def __init__(self, hole: SharedHole, span: Span) -> None:
        super().__init__()
        self.hole = hole
        self.span = span


class Knowledge:
    """Facts that earlier attempts at building one kernel found.

    `shared`: the type of each allocation without one, by its place; `static`: symbols to fix, with their values;
    `axes`: along how many axes lanes lie; for a kernel that leaves the group open, `group` is what was chosen, once it
    is, and `blocks` what the launch says;
    `same`: symbols that stand for others, whose extent is the same in this launch;
    `observer`: who hears of names and mistakes, or None.
    """

    def __init__(self, extents: Mapping[str, int]) -> None:
        self.extents = dict(extents)
        self.static: dict[str, int] = {}
        self.same: dict[str, str] = {}
        self.shared: dict[Span, Shared] = {}
        self.incomplete: HoleUsed | None = None
        self.axes = 1
        self.group: tuple[int, ...] | None = None
        self.blocks: tuple[int, ...] | None = None
        self.observer: Observer | None = None

    def extent(self, extent: int | str) -> int | str:
        """An extent as the kernel is compiled for it: a number, or the symbol that stands for it."""
        symbol = self.same.get(extent, extent) if isinstance(extent, str) else extent
        return self.static.get(symbol, symbol) if isinstance(symbol, str) else symbol

    def fix(self, symbol: str) -> None:
        """Compile for the launch's own value of `symbol`, and start again."""
        self.static[symbol] = self.extents[symbol]
        raise Rebuild

    def spread(self, axes: int) -> None:
        """Let lanes lie along so many axes, and start again."""
        self.axes = axes
        raise Rebuild

    def resolve(self, hole: SharedHole, type_: Shared) -> None:
        """Give every allocation of `hole` its type, and start again."""
        for site in hole.sites:
            self.shared[site] = type_
        raise Rebuild


def items_of(binding: object) -> list[object] | None:
    """The items of a tuple or list, None for anything else."""
    return list(cast("tuple[object, ...]", binding)) if isinstance(binding, tuple | list) else None


def flatten(items: tuple[object, ...]) -> list[object]:
    """`items` with the items of tuples and lists among them in their place, one level deep."""
    return [e for item in items for e in (items_of(item) or [item])]
