"""Find the cheapest sequence of collectives between two placements: a shortest path (Dijkstra) over placements.

States between the two cut each dimension as either of them does, or by a part of its axes.  A contribution along
several axes is reduced at once, never axis after axis: another tree has other bits.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.placement.link_costs import LINKS, TransferCosts
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement, ShardMap
from tessera.core.placement.reshard_plan import ReshardPlan, ReshardStep
from tessera.core.placement.splits import Split, even_share
from tessera.lowering.placement.moved_elements import covers, gathered_bytes, kept, sizes

Cost = tuple[float, float, int]
"""What is least first, then the other of time and bytes, then the number of steps."""
_NONE: Final = Split()


def plan_reshard(
    dtype: DType, shape: Sequence[int], before: Placement, after: Placement, mesh: Mesh, costs: TransferCosts = LINKS
) -> ReshardPlan:
    """Return the cheapest plan; it never moves more bytes than gathering everything and keeping a part would.

    Raises BadShardSpec, BadMesh.
    """
    return _planned(dtype, tuple(shape), before, after, mesh, costs)


@lru_cache(maxsize=512)
def _planned(
    dtype: DType, extents: tuple[int, ...], before: Placement, after: Placement, mesh: Mesh, costs: TransferCosts
) -> ReshardPlan:
    """Search once: loops launch with the same placements again and again."""
    search = _Search(dtype, extents, before.normal(extents, mesh), after.normal(extents, mesh), mesh, costs)
    plan = search.run(by_bytes=False)
    if plan.received > gathered_bytes(search.before, extents, mesh, dtype.bytes):
        plan = search.run(by_bytes=True)
    return plan


@dataclass(frozen=True)
class _Search:
    dtype: DType
    shape: tuple[int, ...]
    before: Placement
    after: Placement
    mesh: Mesh
    costs: TransferCosts

    def run(self, *, by_bytes: bool) -> ReshardPlan:
        """Search by time, or by bytes."""
        order = itertools.count()
        best: dict[Placement, Cost] = {self.before: (0.0, 0.0, 0)}
        via: dict[Placement, ReshardStep] = {}
        queue: list[tuple[Cost, int, Placement]] = [((0.0, 0.0, 0), next(order), self.before)]
        done: set[Placement] = set()
        while queue:
            cost, _, state = heapq.heappop(queue)
            if state == self.after:
                break
            if state in done:
                continue
            done.add(state)
            limit = best.get(self.after)
            for step in self._steps(state):
                first, second = (step.received, step.seconds) if by_bytes else (step.seconds, step.received)
                reached = (cost[0] + first, cost[1] + second, cost[2] + 1)
                known = best.get(step.after)
                if (known is not None and known <= reached) or (limit is not None and limit <= reached):
                    continue
                best[step.after], via[step.after] = reached, step
                heapq.heappush(queue, (reached, next(order), step.after))
        steps: list[ReshardStep] = []
        while (state := steps[-1].before if steps else self.after) != self.before:
            steps.append(via[state])
        return ReshardPlan(self.dtype, self.shape, self.mesh, self.before, self.after, tuple(reversed(steps)))

    @property
    def _left(self) -> tuple[str, ...]:
        """The axes along which there are contributions before and after."""
        same = self.before.op == self.after.op
        return tuple(axis for axis in self.before.partial if same and axis in self.after.partial)

    def _steps(self, state: Placement) -> Iterator[ReshardStep]:
        """Give every step from a state."""
        reduced = replace(state, partial=self._left, op=self.before.op if self._left else "sum")
        if state.partial == self.before.partial and reduced != state:
            yield self._all_reduce(state, reduced)
            for splits in self._neighbours(state.splits, reduced.partial):
                step = self._reduce_scatter(state, replace(reduced, splits=splits))
                if step is not None:
                    yield step
        for splits in self._neighbours(state.splits, state.partial):
            yield self._move(state, replace(state, splits=splits))
        if state.splits == self.after.splits and state.partial == self._left and state != self.after:
            added = tuple(axis for axis in self.after.partial if axis not in self._left)
            yield ReshardStep("mask", added, state, self.after)

    def _neighbours(self, splits: tuple[Split, ...], partial: Iterable[str]) -> Iterator[tuple[Split, ...]]:
        """Give cuts that differ in one dimension or in two, and those of the end."""
        taken = set(partial)
        found: dict[tuple[Split, ...], None] = {}
        for number, choices in enumerate(self._choices):
            for choice in choices:
                one = (*splits[:number], choice, *splits[number + 1 :])
                found[one] = None
                for other, more in enumerate(self._choices):
                    if other != number and set(splits[other].axes) & set(choice.axes):
                        for each in more:
                            found[(*one[:other], each, *one[other + 1 :])] = None
        found[self.after.splits] = None
        for each in found:
            axes = [axis for split in each for axis in split.axes]
            if each != splits and len(set(axes)) == len(axes) and not taken & set(axes):
                yield each

    @property
    def _choices(self) -> tuple[tuple[Split, ...], ...]:
        """For each dimension, the ways to cut it that are tried."""
        found: list[tuple[Split, ...]] = []
        for extent, old, new in zip(self.shape, self.before.splits, self.after.splits, strict=True):
            choices = dict.fromkeys((_NONE, *self._parts(extent, new), *self._parts(extent, old)))
            found.append(tuple(choices))
        return tuple(found)

    def _parts(self, extent: int, split: Split) -> Iterator[Split]:
        """Give a split by each run of its axes: without the last ones blocks grow, without the first ones they stay."""
        block = split.block or even_share(extent, self.mesh.size(split.axes))
        for end in range(len(split.axes), 0, -1):
            dropped = self.mesh.size(split.axes[end:])
            for begin in range(end):
                axes = split.axes[begin:end]
                even = even_share(extent, self.mesh.size(axes))
                yield Split(axes, 0 if block * dropped == even else block * dropped)

    def _map(self, placement: Placement) -> ShardMap:
        return ShardMap(self.shape, placement, self.mesh)

    def _move(self, before: Placement, after: Placement) -> ReshardStep:
        """Return the step that moves elements, and reduces nothing."""
        old, new = self._map(before), self._map(after)
        shared, wanted = kept(old, new), sizes(new)
        missing = wanted - shared
        if not missing.any():
            return ReshardStep("slice", (), before, after)
        kind = "all_gather" if (shared == sizes(old)).all() else "all_to_all"
        return self._step(kind, self._group(old, new), before, after, int(missing.sum()), int(missing.max()))

    def _group(self, old: ShardMap, new: ShardMap) -> tuple[str, ...]:
        """Return the fewest axes along which each rank finds what it lacks."""
        pairs = zip(old.placement.splits, new.placement.splits, strict=True)
        axes = [axis for a, b in pairs if a != b for axis in a.axes]
        for axis in tuple(axes):
            fewer = tuple(each for each in axes if each != axis)
            if covers(old, new, fewer):
                axes.remove(axis)
        return tuple(axis for axis in self.mesh.axes if axis in axes)

    def _all_reduce(self, before: Placement, after: Placement) -> ReshardStep:
        axes = tuple(axis for axis in before.partial if axis not in after.partial)
        group = self.mesh.size(axes)
        held = sizes(self._map(before))
        received = 2 * (group - 1) * int(held.sum()) // group
        largest = int(held.max())
        part = -(-largest // group)
        return self._step("all_reduce", axes, before, after, received, (group - 1) * part + largest - part)

    def _reduce_scatter(self, before: Placement, after: Placement) -> ReshardStep | None:
        """Return the step where the axes that are reduced cut the result; None where it is none."""
        axes = tuple(axis for axis in before.partial if axis not in after.partial)
        old, new = self._map(before), self._map(after)
        wanted = sizes(new)
        if not set(axes) <= set(after.axes) or (kept(old, new) != wanted).any():
            return None
        others = self.mesh.size(axes) - 1
        return self._step("reduce_scatter", axes, before, after, others * int(wanted.sum()), others * int(wanted.max()))

    def _step(
        self, kind: str, axes: tuple[str, ...], before: Placement, after: Placement, received: int, most: int
    ) -> ReshardStep:
        size = self.dtype.bytes
        seconds = self.costs.seconds(kind, self.mesh, axes, most * size)
        return ReshardStep(kind, axes, before, after, received * size, most * size, seconds)
