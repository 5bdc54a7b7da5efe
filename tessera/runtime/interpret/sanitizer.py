"""Finds races, missing and divergent barriers, uninitialised reads and accesses out of bounds while a kernel runs.

For each element of each memory it keeps the last write, the last two reads by different lanes of the running group,
and the last read by an earlier group: who, and in which *event*.  Every executed access is one event, numbered in
order.  Two accesses are ordered when

* one lane made both, or the group (in statements that run once for the group) made both;
* a barrier, or a `group_sync` of a subgroup with both lanes, came between;
* the group made the first, and the second is a copy it started afterwards.  Until the next barrier a copy is
  ordered with nothing that follows it.

Accesses of different groups are never ordered.  Of the lanes that read an element since its last write the sanitizer
remembers two, so it can miss a race between a write and a third reader when only subgroups are synchronised.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.program.program import Op
from tessera.runtime.interpret import findings
from tessera.runtime.interpret.findings import COPY, GROUP, NOBODY, Access, Launch
from tessera.runtime.interpret.memory import Memory

# Rows of a shadow: whose access is remembered.
WRITER: Final = 0
READER: Final = 1
OTHER: Final = 2
EARLIER: Final = 3

Agents = NDArray[np.int32]
Elements = NDArray[np.int64]


class Shadow:
    """What is remembered of each element of one memory; rows WRITER to EARLIER."""

    def __init__(self, size: int) -> None:
        self.agent = np.full((4, size), NOBODY, np.int32)
        self.event = np.full((4, size), -1, np.int32)


class Sanitizer:
    """Watches one launch; every method raises a `TesseraError` for what it finds."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.ops: list[Op] = []
        self.group_starts: list[int] = []
        self.barrier_event = 0
        self.subgroups: dict[int, NDArray[np.int32]] = {}
        self.shared: dict[object, Shadow] = {}
        self.arrays: dict[object, Shadow] = {}

    # -- what orders accesses ----------------------------------------------------------------------------------

    def start_group(self) -> None:
        """A new group begins, with shared memory of its own."""
        self.group_starts.append(len(self.ops))
        self.shared = {}
        self._barrier()

    def barrier(self, op: Op, active: NDArray[np.bool_], branch: Op | None) -> None:
        """The lanes in `active` execute a barrier; `branch` is the innermost statement that parted the lanes."""
        if not active.all():
            raise findings.divergent(op, active, branch, "tbarrier()")
        self._barrier()

    def group_sync(self, op: Op, size: int, active: NDArray[np.bool_], branch: Op | None) -> None:
        """The lanes in `active` synchronise within aligned subgroups of `size`."""
        number = np.arange(len(active)) // size
        reached = np.bincount(number, active)
        if np.any((reached != 0) & (reached != np.bincount(number))):
            raise findings.divergent(op, active, branch, "sync()")
        events = self.subgroups.setdefault(size, np.zeros(len(reached), np.int32))
        events[reached != 0] = len(self.ops)

    def _barrier(self) -> None:
        self.barrier_event = len(self.ops)
        self.subgroups = {}

    # -- accesses ----------------------------------------------------------------------------------------------

    def read(self, memory: Memory, elements: Elements, agents: Sequence[int] | Agents, op: Op) -> None:
        """`agents[k]` (a lane, GROUP or COPY) reads element `elements[k]` (row-major, inside the memory)."""
        shadow, agents = self._enter(memory, agents, op)
        self._check(memory, shadow, (WRITER,), elements, agents, writes=False)
        if memory.shared:
            unwritten = shadow.event[WRITER, elements] < 0
            if unwritten.any():
                first = int(np.argmax(unwritten))
                now = self._now(int(agents[first]), writes=False)
                raise findings.uninitialised(self.launch, memory, int(elements[first]), now)
        self._remember_read(shadow, elements, agents)

    def write(self, memory: Memory, elements: Elements, agents: Sequence[int] | Agents, op: Op) -> None:
        """`agents[k]` writes element `elements[k]`."""
        shadow, agents = self._enter(memory, agents, op)
        self._check(memory, shadow, (WRITER, READER, OTHER, EARLIER), elements, agents, writes=True)
        shadow.agent[WRITER, elements] = agents
        shadow.event[WRITER, elements] = len(self.ops) - 1
        twice = shadow.agent[WRITER, elements] != agents
        if twice.any():
            first = int(np.argmax(twice))
            number = int(elements[first])
            now = self._now(int(agents[first]), writes=True)
            other = int(shadow.agent[WRITER, number])
            raise findings.same_statement(self.launch, memory, number, now, other)

    def outside(self, memory: Memory, index: Sequence[int], agent: int, op: Op, *, writes: bool) -> None:
        """`agent` uses an index that is outside `memory`."""
        self.ops.append(op)
        agent = GROUP if self.launch.lanes == 1 else agent
        raise findings.out_of_bounds(self.launch, memory, index, self._now(agent, writes))

    def _enter(self, memory: Memory, agents: Sequence[int] | Agents, op: Op) -> tuple[Shadow, Agents]:
        self.ops.append(op)
        who = np.asarray(agents, np.int32)
        if self.launch.lanes == 1:
            # The only lane is the group: everything it does is in order.
            who = np.where(who >= 0, GROUP, who).astype(np.int32)
        return self._shadow(memory), who

    def _shadow(self, memory: Memory) -> Shadow:
        # Two parameters that are the same array share what is remembered; shared buffers last as long as their group.
        data: NDArray[Any] = memory.data
        known: dict[object, Shadow] = self.shared if memory.shared else self.arrays
        key = memory if memory.shared else (data.ctypes.data, data.shape, data.strides, data.dtype)
        if key not in known:
            known[key] = Shadow(data.size)
        return known[key]

    def _check(
        self, memory: Memory, shadow: Shadow, rows: Sequence[int], elements: Elements, agents: Agents, *, writes: bool
    ) -> None:
        for row in rows:
            before, event = shadow.agent[row, elements], shadow.event[row, elements]
            clash = self._unordered(before, event, agents)
            if clash.any():
                first = int(np.argmax(clash))
                now = self._now(int(agents[first]), writes)
                then = self._then(int(event[first]), int(before[first]), row == WRITER)
                raise findings.conflict(self.launch, memory, int(elements[first]), now, then)

    def _unordered(self, before: Agents, event: NDArray[np.int32], agents: Agents) -> NDArray[np.bool_]:
        earlier_group = (event >= 0) & (event < self.group_starts[-1])
        recent = event >= self.barrier_event
        if not recent.any():
            return earlier_group
        apart = (before == COPY) | ((before != agents) & ~((before == GROUP) & (agents == COPY)))
        for size, synchronised in self.subgroups.items():
            lanes = (before >= 0) & (agents >= 0) & (before // size == agents // size)
            apart &= ~(lanes & (event < synchronised[np.where(lanes, before // size, 0)]))
        return earlier_group | (recent & apart)

    def _remember_read(self, shadow: Shadow, elements: Elements, agents: Agents) -> None:
        event = len(self.ops) - 1
        last, since = shadow.agent[READER, elements], shadow.event[READER, elements]
        other_group = (since >= 0) & (since < self.group_starts[-1])
        self._move(shadow, EARLIER, elements[other_group], last[other_group], since[other_group])
        moved = (since >= 0) & ~other_group & (last != agents)
        self._move(shadow, OTHER, elements[moved], last[moved], since[moved])
        shadow.agent[READER, elements] = agents
        shadow.event[READER, elements] = event
        shared = shadow.agent[READER, elements] != agents
        self._move(shadow, OTHER, elements[shared], agents[shared], np.full(int(shared.sum()), event, np.int32))

    @staticmethod
    def _move(shadow: Shadow, row: int, elements: Elements, agents: Agents, events: NDArray[np.int32]) -> None:
        shadow.agent[row, elements] = agents
        shadow.event[row, elements] = events

    def _now(self, agent: int, writes: bool) -> Access:
        return Access(self.ops[-1], writes, agent, len(self.group_starts) - 1)

    def _then(self, event: int, agent: int, writes: bool) -> Access:
        return Access(self.ops[event], writes, agent, bisect_right(self.group_starts, event) - 1)
