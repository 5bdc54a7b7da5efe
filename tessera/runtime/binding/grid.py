"""How many groups a launch has: from the user's grid, or from the artifact's rule and the arguments' extents."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, SupportsIndex, cast

from tessera.core.artifact import Artifact, LaunchRule
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import BadGrid, MissingSchedule
from tessera.core.program.expressions import Expression, evaluate
from tessera.runtime.binding.signature import Facts

_AXES: Final = 3
_ONE: Final = (1, 1, 1)
_HOW: Final = "write kernel[(blocks,), (threads,)](...)"
_GROUPS_SYMBOL: Final = "grid_groups"
_MOST: Final = (1 << 31) - 1
Extents = tuple[int, ...]
Lookup = Callable[[str], tuple[int, int]]
"""Where the extent that binds a symbol lies among the facts, and how many times it is the symbol's value."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch grid as the user wrote it in `kernel[blocks, threads]`; `threads` None: not given."""

    blocks: Extents
    threads: Extents | None = None


class Shape(NamedTuple):
    """A launch's size: groups along each axis, units of work for the scheduler, lanes in all.

    Made in every launch, hence a tuple: a frozen dataclass takes a microsecond.
    """

    axes: tuple[int, int, int]
    units: int
    lanes: int


def read_grid(blocks: object, threads: object = None) -> Grid:
    """Turn what stands in the brackets into a Grid.  Raises BadGrid for anything but one to three positive integers."""
    return Grid(_extents(blocks, "grid"), None if threads is None else _extents(threads, "block"))


def _extents(value: object, what: str) -> Extents:
    given = cast("Sequence[SupportsIndex]", value if isinstance(value, tuple | list) else (value,))
    extents: list[int] = []
    for item in given:
        try:
            number = operator.index(item)
        except TypeError:
            number = None
        if number is None or isinstance(item, bool):
            raise BadGrid(f"a {what} is made of integers, got {item!r}", hint=_HOW)
        extents.append(number)
    if not 1 <= len(extents) <= _AXES:
        raise BadGrid(f"a {what} has 1 to 3 axes, got {len(extents)}", hint=_HOW)
    if min(extents) < 0 or max(extents) > _MOST or (what == "block" and min(extents) == 0):
        raise BadGrid(f"a {what} of {tuple(extents)}", hint="every axis needs at least 1, and at most 2147483647")
    return tuple(extents)


class GridRule:
    """The rule of one artifact, with the symbols resolved to places among the facts."""

    def __init__(self, artifact: Artifact, index_of: Lookup) -> None:
        self._artifact = artifact
        self._rule = artifact.launch
        self._kind = self._rule.kind
        self._group = math.prod(self._rule.group) if self._rule.group else 1
        self._extents = _resolve(self._rule.extents, index_of)
        self._count = _resolve(self._rule.count, index_of)
        self._ranges = tuple((_length(length, index_of), step) for length, step in self._rule.ranges)
        self._axes = tuple(_resolve(bounds, index_of) for bounds in self._rule.axes)

    def shape(self, facts: Facts, grid: Grid | None) -> Shape:
        """Return the size of a launch.  Raises BadGrid, or MissingSchedule when a grid must be given."""
        kind = self._kind
        if kind == "lanes":
            lanes = self._domain(facts) if grid is None else math.prod(grid.blocks) * math.prod(grid.threads or (1,))
            return Shape(_ONE, -(-lanes // self._rule.lanes_per_group), lanes)
        if kind == "groups":
            return self._groups(facts, grid)
        # Kernels without lane and group ids run the same whatever the grid: the compiler spreads their ranges.
        if kind == "ranges":
            units = math.prod(max(0, -(-length(facts) // step)) for length, step in self._ranges)
            return Shape(_ONE, units, units)
        return Shape(_ONE, 1, 1)

    def _groups(self, facts: Facts, grid: Grid | None) -> Shape:
        if grid is not None:
            blocks = self._explicit(grid, self._rule)
            self._agrees(blocks, facts)
        elif self._count:
            blocks = (_largest(self._count, facts),)
        elif self._axes:
            blocks = self._blocks_along_axes(facts)
        else:
            blocks = (-(-self._domain(facts) // self._group),)
        x, y, z = (*blocks, 1, 1)[:3]
        groups = x * y * z
        return Shape((x, y, z), groups, groups * self._group)

    def _blocks_along_axes(self, facts: Facts) -> Extents:
        """Return as many groups along each axis as the lanes there need."""
        blocks: list[int] = []
        for axis, (bounds, lanes) in enumerate(zip(self._axes, (*self._rule.group, 1, 1), strict=False)):
            if not bounds:
                raise self._unknown(f" along axis {axis}")
            blocks.append(-(-_largest(bounds, facts) // lanes))
        return tuple(blocks)

    def _explicit(self, grid: Grid, rule: LaunchRule) -> Extents:
        """Return the blocks of a grid; lanes that it gives must be the kernel's own.  Raises BadGrid."""
        if grid.threads is not None and rule.group and _trim(grid.threads) != _trim(rule.group):
            artifact = self._artifact
            message = f"{artifact.name} has groups of {rule.group} lanes, the launch gives blocks of {grid.threads}"
            hint = f"write {artifact.name}[{grid.blocks}, {rule.group}](...)"
            raise BadGrid(message, artifact.span, hint).with_source(artifact.source)
        return grid.blocks

    def _agrees(self, blocks: Extents, facts: Facts) -> None:
        """Require one element a group of arrays declared `[grid_groups]`, in a launch with an explicit grid too."""
        if self._rule.count != (_GROUPS_SYMBOL,):
            return
        given, wanted = math.prod(blocks), _largest(self._count, facts)
        if given != wanted:
            artifact = self._artifact
            message = f"{artifact.name} is launched with {given} groups, and its arrays say {_GROUPS_SYMBOL} = {wanted}"
            raise BadGrid(
                message, artifact.span, "leave the grid out, or give arrays with one element a group"
            ).with_source(artifact.source)

    def _domain(self, facts: Facts) -> int:
        if not self._extents:
            raise self._unknown()
        return _largest(self._extents, facts)

    def _unknown(self, where: str = "") -> TesseraError:
        artifact = self._artifact
        return MissingSchedule(
            f"nothing tells how many lanes {artifact.name} needs{where}", artifact.span,
            f"compare the lane's index with an extent, or give a grid: {artifact.name}[blocks, threads](...)",
        ).with_source(artifact.source)  # fmt: skip


_Place = tuple[int, int | Callable[[Facts], int] | None]
"""A number and None; the scale and the index of a fact; or what works a bound out."""


def _value(place: _Place, facts: Facts) -> int:
    number, index = place
    if index is None:
        return number
    if isinstance(index, int):
        return int(facts[index]) * number
    return max(0, index(facts))


def _largest(places: tuple[_Place, ...], facts: Facts) -> int:
    return _value(places[0], facts) if len(places) == 1 else max(_value(place, facts) for place in places)


def _length(length: Expression, index_of: Lookup) -> Callable[[Facts], int]:
    """Return the trip count of a loop in a launch."""
    if isinstance(length, int):
        return lambda _: length
    if isinstance(length, str):
        index, scale = index_of(length)
        return lambda facts: int(facts[index]) * scale

    def worked_out(facts: Facts) -> int:
        def symbol(name: str) -> int:
            index, scale = index_of(name)
            return int(facts[index]) * scale

        return evaluate(length, symbol)

    return worked_out


def _resolve(bounds: tuple[Expression, ...], index_of: Lookup) -> tuple[_Place, ...]:
    return tuple(_place(bound, index_of) for bound in bounds)


def _place(bound: Expression, index_of: Lookup) -> _Place:
    if isinstance(bound, int):
        return (bound, None)
    if isinstance(bound, str):
        index, scale = index_of(bound)
        return (scale, index)
    return (0, _length(bound, index_of))


def _trim(extents: Extents) -> Extents:
    """Drop trailing ones: (128, 1, 1) and (128,) are one block."""
    kept = list(extents)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return tuple(kept)
