"""Count exactly what each device lacks when a value changes its placement."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement, ShardMap
from tessera.core.placement.splits import Pieces

Counts = NDArray[np.int64]


@lru_cache(maxsize=4096)
def common(a: Pieces, b: Pieces) -> Counts:
    """Return how many indices each piece of one cut has in common with each piece of another: [pieces, pieces].

    Where either's blocks end, owners may change; the pattern repeats after the least common multiple of both rounds.
    """
    period = math.lcm(a.block * a.pieces, b.block * b.pieces)
    rounds, rest = divmod(a.extent, period)
    table = _common(a, b, min(period, a.extent)) * max(rounds, 1) if rounds else np.zeros((a.pieces, b.pieces), int)
    return table + _common(a, b, rest) if rest else table


def _common(a: Pieces, b: Pieces, extent: int) -> Counts:
    ends = np.union1d(np.arange(0, extent, a.block), np.arange(0, extent, b.block))
    lengths = np.diff(ends, append=extent)
    table = np.zeros((a.pieces, b.pieces), np.int64)
    np.add.at(table, (ends // a.block % a.pieces, ends // b.block % b.pieces), lengths)
    return table


@lru_cache(maxsize=4096)
def positions(mesh: Mesh, axes: tuple[str, ...]) -> Counts:
    """Return each rank's place along several axes together."""
    return np.array([mesh.position(rank, axes) for rank in range(mesh.size())], np.int64)


def sizes(shards: ShardMap) -> Counts:
    """Return how many elements each rank holds."""
    found = np.ones(shards.mesh.size(), np.int64)
    for each, split in zip(shards.pieces, shards.placement.splits, strict=True):
        counts = np.array([each.count(piece) for piece in range(each.pieces)], np.int64)
        found *= counts[positions(shards.mesh, split.axes)]
    return found


def kept(before: ShardMap, after: ShardMap) -> Counts:
    """Return how many elements of its shard `after` each rank holds already."""
    mesh = before.mesh
    found = np.ones(mesh.size(), np.int64)
    splits = zip(before.placement.splits, after.placement.splits, strict=True)
    for a, b, (old, new) in zip(before.pieces, after.pieces, splits, strict=True):
        found *= common(a, b)[positions(mesh, old.axes), positions(mesh, new.axes)]
    return found


def covers(before: ShardMap, after: ShardMap, axes: tuple[str, ...]) -> bool:
    """Return whether each rank finds all of its shard `after` in its group along `axes`."""
    mesh = before.mesh
    splits = zip(before.placement.splits, after.placement.splits, strict=True)
    for a, b, (old, new) in zip(before.pieces, after.pieces, splits, strict=True):
        found = common(a, b).reshape(*(mesh.size(axis) for axis in old.axes), b.pieces)
        inside = tuple(number for number, axis in enumerate(old.axes) if axis in axes)
        found = found.sum(axis=inside)
        fixed = tuple(positions(mesh, (axis,)) for axis in old.axes if axis not in axes)
        place = positions(mesh, new.axes)
        counts = np.array([b.count(piece) for piece in range(b.pieces)], np.int64)
        if not (found[(*fixed, place)] == counts[place]).all():
            return False
    return True


def gathered_bytes(before: Placement, shape: tuple[int, ...], mesh: Mesh, itemsize: int) -> int:
    """Return what all devices receive where each gets the whole of a value, reduced first where it is partial."""
    total = math.prod(shape) * mesh.size()
    missing = total - int(sizes(ShardMap.of(shape, before, mesh)).sum())
    group = mesh.size(before.partial)
    return (missing + 2 * (group - 1) * (total // group)) * itemsize
