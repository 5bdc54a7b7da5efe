"""The space in which a launch's work is counted: axes of the grid, lanes and turns of loops as dimensions.

What happens under a mask is counted for every group at once: a mask is a table over some dimensions, and what happens
in a group is the sum of the product of its masks over all dimensions but the grid's.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tessera.core.work import Numbers, Shape
from tessera.performance.index_evaluation import MOST, Table, combine

_AXES: Final = 3


class LaunchSpace:
    """The dimensions of one launch, which are known by their numbers; loops add theirs while they are walked.

    shape: of the launch
    trips: turns of the loops whose iterations are its groups, outer first, where `shape.ranges` says that they are
    lanes: whether lanes differ from each other; group: lanes along each axis of a group

    grid: the dimensions that tell groups apart; lane: the one of a group's lanes, None where they do not differ
    """

    def __init__(self, shape: Shape, trips: Sequence[int], *, lanes: bool, group: Sequence[int]) -> None:
        self.shape = shape
        self.grid: list[int] = []
        self.lane: int | None = None
        self._group_extents = (*group, 1, 1)[:_AXES]
        self._sizes: list[int] = []
        if shape.ranges:
            self.grid = [self.dimension(count) for count in trips]
            return
        axes = (shape.groups, 1, 1) if shape.whole is not None else shape.axes
        self.grid = [self.dimension(size) for size in axes]
        if lanes:
            self.lane = self.dimension(shape.lanes)

    def dimension(self, size: int) -> int:
        """Return a new dimension of `size` (0 where that is negative)."""
        self._sizes.append(max(0, size))
        return len(self._sizes) - 1

    def along(self, dim: int, scale: int = 1, offset: int = 0) -> Table | None:
        """Return `offset`, `offset + scale`, ... along a dimension; None where that is too large a table."""
        size = self._sizes[dim]
        return Table((dim,), offset + scale * np.arange(size)) if size <= MOST else None

    def zeros(self) -> Numbers:
        """Return a count of nothing: one number a group, with an axis for each dimension of the grid."""
        return np.zeros([self._sizes[dim] for dim in self.grid])

    def per_group(self, counted: Numbers) -> Numbers:
        """Return a count in the order of the groups: the last axis, or the innermost loop, varies fastest."""
        return counted.ravel()

    def identify(self, of: str, axis: int | None) -> Table | None:
        """Return the value of an id ("group", "lane", "thread", "group_lanes", "grid_groups"), if it is known."""
        shape = self.shape
        group = Table((), np.asarray(0)) if shape.whole is not None or shape.ranges else self._group(axis)
        if of == "group":
            return group
        if of == "grid_groups":
            return Table((), np.asarray(shape.groups if axis is None else shape.axes[axis]))
        if of not in ("lane", "thread", "group_lanes"):
            return None
        if shape.whole is not None:
            return self._of_whole(of, axis)
        extent = shape.lanes if axis is None else self._group_extents[axis]
        if of == "group_lanes":
            return Table((), np.asarray(extent))
        lane = self._lane(axis)
        if of == "lane" or lane is None:
            return lane
        return None if group is None else combine(np.add, Table(group.dims, group.values * extent), lane)

    def _of_whole(self, of: str, axis: int | None) -> Table | None:
        """Return an id in a kernel whose one group is the whole launch, which has one axis."""
        if axis not in (None, 0):
            return Table((), np.asarray(1 if of == "group_lanes" else 0))
        if of == "group_lanes":
            return Table((), np.asarray(self.shape.whole))
        if self.lane is None:
            return None
        base, lane = self.along(self.grid[0], self.shape.lanes), self.along(self.lane)
        return None if lane is None or base is None else combine(np.add, base, lane)

    def _lane(self, axis: int | None) -> Table | None:
        """Return the lane's index in its group, linear or along an axis."""
        lane = None if self.lane is None else self.along(self.lane)
        if lane is None or axis is None:
            return lane
        below = math.prod(self._group_extents[axis + 1 :])
        return Table(lane.dims, lane.values // below % self._group_extents[axis])

    def _group(self, axis: int | None) -> Table | None:
        if axis is not None:
            return self.along(self.grid[axis])
        total: Table | None = Table((), np.asarray(0))
        below = 1
        for dim in reversed(self.grid):
            along = self.along(dim, below)
            total = None if total is None or along is None else combine(np.add, total, along)
            below *= self._sizes[dim]
        return total

    def counts(self, loops: Sequence[int], masks: Sequence[Table], *, lanes: bool) -> Numbers:
        """Count how often something happens in each group: in every trip of `loops`, times the product of `masks`.

        lanes: every lane does it; else the group does it once
        """
        dims = list(loops)
        if self.lane is not None and (lanes or any(self.lane in mask.dims for mask in masks)):
            dims.append(self.lane)
        # What the group does once, under a condition that lanes differ in, counts as the share of lanes that do it.
        scale = 1.0 if lanes or self.lane is None or self.lane not in dims else 1.0 / max(1, self._sizes[self.lane])
        covered = {dim for mask in masks for dim in mask.dims}
        scale *= math.prod(self._sizes[dim] for dim in dims if dim not in covered)
        kept = [dim for dim in self.grid if dim in covered]
        operands: list[Numbers | list[int]] = []
        for mask in masks:
            operands += [mask.values.astype(np.float64), list(mask.dims)]
        total: Numbers = np.einsum(*operands, kept, optimize=True) if operands else np.asarray(1.0)
        shape = [self._sizes[dim] if dim in covered else 1 for dim in self.grid]
        per_group = np.broadcast_to(np.asarray(total * scale).reshape(shape), [self._sizes[d] for d in self.grid])
        return self._clipped(per_group, lanes=lanes and self.lane not in covered)

    def _clipped(self, per_group: Numbers, *, lanes: bool) -> Numbers:
        """Scale the last piece down, which has fewer lanes where the whole launch is cut into pieces."""
        whole = self.shape.whole
        if whole is None or not lanes:
            return per_group
        first = np.arange(self.shape.groups).reshape(-1, 1, 1) * self.shape.lanes
        return per_group * (np.clip(whole - first, 0, self.shape.lanes) / self.shape.lanes)
