"""A recorded launch: which tile executed which statement, what it touched, and what its variables held then."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.source import Source
from tessera.viz.tile_debugger.elements import Elements, Flags, Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """One access of one array by one statement.

    array: its number in `Trace.arrays`; writes: else it reads
    starts, extents: of the window that a tile asks for, some of which may lie outside the array; empty for accesses
        of single elements
    elements: row-major numbers of what was touched, in order: inside the array, by active lanes only
    lanes: the lane that touched each; None where the group did
    outside: how many elements or active lanes the edge of the array masked off; absent: elements of a tile that are
        not stored because they do not exist
    values: what was written
    """

    array: int
    writes: bool
    elements: Elements
    starts: tuple[int, ...] = ()
    extents: tuple[int, ...] = ()
    lanes: Elements | None = None
    outside: int = 0
    absent: int = 0
    values: Numbers | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable of the user's, as a statement left it.

    values: one number (of the group), one a lane, or a tile; by_lane: whether there is one for each lane
    exists: which elements of a tile exist, or which lanes were active (None: all)
    """

    name: str
    dtype: str
    values: Numbers
    by_lane: bool = False
    exists: Flags | None = None


@dataclass(frozen=True, slots=True)
class Trip:
    """One trip of a loop: the index (None where there is none, or each lane has its own), and which trip it is."""

    name: str
    line: int
    index: int | None
    number: int


@dataclass(slots=True, eq=False)
class Step:
    """One statement, executed once by one tile.

    tile: its number in `Trace.tiles`; active: the lanes that executed it (None: all)
    kind: "statement", "branch", "loop" or "barrier"
    """

    tile: int
    line: int
    trips: tuple[Trip, ...]
    kind: str = "statement"
    active: Flags | None = None
    touches: list[Touch] = field(default_factory=list[Touch])
    variables: list[Variable] = field(default_factory=list[Variable])


@dataclass(frozen=True, slots=True)
class Tile:
    """Unit of work: a group, a block of lanes, or a trip of the loops over tiles of a kernel without groups.

    number: among all of the launch; group: its place in the grid; trips: of the loops over tiles
    lanes: first lane, and the one past the last
    """

    number: int
    group: tuple[int, ...]
    trips: tuple[Trip, ...]
    lanes: tuple[int, int]
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class RecordedArray:
    """A parameter's array, or a buffer of shared memory, which each tile has its own of.

    before: its elements before the launch, in a copy; None where it was too large to keep, and for shared memory
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    shared: bool
    mutable: bool
    before: Numbers | None = None

    @property
    def size(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Focus:
    """A beginning for the debugger: a step (None: the first one), and an element of an array under the cursor."""

    step: int | None
    array: int
    element: int


@dataclass(frozen=True, eq=False)
class Trace:
    """A recording.

    kind: what a tile is, in words: "group", "block of lanes" or "trip"
    total: tiles of the whole launch; lanes: of one tile; left_out: what was not recorded, in words
    """

    kernel: str
    source: Source
    span: tuple[int, int]
    arrays: tuple[RecordedArray, ...]
    tiles: tuple[Tile, ...]
    steps: tuple[Step, ...]
    kind: str
    total: int
    lanes: int
    grid: tuple[int, ...]
    left_out: tuple[str, ...] = ()

    @cached_property
    def by_tile(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the steps of each tile, in order."""
        found: list[list[int]] = [[] for _ in self.tiles]
        for number, step in enumerate(self.steps):
            found[step.tile].append(number)
        return tuple(map(tuple, found))

    def number_of(self, array: int | str) -> int:
        """Return the number of an array in `arrays`.  Raises ValueError for a name that there is not."""
        if not isinstance(array, str):
            return array
        names = [each.name for each in self.arrays]
        if array not in names:
            raise ValueError(f"{self.kernel} has no array {array!r} (arrays: {', '.join(names)})")
        return names.index(array)

    def touches(self, array: int | str, tiles: Sequence[int] | None = None) -> Iterator[tuple[int, Touch]]:
        """Yield each access of an array, by its name or number, by these tiles (None: all), with its step's number."""
        array = self.number_of(array)
        for number, step in enumerate(self.steps):
            if tiles is None or step.tile in tiles:
                for touch in step.touches:
                    if touch.array == array:
                        yield number, touch

    def marks(self, array: int | str, tiles: Sequence[int] | None = None) -> NDArray[np.uint8]:
        """Return, for each element of an array: 0 untouched, 1 read, 2 written, 3 both; by these tiles."""
        known = self.arrays[self.number_of(array)]
        found = np.zeros(known.size, np.uint8)
        for _, touch in self.touches(array, tiles):
            found[touch.elements] |= 2 if touch.writes else 1
        return found.reshape(known.shape)

    def users(self, array: int | str, element: int | tuple[int, ...]) -> list[tuple[int, Touch, int | None]]:
        """Return every access of an element: the step's number, the access, and the lane (None: the whole group).

        element: its index, or its number in row-major order.  Raises ValueError for one outside the array.
        """
        known = self.arrays[self.number_of(array)]
        if isinstance(element, tuple):
            element = int(np.ravel_multi_index(element, known.shape))
        elif not 0 <= element < known.size:
            raise ValueError(f"{known.name} has {known.size:,} elements, and no element {element}")
        found: list[tuple[int, Touch, int | None]] = []
        for number, touch in self.touches(array):
            places = np.flatnonzero(touch.elements == element)
            if len(places):
                found.append((number, touch, None if touch.lanes is None else int(touch.lanes[places[-1]])))
        return found

    def contents(self, array: int | str, step: int) -> Numbers | None:
        """Return an array as it stood after a step; None where its elements were not kept.

        Of shared memory, that of the step's own tile; what nothing has written yet is NaN there, or 0.
        """
        array = self.number_of(array)
        known = self.arrays[array]
        if known.shared:
            kinds = [t.values.dtype for s in self.steps for t in s.touches if t.array == array and t.values is not None]
            kind = kinds[0] if kinds else np.dtype(np.float32)
            data = np.full(known.size, np.nan if kind.kind == "f" else 0, kind)
        elif known.before is None:
            return None
        else:
            data = known.before.reshape(-1).copy()
        for number, touch in self.touches(array):
            if number > step:
                break
            own = not known.shared or self.steps[number].tile == self.steps[step].tile
            if touch.values is not None and own:
                data[touch.elements] = touch.values.reshape(-1)
        return data.reshape(known.shape)
