"""Finds races, missing and divergent barriers, uninitialised reads and accesses out of bounds while a kernel runs.

For each element of each memory it keeps the last write, the last two reads by different lanes of the running group,
and the last read by an earlier group: who, and in which *event*.  Every executed access is one event, numbered in
order.  Two accesses are ordered when

* one lane made both, or the group (in statements that run once for the group) made both;
* a barrier, or a `group_sync` of a subgroup with both lanes, came between;
* the group made the first, and the second is a copy it started afterwards.  Until the next barrier a copy is
  ordered with nothing that follows it.

Accesses of different groups are never ordered, nor are those of different trips of a loop with `parallel=True`, but
for accesses of shared memory, of which each trip has its own.  Of the lanes that read an element since its last write
the sanitizer remembers two, so it can miss a race between a write and a third reader when only subgroups are
synchronised.
Two parameters that are the same array are watched as one; arrays that overlap only in part are watched apart.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.source import Span
from tessera.core.errors.base import TesseraError
from tessera.core.program.program import Op
from tessera.runtime.interpret import findings
from tessera.runtime.interpret.findings import COPY, GROUP, NO_AGENT, Access, LaunchFacts
from tessera.runtime.interpret.memory import Memory
from tessera.runtime.interpret.poison import CLEAN, Marks
from tessera.runtime.interpret.unwritten import LaunchNote, LeftOut, never_written

# Rows of a shadow: whose access is remembered.
WRITER: Final = 0
READER: Final = 1
OTHER: Final = 2
EARLIER: Final = 3

Agents = NDArray[np.int32]
Elements = NDArray[np.int64]
Events = NDArray[np.int32]


class Shadow:
    """The shadow memory of one memory: for each element, the rows WRITER to EARLIER."""

    def __init__(self, size: int) -> None:
        self.agent = np.full((4, size), NO_AGENT, np.int32)
        self.event = np.full((4, size), -1, np.int32)

    def remember(self, row: int, elements: Elements, agents: Agents, event: Events | int) -> None:
        """Put accesses into a row; of two to one element the last stays."""
        self.agent[row, elements] = agents
        self.event[row, elements] = event


class Trips:
    """The trips of the parallel loops that run now, the innermost last: which events belong to another trip."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._starts: list[list[int]] = []
        self._indices: list[list[int]] = []

    def enter(self, name: str) -> None:
        """Enter a loop whose index is `name`."""
        self._names.append(name)
        self._starts.append([])
        self._indices.append([])

    def begin(self, index: int, event: int) -> None:
        """Begin the next trip of the innermost loop; `event` is the first one that can be its own."""
        self._starts[-1].append(event)
        self._indices[-1].append(index)

    def leave(self) -> None:
        """Leave the innermost loop."""
        for rows in (self._names, self._starts, self._indices):
            rows.pop()

    def earlier(self, events: Events) -> NDArray[np.bool_]:
        """Return which events belong to an earlier trip of a loop that runs."""
        found = np.zeros(events.shape, np.bool_)
        for starts in self._starts:
            if starts:
                found |= (events >= starts[0]) & (events < starts[-1])
        return found

    def other_trip(self, event: int) -> tuple[str, int, int] | None:
        """Return the name of the loop that `event` was in an earlier trip of, the trip now and that one; or None."""
        for name, starts, indices in zip(self._names, self._starts, self._indices, strict=True):
            if starts and starts[0] <= event < starts[-1]:
                return name, indices[-1], indices[bisect_right(starts, event) - 1]
        return None


class Sanitizer:
    """Watches one launch; every method raises a `TesseraError` for what it finds.

    doubts: what is wrong with values that were read outside arrays, should an agent use one (see `poison.py`)
    """

    def __init__(self, launch: LaunchFacts) -> None:
        self.launch = launch
        self.ops: list[Op] = []
        self.group_starts: list[int] = []
        self.barrier_event = 0
        self.subgroups: dict[int, NDArray[np.int32]] = {}
        self.shared: dict[object, Shadow] = {}
        self.arrays: dict[object, Shadow] = {}
        self.doubts: list[Callable[[int], TesseraError]] = []
        self.trips = Trips()
        self.left_out = LeftOut()

    def notes(self, outputs: Sequence[Memory], span: Span) -> tuple[LaunchNote, ...]:
        """Return what a launch that has ended did not write; `outputs` are the arrays that it may."""
        shadows = {memory: self.arrays.get(_identity(memory)) for memory in outputs}
        written = {
            memory.name: (memory, None if shadow is None else shadow.event[WRITER] >= 0)
            for memory, shadow in shadows.items()
        }
        others = {name: each for name, each in written.items() if name not in self.left_out.arrays}
        return (*self.left_out.notes(), *never_written(others, span))

    # -- what orders accesses ----------------------------------------------------------------------------------

    def start_group(self) -> None:
        """Begin a new group, with shared memory of its own."""
        self.group_starts.append(len(self.ops))
        self.shared = {}
        self._barrier()

    def barrier(self, op: Op, active: NDArray[np.bool_], branch: Op | None) -> None:
        """Note a barrier of the lanes in `active`; `branch` is the innermost statement that parted the lanes."""
        if not active.all():
            raise findings.divergent(op, active, branch, "tbarrier()")
        self._barrier()

    def group_sync(self, op: Op, size: int, active: NDArray[np.bool_], branch: Op | None) -> None:
        """Note that the lanes in `active` synchronise within aligned subgroups of `size`."""
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

    def read(self, memory: Memory, elements: Elements, agents: Sequence[int] | Agents, op: Op) -> Marks:
        """Note that `agents[k]` (a lane, GROUP or COPY) reads element `elements[k]` (row-major, inside the memory).

        Return a mark for each: of elements of shared memory that nothing has written.
        """
        shadow, agents = self._enter(memory, agents, op)
        before, events = shadow.agent[:, elements], shadow.event[:, elements]
        self._check(memory, elements, agents, before[:1], events[:1], writes=False)
        self._remember_read(shadow, elements, agents, before[READER], events[READER])
        unwritten = events[WRITER] < 0
        if not memory.shared or not unwritten.any():
            return np.zeros(len(elements), np.int32)
        return np.where(unwritten, self._unwritten(memory, elements[unwritten], agents[unwritten], op), CLEAN)

    def write(self, memory: Memory, elements: Elements, agents: Sequence[int] | Agents, op: Op) -> None:
        """Note that `agents[k]` writes element `elements[k]`."""
        shadow, agents = self._enter(memory, agents, op)
        self._check(memory, elements, agents, shadow.agent[:, elements], shadow.event[:, elements], writes=True)
        shadow.remember(WRITER, elements, agents, len(self.ops) - 1)
        twice = shadow.agent[WRITER, elements] != agents
        if twice.any():
            first = int(np.argmax(twice))
            number = int(elements[first])
            now = self._now(int(agents[first]), writes=True)
            other = int(shadow.agent[WRITER, number])
            raise findings.same_statement(self.launch, memory, number, now, other)

    def written_outside(self, memory: Memory, index: Sequence[int], agent: int, op: Op) -> TesseraError:
        """Report that `agent` writes at an index outside `memory`."""
        self.ops.append(op)
        return findings.out_of_bounds(self.launch, memory, index, self._now(self._agent(agent), writes=True))

    def read_outside(self, memory: Memory, indices: Mapping[int, Sequence[int]], op: Op) -> int:
        """Note that each agent of `indices` reads outside `memory`; return the doubt's number."""
        self.ops.append(op)
        group = len(self.group_starts) - 1

        def finding(agent: int) -> TesseraError:
            who = agent if agent in indices else next(iter(indices))
            access = Access(op, False, self._agent(who), group)
            return findings.out_of_bounds(self.launch, memory, indices[who], access)

        return self.doubt(finding)

    def _unwritten(self, memory: Memory, elements: Elements, agents: Agents, op: Op) -> int:
        group = len(self.group_starts) - 1
        places = dict(zip(agents.tolist(), elements.tolist(), strict=True))

        def finding(agent: int) -> TesseraError:
            who = agent if agent in places else next(iter(places))
            return findings.uninitialised(self.launch, memory, places[who], Access(op, False, who, group))

        return self.doubt(finding)

    def doubt(self, finding: Callable[[int], TesseraError]) -> int:
        """Note what is wrong with a value that was read, and only where an agent uses it; return its number, from 1."""
        self.doubts.append(finding)
        return len(self.doubts)

    def _agent(self, agent: int) -> int:
        # The only lane is the group: everything it does is in order.
        return GROUP if self.launch.lanes == 1 and agent >= 0 else agent

    def _enter(self, memory: Memory, agents: Sequence[int] | Agents, op: Op) -> tuple[Shadow, Agents]:
        self.ops.append(op)
        who = np.asarray(agents, np.int32)
        if self.launch.lanes == 1:
            who = np.where(who >= 0, self._agent(0), who).astype(np.int32)
        return self._shadow(memory), who

    def _shadow(self, memory: Memory) -> Shadow:
        # Shared buffers last as long as their group.
        known: dict[object, Shadow] = self.shared if memory.shared else self.arrays
        key = memory if memory.shared else _identity(memory)
        if key not in known:
            known[key] = Shadow(memory.data.size)
        return known[key]

    def _check(
        self, memory: Memory, elements: Elements, agents: Agents, before: Agents, events: Events, *, writes: bool
    ) -> None:
        """Compare an access with those remembered in the first rows of the shadow: who (`before`), in which event."""
        clash = self._unordered(before, events, agents)
        if not memory.shared:
            clash |= self.trips.earlier(events)
        if clash.any():
            row, first = np.unravel_index(int(np.argmax(clash)), clash.shape)
            now = self._now(int(agents[first]), writes)
            then = self._then(int(events[row, first]), int(before[row, first]), bool(row == WRITER))
            trips = None if memory.shared else self.trips.other_trip(int(events[row, first]))
            if trips is not None and now.group == then.group:
                raise findings.meeting(memory, int(elements[first]), now, then, trips)
            raise findings.conflict(self.launch, memory, int(elements[first]), now, then)

    def _unordered(self, before: Agents, event: Events, agents: Agents) -> NDArray[np.bool_]:
        earlier_group = (event >= 0) & (event < self.group_starts[-1])
        recent = event >= self.barrier_event
        if not recent.any():
            return earlier_group
        unordered = (before == COPY) | ((before != agents) & ~((before == GROUP) & (agents == COPY)))
        for size, synchronised in self.subgroups.items():
            lanes = (before >= 0) & (agents >= 0) & (before // size == agents // size)
            unordered &= ~(lanes & (event < synchronised[np.where(lanes, before // size, 0)]))
        return earlier_group | (recent & unordered)

    def _remember_read(self, shadow: Shadow, elements: Elements, agents: Agents, last: Agents, since: Events) -> None:
        """Make `agents` the last readers; those they displace (`last`, in event `since`) move on."""
        event = len(self.ops) - 1
        known = since >= 0
        if known.any():
            earlier = known & ((since < self.group_starts[-1]) | self.trips.earlier(since))
            shadow.remember(EARLIER, elements[earlier], last[earlier], since[earlier])
            moved = known & ~earlier & (last != agents)
            shadow.remember(OTHER, elements[moved], last[moved], since[moved])
        shadow.remember(READER, elements, agents, event)
        both = shadow.agent[READER, elements] != agents
        if both.any():
            shadow.remember(OTHER, elements[both], agents[both], event)

    def _now(self, agent: int, writes: bool) -> Access:
        return Access(self.ops[-1], writes, agent, len(self.group_starts) - 1)

    def _then(self, event: int, agent: int, writes: bool) -> Access:
        return Access(self.ops[event], writes, agent, bisect_right(self.group_starts, event) - 1)


def _identity(memory: Memory) -> object:
    """Return a key that two parameters which are one array have in common."""
    data = memory.data
    return (data.ctypes.data, data.shape, data.strides, data.dtype)
