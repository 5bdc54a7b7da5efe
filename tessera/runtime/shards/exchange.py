"""Carry out reshard plans on NumPy shards, one a device: the reference that engines are compared with.

Every byte that a device gets from another one is counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessera.core.placement.placement import Placement, ShardMap
from tessera.core.placement.reshard_plan import ReshardPlan, ReshardStep
from tessera.runtime.shards.fold_leaves import Values, fold_leaves, identity

Shard = Values
Selection = tuple[slice | NDArray[np.int64], ...]


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Shards after a plan, and the bytes that all devices received in each of its steps."""

    shards: tuple[Shard, ...]
    received: tuple[int, ...]


def shard(whole: Shard, shards: ShardMap) -> tuple[Shard, ...]:
    """Return copies of what each device holds of an array; along partial axes, the first holds it alone."""
    placement = shards.placement
    parts: list[Shard] = []
    for rank in range(shards.mesh.size()):
        part = np.asarray(whole[open_index(shards, rank)])
        first = shards.mesh.position(rank, placement.partial) == 0
        parts.append(part.copy() if first else np.full_like(part, identity(placement.op, whole.dtype)))
    return tuple(parts)


def assemble(parts: Sequence[Shard], shards: ShardMap) -> Shard:
    """Return the array whose shards these are: replicas are taken from the first device, contributions folded."""
    whole = np.empty(shards.shape, parts[0].dtype)
    for _, holders in shards.shards():
        first, axes = holders[0], shards.placement.partial
        group = shards.mesh.group(first, axes)
        value = fold_leaves([parts[rank] for rank in group], shards.placement.op) if axes else parts[first]
        whole[open_index(shards, first)] = value
    return whole


def exchange(plan: ReshardPlan, parts: Sequence[Shard]) -> Exchanged:
    """Run a plan on the shards of all devices, by rank."""
    received: list[int] = []
    held = tuple(parts)
    for step in plan.steps:
        run = _Step(step, _map(plan, step.before), _map(plan, step.after), held)
        held = run.reduced() if step.kind in ("all_reduce", "reduce_scatter") else run.moved()
        received.append(run.received)
    return Exchanged(held, tuple(received))


def _map(plan: ReshardPlan, placement: Placement) -> ShardMap:
    return ShardMap.of(plan.shape, placement, plan.mesh)


class _Step:
    """One step: received: the bytes that devices got from others so far."""

    def __init__(self, step: ReshardStep, before: ShardMap, after: ShardMap, held: tuple[Shard, ...]) -> None:
        self.step, self.before, self.after, self.held = step, before, after, held
        self.mesh = before.mesh
        self.received = 0

    def moved(self) -> tuple[Shard, ...]:
        """Give each device its shard afterwards, from its own and those of its group."""
        if self.step.kind == "mask":
            return tuple(self._masked(rank) for rank in range(self.mesh.size()))
        return tuple(self._gathered(rank) for rank in range(self.mesh.size()))

    def _masked(self, rank: int) -> Shard:
        mine = self.held[rank]
        first = self.mesh.position(rank, self.step.axes) == 0
        return mine.copy() if first else np.full_like(mine, identity(self.after.placement.op, mine.dtype))

    def _gathered(self, rank: int) -> Shard:
        out = np.empty(self.after.local_shape(rank), self.held[rank].dtype)
        lacking = np.ones(out.shape, np.bool_)
        group = self.mesh.group(rank, self.step.axes)
        own = group.index(rank)
        for source in (*group[own:], *group[:own]):  # replicas share the work
            there, here = _common(self.before, source, self.after, rank)
            wanted = lacking[here]
            if not wanted.any():
                continue
            out[here] = np.where(wanted, self.held[source][there], out[here])
            lacking[here] = False
            if source != rank:
                self.received += int(wanted.sum()) * out.itemsize
        if lacking.any():
            raise AssertionError(f"{self.step.kind}: rank {rank} lacks elements that its group does not hold")
        return out

    def reduced(self) -> tuple[Shard, ...]:
        """Fold the contributions of each group in the order of its devices."""
        out: list[Shard] = []
        for rank in range(self.mesh.size()):
            there, _ = _common(self.before, rank, self.after, rank)
            group = self.mesh.group(rank, self.step.axes)
            folded = fold_leaves([self.held[source][there] for source in group], self.before.placement.op)
            out.append(folded.reshape(self.after.local_shape(rank)) if folded.size else self._empty(rank, folded))
            self.received += self._bytes_of_fold(folded, len(group), group.index(rank))
        return tuple(out)

    def _empty(self, rank: int, like: Shard) -> Shard:
        """Return a shard without elements, whose other extents may be larger than before."""
        return np.empty(self.after.local_shape(rank), like.dtype)

    def _bytes_of_fold(self, folded: Shard, group: int, place: int) -> int:
        """Return what a device gets: contributions to its part of the result, and the other parts if it wants all."""
        if self.step.kind == "reduce_scatter":
            return (group - 1) * folded.nbytes
        part = folded.size // group + (place < folded.size % group)
        return ((group - 1) * part + folded.size - part) * folded.itemsize


def _common(before: ShardMap, source: int, after: ShardMap, rank: int) -> tuple[Selection, Selection]:
    """Return the elements that a shard before and one after have in common, as indices of each."""
    there: list[NDArray[np.int64]] = []
    here: list[NDArray[np.int64]] = []
    for extent, old, new in zip(before.shape, before.indices(source), after.indices(rank), strict=True):
        whole = np.arange(extent, dtype=np.int64)
        _, mine, its = np.intersect1d(whole[old], whole[new], assume_unique=True, return_indices=True)
        there.append(mine)
        here.append(its)
    return np.ix_(*there), np.ix_(*here)


def open_index(shards: ShardMap, rank: int) -> Selection:
    """Return the index of a rank's shard in the whole: slices where each dimension has one, else lists of indices."""
    indices = shards.indices(rank)
    if all(isinstance(each, slice) for each in indices):
        return indices
    pairs = zip(shards.shape, indices, strict=True)
    return np.ix_(*(np.arange(extent)[each] for extent, each in pairs))
