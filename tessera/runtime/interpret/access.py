"""Reads and writes of memory, with masked edges: outside an array a read gives 0 and a write does nothing."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessera.core.program.program import Op
from tessera.runtime.interpret import memory as mem
from tessera.runtime.interpret.findings import COPY
from tessera.runtime.interpret.memory import Choice, Memory
from tessera.runtime.interpret.rounding import Numbers
from tessera.runtime.interpret.state import Mask, State, lane_dependent


def read(state: State, op: Op, operands: list[Any]) -> list[Any]:
    """One element for the group, or one a lane."""
    memory, *indices = operands
    if not state.is_varying(op):
        place = _group_place(state, op, memory, indices, writes=False)
        return [memory.data.dtype.type(0) if place is None else memory.data[place]]
    first = memory.buffers[0] if isinstance(memory, Choice) else memory
    result = np.zeros(state.mask.shape, first.data.dtype)
    for buffer, mask in state.parts(memory):
        lanes, place = _lane_places(state, op, buffer, mask, indices, writes=False)
        result[lanes] = buffer.data[place]
    return [result]


def write(state: State, op: Op, operands: list[Any]) -> list[Any]:
    """One element by the group, or one by each lane; of lanes that write the same element the last one wins."""
    memory, value, *indices = operands
    if not state.is_varying(op):
        place = _group_place(state, op, memory, indices, writes=True)
        if place is not None:
            memory.data[place] = value
        return []
    values = state.per_lane(value)
    for buffer, mask in state.parts(memory):
        lanes, place = _lane_places(state, op, buffer, mask, indices, writes=True)
        buffer.data[place] = values[lanes]
    return []


def load(state: State, op: Op, operands: list[Any]) -> list[Any]:
    """A tile of memory."""
    memory, *starts = operands
    if state.is_varying(op):
        raise lane_dependent(op.result, op.span)
    box = _group_box(state, op, memory, starts, writes=False)
    extents: Any = op.attributes["extents"]
    dropped: Any = op.attributes["dropped"]
    return [mem.load(memory.data, box).reshape([e for axis, e in enumerate(extents) if axis not in dropped])]


def store(state: State, op: Op, operands: list[Any]) -> list[Any]:
    """A tile into memory."""
    memory, tile, *starts = operands
    if state.is_varying(op):
        raise lane_dependent(op.operands[1], op.span)
    box = _group_box(state, op, memory, starts, writes=True)
    mem.store(memory.data, box, tile)
    return []


def copy(state: State, op: Op, operands: list[Any]) -> list[Any]:
    """Start an asynchronous copy: what it reads now lands in the buffer at the next barrier."""
    buffer, array, *starts = operands
    if state.is_varying(op):
        raise lane_dependent(op.operands[0], op.span)
    extents: Any = op.attributes["extents"]
    box = mem.clip(array.data.shape, [int(start) for start in starts], extents)
    state.launch.traffic.count(array, box.elements, written=False)
    if state.sanitizer is not None:
        source = mem.flat_box(array.data.shape, box)
        target = np.arange(int(buffer.data.size), dtype=np.int64)
        state.sanitizer.read(array, source, np.full(len(source), COPY), op)
        state.sanitizer.write(buffer, target, np.full(len(target), COPY), op)
    state.copies.append((buffer, mem.load(array.data, box).reshape(buffer.data.shape)))
    return []


def _group_place(
    state: State, op: Op, memory: Memory, indices: Sequence[Numbers], *, writes: bool
) -> tuple[int, ...] | None:
    """Return the element a uniform statement uses, or None when it is outside."""
    place = tuple(int(index) for index in indices)
    if not all(0 <= index < size for index, size in zip(place, memory.data.shape, strict=True)):
        if state.sanitizer is not None:
            state.sanitizer.outside(memory, place, state.agents()[0], op, writes=writes)
        return None
    state.launch.traffic.count(memory, 1, written=writes)
    if state.sanitizer is not None:
        agents = state.agents()
        elements = np.repeat(mem.flat(memory.data.shape, [np.asarray(index) for index in place]), len(agents))
        watch = state.sanitizer.write if writes else state.sanitizer.read
        watch(memory, elements, agents, op)
    return place


def _lane_places(
    state: State, op: Op, memory: Memory, mask: Mask, indices: Sequence[Numbers], *, writes: bool
) -> tuple[Any, tuple[Numbers, ...]]:
    """Return the lanes (positions in the window) whose element is inside, and the elements, axis by axis."""
    shape = memory.data.shape
    everywhere = [state.per_lane(index) for index in indices]
    touched = mask & mem.inside(shape, everywhere)
    if state.sanitizer is not None and np.any(touched != mask):
        first = int(np.argmax(touched != mask))
        place = [int(index[first]) for index in everywhere]
        state.sanitizer.outside(memory, place, int(state.lanes[first]), op, writes=writes)
    lanes = touched.nonzero()[0]
    places = tuple(index[lanes] for index in everywhere)
    state.launch.traffic.count(memory, len(lanes), written=writes)
    if state.sanitizer is not None:
        watch = state.sanitizer.write if writes else state.sanitizer.read
        watch(memory, mem.flat(shape, places), state.lanes[lanes].astype(np.int32), op)
    return lanes, places


def _group_box(state: State, op: Op, memory: Memory, starts: Sequence[Numbers], *, writes: bool) -> mem.Box:
    """Return the part of a tile's window that is inside the memory."""
    extents: Any = op.attributes["extents"]
    corner = [int(start) for start in starts]
    box = mem.clip(memory.data.shape, corner, extents)
    state.launch.traffic.count(memory, box.elements, written=writes)
    if state.sanitizer is None:
        return box
    agents = state.agents()
    if memory.shared and not box.whole:
        place = mem.first_outside(memory.data.shape, corner, extents)
        state.sanitizer.outside(memory, place, agents[0], op, writes=writes)
    elements = np.repeat(mem.flat_box(memory.data.shape, box), len(agents))
    watch = state.sanitizer.write if writes else state.sanitizer.read
    watch(memory, elements, np.resize(np.asarray(agents, np.int32), len(elements)), op)
    return box
