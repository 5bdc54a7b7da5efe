"""Predicted timelines: when each group of a launch should run where, by the cost model and list scheduling.

The time of one group is its share of what bounds the launch (`cost_model`); groups are dealt to the slots of the
machine's units as the hardware deals blocks: each slot takes the next group when it is free.  Persistent kernels deal
statically: block b does the numbers b, b + blocks, ...
"""

import heapq
import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.core.work import Numbers, Work
from tessera.performance.cost_model import overlapping
from tessera.performance.device_model import Machine

_NS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave: the groups that slots take as their `number`th, of `slots` that could.  Times in ns."""

    number: int
    start: float
    end: float
    groups: int
    slots: int


@dataclass(frozen=True, slots=True)
class PredictedTiles:
    """Columns, one entry a launched group, in the order in which they are begun.

    group: the index; unit, lane: where it should run; start, end: ns since the first one; wave: its turn on its slot
    slots: groups that run at a time at most, on all units; idle: the share of the slots' time that is empty
    """

    group: Numbers
    unit: Numbers
    lane: Numbers
    start: Numbers
    end: Numbers
    wave: Numbers
    slots: int
    per_unit: int

    @property
    def span(self) -> float:
        """ns until the last group ends."""
        return float(self.end.max(initial=0.0))

    @property
    def idle(self) -> float:
        """The share of all slots' time in which they have nothing to do: the tail, and units without groups."""
        total = self.span * self.slots
        return max(0.0, 1.0 - float((self.end - self.start).sum()) / total) if total else 0.0

    @property
    def waves(self) -> tuple[Wave, ...]:
        """The waves, which hold every group once."""
        if not len(self.wave):
            return ()
        count = int(self.wave.max()) + 1
        groups = np.bincount(self.wave, minlength=count)
        starts, ends = np.full(count, np.inf), np.zeros(count)
        np.minimum.at(starts, self.wave, self.start)
        np.maximum.at(ends, self.wave, self.end)
        return tuple(
            Wave(number, float(starts[number]), float(ends[number]), int(groups[number]), self.slots)
            for number in range(count)
        )


def tile_seconds(work: Work, machine: Machine, per_unit: int, lanes: int = 0) -> Numbers:
    """Return the seconds that each group should take while `per_unit` of them share a unit.

    Their sum over all slots is what `cost_model.predict` says, without the launch and the last wave's rounding.
    lanes: lanes of a group on a GPU, 0 where the compiler chooses
    """
    groups = work.groups
    if not groups:
        return np.zeros(0)
    beside = max(1, min(per_unit, math.ceil(groups / machine.units)))
    asked = work.read + work.written
    flops = np.asarray(work.flops, float)
    compute = _share(flops, sum(amount / machine.rate(kind) for kind, amount in work.by_kind.items()))
    cache = _share(asked, work.requested_bytes / machine.cache_bandwidth)
    memory = _share(asked, work.least_bytes / machine.bandwidth)
    bound = max((memory, cache, compute), key=lambda part: float(part.sum()))
    overlap = overlapping(work, machine, lanes) if machine.on_gpu else beside
    steps = (work.steps / groups + 1.0) * machine.step * beside / overlap
    return bound * machine.units * beside + steps


def _share(weights: Numbers, seconds: float) -> Numbers:
    """Deal `seconds` over groups by their weights, evenly where nothing weighs."""
    total = float(weights.sum())
    return weights / total * seconds if total else np.full(len(weights), seconds / len(weights))


def predict_tiles(
    work: Work, machine: Machine, *, per_unit: int = 1, chunk: int = 1, order: Numbers | None = None,
    persistent: bool = False, lanes: int = 0,
) -> PredictedTiles:  # fmt: skip
    """Deal the groups of a launch to the slots of a machine.

    per_unit: groups that one unit holds at a time; chunk: groups that a slot takes at once (threads of a CPU)
    order: groups in the order in which they begin, None: by their number; persistent: dealt in turns beforehand
    """
    numbers = np.arange(work.groups) if order is None else order
    slots = machine.units * per_unit
    seconds = tile_seconds(work, machine, per_unit, lanes)[numbers] * _NS
    chunks = [seconds[first : first + chunk] for first in range(0, len(seconds), chunk)]
    lengths = np.array([float(part.sum()) for part in chunks]) if chunk > 1 else seconds
    slot, begin, turn = _in_turns(lengths, slots) if persistent else _first_free(lengths, slots)
    member = np.arange(len(numbers)) // chunk
    before = np.cumsum(seconds) - seconds
    offset = before - before[member * chunk] if len(numbers) else before
    start = begin[member] + offset
    # Neighbouring blocks go to different units: slot s is lane s // units of unit s % units.
    place = slot[member]
    wave = turn[member] * chunk + np.arange(len(numbers)) - member * chunk
    return PredictedTiles(
        numbers, (place % machine.units).astype(np.int32), (place // machine.units).astype(np.int32), start,
        start + seconds, wave, slots, per_unit,
    )  # fmt: skip


def _in_turns(lengths: Numbers, slots: int) -> tuple[Numbers, Numbers, Numbers]:
    number = np.arange(len(lengths))
    slot, turn = number % slots, number // slots
    begin = np.zeros(len(lengths))
    for each in range(min(slots, len(lengths))):
        mine = lengths[each::slots]
        begin[each::slots] = np.cumsum(mine) - mine
    return slot, begin, turn


def _first_free(lengths: Numbers, slots: int) -> tuple[Numbers, Numbers, Numbers]:
    """Deal each chunk to the slot that is free first, the lowest of several."""
    free = [(0.0, slot) for slot in range(slots)]
    turns = [0] * slots
    slot, begin, turn = np.zeros(len(lengths), int), np.zeros(len(lengths)), np.zeros(len(lengths), int)
    for number, length in enumerate(lengths.tolist()):
        at, chosen = free[0]
        heapq.heapreplace(free, (at + length, chosen))
        slot[number], begin[number], turn[number] = chosen, at, turns[chosen]
        turns[chosen] += 1
    return slot, begin, turn
