"""The grid of a launch: its axes, how long they are, and which array's elements a group stands for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tessera.core.artifact import Artifact
from tessera.core.program.expressions import Expression, evaluate, to_text
from tessera.core.program.types import Array
from tessera.core.work import Numbers, Shape


@dataclass(frozen=True, slots=True)
class GridAxis:
    """One axis of a launch's grid.

    name: the extent that it divides ("m"), or "x", "y", "z"; size: groups along it; step: elements of a group along it
    """

    name: str
    size: int
    step: int


@dataclass(frozen=True, slots=True)
class TiledArray:
    """A written array that the grid divides: `dims` says which of its dimensions each axis of the grid runs along."""

    name: str
    shape: tuple[int, ...]
    dims: tuple[int, ...]


def grid_axes(artifact: Artifact, shape: Shape) -> tuple[GridAxis, ...]:
    """Return the axes of a launch's grid, the last one fastest; their sizes multiply to the launch's groups."""
    rule, extents = artifact.launch, shape.extents
    axes: list[GridAxis] = []
    if rule.kind == "ranges":
        axes = [
            GridAxis(_name(length), math.ceil(_value(length, extents) / step), step) for length, step in rule.ranges
        ]
    elif rule.kind == "groups":
        rank = max((number for number, size in enumerate(shape.axes, 1) if size != 1), default=1)
        bounds = [_name(each[0]) if each else "xyz"[n] for n, each in enumerate(rule.axes)]
        if not bounds and rank == 1 and rule.extents:
            bounds = [_name(rule.extents[0])]
        names = [*bounds, *"xyz"[len(bounds) :]]
        steps = (*rule.group, 1, 1, 1)
        axes = [GridAxis(names[n], size, steps[n]) for n, size in enumerate(shape.axes[:rank])]
    elif rule.kind == "lanes":
        name = _name(rule.extents[0]) if rule.extents else "x"
        axes = [GridAxis(name, shape.groups, rule.lanes_per_group)]
    if math.prod(axis.size for axis in axes) != shape.groups:
        return (GridAxis("group", shape.groups, 1),)
    return tuple(axes) or (GridAxis("group", shape.groups, 1),)


def tiled_array(artifact: Artifact, axes: Sequence[GridAxis], extents: Mapping[str, int]) -> TiledArray | None:
    """Return the first written array that has a dimension of its own for every axis of the grid; None where none has.

    Dimensions are known by their extents' names, so a kernel that divides m and n is seen over `C[m, n]`.
    """
    for binding in artifact.bindings:
        kind = binding.type
        if not binding.mutable or not isinstance(kind, Array):
            continue
        names = [str(extent) for extent in kind.shape]
        dims = [names.index(axis.name) for axis in axes if axis.name in names]
        if len(axes) == len(dims) == len(set(dims)):
            shape = tuple(extent if isinstance(extent, int) else extents[extent] for extent in kind.shape)
            return TiledArray(binding.name, shape, tuple(dims))
    return None


def coordinates(group: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the place of a group along each axis of a grid, the last axis fastest."""
    place: list[int] = []
    for size in reversed(sizes):
        group, index = divmod(group, max(1, size))
        place.append(index)
    return tuple(reversed(place))


def raster_order(rows: int, columns: int, raster_group: int = 1, cluster: int = 1) -> Numbers:
    """Return the groups of a grid of rows and columns in the order in which a rasterized kernel does them.

    Bands of `raster_group` rows are done column after column (`GROUP_M` in Triton); see the emission in
    `lowering/cuda/tile_scheduler/rasterization.py`.  With clusters the last row may come twice.
    """
    padded = -(-rows // cluster) * cluster
    number = np.arange(padded * columns)
    strip = number // (columns * raster_group)
    first = strip * raster_group
    height = np.minimum(padded - first, raster_group)
    inside = number - strip * columns * raster_group
    column = inside // height
    row = np.minimum(first + inside - column * height, rows - 1)
    return row * columns + column


def _name(expression: Expression) -> str:
    return to_text(expression)


def _value(expression: Expression, extents: Mapping[str, int]) -> int:
    return int(evaluate(expression, extents.__getitem__))
