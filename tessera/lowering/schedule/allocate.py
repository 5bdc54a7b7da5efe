"""Allocate an arena: give what passes between kernels offsets by first fit over lifetimes, in the order of the plan.

    before: kernel 0 writes a, kernel 1 reads a and writes b, kernel 2 reads b and writes c
    after:  a at 0, b at 4096, c at 0, where a was

A kernel that reads an element and writes the result at the same index does so in place, where nothing needs what it
reads any more.  Inputs and outputs are the caller's memory; results of routines are what these return.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from tessera.core.graph.graph import Routine, Value
from tessera.core.schedule.plan import CALL, MAPS, Buffer, Group, Plan

ALIGNMENT: Final = 256
"""Bytes: more than any load, tensor map or cache line asks for."""


@dataclass(slots=True)
class _FreeList:
    """The free blocks of an arena without end, in order.  starts, ends: of each block; the last one has no end."""

    starts: list[int] = field(default_factory=lambda: [0])
    ends: list[float] = field(default_factory=lambda: [math.inf])

    def allocate(self, size: int) -> int:
        """Return the place of the first block that is large enough, and take it from there."""
        blocks = enumerate(zip(self.starts, self.ends, strict=True))
        number = next(number for number, (start, end) in blocks if end - start >= size)
        offset = self.starts[number]
        self.starts[number] += size
        if self.starts[number] == self.ends[number]:
            del self.starts[number], self.ends[number]
        return offset

    def free(self, offset: int, size: int) -> None:
        """Give a block back, joined with the free ones beside it."""
        number = bisect_left(self.starts, offset)
        self.starts.insert(number, offset)
        self.ends.insert(number, offset + size)
        for block in (number, number - 1):
            if 0 <= block < len(self.starts) - 1 and self.ends[block] == self.starts[block + 1]:
                self.ends[block] = self.ends[block + 1]
                del self.starts[block + 1], self.ends[block + 1]


def allocate(plan: Plan) -> tuple[Buffer, ...]:
    """Return the places of all values that pass between the groups of a plan."""
    last = _last_uses(plan)
    kept = {*plan.graph.inputs, *map(plan.root, plan.graph.outputs)}
    found: list[Buffer] = []
    alive, overwritten = set[Value](), set[Value]()
    ending: defaultdict[int, list[Buffer]] = defaultdict(list)
    arena = _FreeList()
    for number, group in enumerate(plan.groups):
        for buffer in ending.pop(number - 1, ()):
            alive.discard(buffer.value)
            if buffer.value not in overwritten:
                arena.free(buffer.offset, buffer.bytes)
        dying = list(ending[number])
        for value in group.outputs if _has_buffers(group) else ():
            if value in kept or value in plan.aliases or not value.type.bytes:
                continue
            size = -(-value.type.bytes // ALIGNMENT) * ALIGNMENT
            ends = (number, last.get(value, number))
            given = group.in_place.get(value)
            if given is not None and plan.root(given) not in alive:
                continue  # it lies where an array of the caller does
            replaced = next((each for each in dying if _is_over(group, each.value, value, plan)), None)
            if replaced is None:
                made = Buffer(value, arena.allocate(size), size, ends)
            else:
                dying.remove(replaced)
                overwritten.add(replaced.value)
                made = Buffer(value, replaced.offset, size, ends, replaced.value)
            found.append(made)
            alive.add(value)
            ending[ends[1]].append(made)
    return tuple(found)


def _is_over(group: Group, read: Value, written: Value, plan: Plan) -> bool:
    """Return whether a result lies where the pass `in_place` put it, or may be written over what is read."""
    given = group.in_place.get(written)
    return overwrites(group, read, written, plan) if given is None else plan.root(given) is read


def overwrites(group: Group, read: Value, written: Value, plan: Plan) -> bool:
    """Return whether a kernel may write a result over what it reads: each element is read where it is written alone."""
    if group.kind != MAPS or len(group.outputs) > 1 or read.type != written.type:
        return False
    if [value for value in group.inputs if plan.root(value) is read] != [read]:
        return False
    reads = [node.op for node in group.members if read in node.operands]
    return set(reads) == {"map"} and group.loads.get(read) == group.stores[written]


def _has_buffers(group: Group) -> bool:
    """Return whether the outputs of a group may lie in the arena: what a routine returns has memory of its own."""
    return group.kind != CALL or not isinstance(group.members[0].body, Routine)


def _last_uses(plan: Plan) -> dict[Value, int]:
    """Return the last group that needs the memory of each value."""
    return {
        plan.root(value): number
        for number, group in enumerate(plan.groups)
        for value in (*group.inputs, *group.outputs)
    }
