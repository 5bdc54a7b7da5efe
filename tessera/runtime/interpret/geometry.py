"""How many groups and lanes a launch has, and which ids each lane sees.

Axes are those of an array: the last one varies fastest, and a shape of fewer than three axes is followed by ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.program.expressions import Expression, evaluate
from tessera.core.program.program import Program

WARP: Final = 32

Shape = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Groups along each axis of the grid, lanes along each axis of a group."""

    grid: Shape
    group: Shape

    @property
    def groups(self) -> int:
        """Groups of the launch; none when a group would have no lane."""
        return prod(self.grid) if self.lanes else 0

    @property
    def lanes(self) -> int:
        """Lanes of one group."""
        return prod(self.group)


@dataclass(frozen=True, slots=True)
class Window:
    """The lanes `first` to `past` (exclusive, linear) of group `number`, which run in lock-step."""

    geometry: Geometry
    number: int
    first: int
    past: int

    @property
    def lanes(self) -> NDArray[np.int64]:
        """Linear index of each lane within its group."""
        return np.arange(self.first, self.past, dtype=np.int64)

    def identity(self, of: str, axis: int | None) -> NDArray[np.int64] | np.int64:
        """Return the id named `of` (a key of ID_KINDS): one a lane, or one number when it is uniform."""
        geometry = self.geometry
        if of == "lane":
            return _along(self.lanes, geometry.group, axis)
        if of == "thread":
            base = np.int64(self.number * geometry.lanes if axis is None else self._group(axis) * geometry.group[axis])
            return _along(self.lanes, geometry.group, axis) + base
        if of == "lane_in_warp":
            return self.lanes % WARP
        if of == "warp":
            return self.lanes // WARP
        if of == "group":
            return self._group(axis)
        shape = geometry.group if of == "group_lanes" else geometry.grid
        return np.int64(prod(shape) if axis is None else shape[axis])

    def _group(self, axis: int | None) -> np.int64:
        return np.int64(_along(np.asarray(self.number), self.geometry.grid, axis))


def _along(linear: NDArray[np.int64], shape: Shape, axis: int | None) -> NDArray[np.int64]:
    if axis is None:
        return linear
    return linear // max(1, prod(shape[axis + 1 :])) % max(1, shape[axis])


def launch_geometry(
    program: Program, grid: tuple[int, ...] | None, group: tuple[int, ...] | None, symbols: Mapping[str, int]
) -> Geometry:
    """Return the geometry of one launch; `grid` and `group` are what the user asked for, if anything.

    * domain "single": one group; the lanes of its group are those of `tile[...]`, else one
    * domain "groups", or `tile[...]`: groups of that many lanes, as many as `grid` says, else as the domain says, or
      enough to cover it, along each of its axes
    * otherwise: one group of the whole domain, all its lanes on axis 0: grid x group, or the largest extent
    """
    if program.domain.kind == "single":
        return Geometry((1, 1, 1), _padded(program.group or (1,)))
    grouped = program.group is not None or program.domain.kind == "groups"
    lanes = _padded(group or program.group or (1,))
    if grid is not None:
        return Geometry(_padded(grid), lanes) if grouped else Geometry((1, 1, 1), (prod(grid) * prod(lanes), 1, 1))
    if program.domain.axes:
        along = [_largest(program, bounds, symbols) for bounds in program.domain.axes]
        return Geometry(_padded(tuple(-(-n // size) for n, size in zip(along, lanes, strict=False))), lanes)
    extent = _largest(program, program.domain.extents, symbols)
    if program.domain.kind == "groups":
        return Geometry((extent, 1, 1), lanes)
    return Geometry((-(-extent // prod(lanes)), 1, 1), lanes) if grouped else Geometry((1, 1, 1), (extent, 1, 1))


def _largest(program: Program, bounds: Sequence[Expression], symbols: Mapping[str, int]) -> int:
    if not bounds:
        raise ValueError(f"the number of lanes of {program.name} cannot be derived: a grid must be given")
    return max(0, *(evaluate(bound, symbols.__getitem__) for bound in bounds))


def _padded(shape: tuple[int, ...]) -> Shape:
    first, second, third = (*shape, 1, 1, 1)[:3]
    return (first, second, third)
