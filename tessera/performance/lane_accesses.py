"""Distances between what neighbouring lanes of a warp read and write, and how much memory the warp touches.

The indices of a kernel's accesses are evaluated for the lanes of the first warp, in the first trip of each loop.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tessera.core.program.dependences import MemoryAccess, accesses_of
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.types import Array
from tessera.core.work import Numbers, Shape
from tessera.performance.index_evaluation import Table, evaluate

WARP: Final = 32
_LANES: Final = 0
"""The number of the only dimension here: the lanes of a warp."""


@dataclass(frozen=True, slots=True, eq=False)
class LaneAccess:
    """An access of one element by each lane of a warp.

    distance: elements between what neighbouring lanes touch (median); 0: all lanes touch the same element
    segments: pieces of memory (cache lines, sectors) that the warp touches; least: if neighbours lay side by side
    trips: how often a lane does it
    """

    access: MemoryAccess
    distance: int
    segments: int
    least: int
    trips: int


def lane_accesses(program: Program, shape: Shape, segment_bytes: int) -> tuple[LaneAccess, ...]:
    """Return the accesses of elements whose place is known, in program order; empty for a kernel without lanes.

    segment_bytes: what memory moves at a time: 64 of a CPU's cache line, 32 of a GPU's sector
    """
    if not any(op.opcode == "id" and op.attributes["of"] in ("lane", "thread") for op in program.body.walk()):
        return ()
    return tuple(_Warp(program, shape, segment_bytes).found(program.body, 1))


@dataclass(slots=True)
class _Warp:
    """The first warp's integers."""

    program: Program
    shape: Shape
    segment_bytes: int
    numbers: dict[Value, Table] = field(default_factory=dict[Value, Table])

    def found(self, block: Block, trips: int) -> Iterator[LaneAccess]:
        """Walk a block that a lane runs `trips` times."""
        for op in block.ops:
            if op.opcode == "for":
                first = self.numbers.get(op.operands[0])
                if first is not None:
                    self.numbers[op.regions[0].arguments[0]] = first
                yield from self.found(op.regions[0], trips * self._length(op))
                continue
            self._learn(op)
            for access in accesses_of(op) if op.opcode in ("read", "write") else ():
                seen = self._seen(access, trips)
                if seen is not None:
                    yield seen
            for region in op.regions:
                yield from self.found(region, trips)

    def _learn(self, op: Op) -> None:
        """Note the integer that an operation gives, where it is known."""
        known: Numbers | None = None
        if op.opcode == "id":
            axis = op.attributes.get("axis")
            known = self._id(str(op.attributes["of"]), axis if isinstance(axis, int) else None)
        elif op.opcode == "dim":
            known = np.asarray(self.shape.extents[str(op.attributes["symbol"])])
        elif op.opcode == "const" and isinstance(op.attributes["value"], int):
            known = np.asarray(int(op.attributes["value"]))
        else:
            evaluate(op, self.numbers)
        if known is not None:
            self.numbers[op.result] = Table((_LANES,) if known.ndim else (), known)

    def _id(self, of: str, axis: int | None) -> Numbers | None:
        """Return an id in the lanes of the first warp of the first group."""
        group, lanes = self.program.group or (WARP,), np.arange(WARP)
        if of in ("group", "warp"):
            return np.asarray(0)
        if of == "lane_in_warp" or (of in ("lane", "thread") and axis is None):
            return lanes
        if of not in ("lane", "thread"):
            return None
        extents = (*group, 1, 1)
        return lanes // math.prod(group[(axis or 0) + 1 :]) % extents[axis or 0]

    def _length(self, loop: Op) -> int:
        """Return the trips of a loop in the first lane; 1 where that is not known."""
        bounds = [self.numbers.get(value) for value in loop.operands[:3]]
        if any(bound is None for bound in bounds):
            return 1
        lower, upper, step = (int(bound.values.flat[0]) for bound in bounds if bound is not None)
        return max(1, len(range(lower, upper, step))) if step else 1

    def _seen(self, access: MemoryAccess, trips: int) -> LaneAccess | None:
        kind = access.memory.type
        if not isinstance(kind, Array) or not kind.contiguous:
            return None
        place, below = np.zeros(WARP, np.int64), 1
        for start, extent in reversed(list(zip(access.starts, kind.shape, strict=True))):
            table = self.numbers.get(start)
            if table is None:
                return None
            place += np.broadcast_to(table.values, WARP) * below
            below *= extent if isinstance(extent, int) else self.shape.extents[extent]
        distance = int(np.median(np.abs(np.diff(place))))
        size = kind.dtype.bytes
        segments = len(np.unique(place * size // self.segment_bytes))
        least = -(-len(np.unique(place)) * size // self.segment_bytes)
        return LaneAccess(access, distance, segments, least, trips)
