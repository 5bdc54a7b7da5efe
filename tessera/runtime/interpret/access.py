"""Reads and writes of memory, with masked edges: outside an array a read gives 0 and a write does nothing.

Elements of a tile that are loaded from outside do not exist (see `absence.py`), and stores leave out what does not.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tessera.core.program.program import Op
from tessera.core.program.types import Tile
from tessera.runtime.interpret import memory as mem
from tessera.runtime.interpret.absence import Partial, Presence, partial, presence_of, values_of, window
from tessera.runtime.interpret.findings import COPY
from tessera.runtime.interpret.memory import Choice, Memory
from tessera.runtime.interpret.operands import Operand, integers
from tessera.runtime.interpret.poison import CLEAN, Marks, marked
from tessera.runtime.interpret.rounding import Numbers
from tessera.runtime.interpret.state import Mask, State, lane_dependent

Lanes = NDArray[np.intp]
"""Positions in the window."""


def read(state: State, op: Op, operands: list[Operand]) -> list[Operand]:
    """Read one element for the group, or one a lane."""
    memory, *indices = operands
    if not state.is_varying(op):
        place = _group_place(memory, indices)
        if place is None:
            return [marked(memory.data.dtype.type(0), _doubt(state, op, memory, state.mask, indices))]
        state.launch.traffic.count(memory, 1, written=False)
        return [marked(memory.data[place], _watch_group(state, op, memory, place, writes=False))]
    first = memory.buffers[0] if isinstance(memory, Choice) else memory
    result = np.zeros(state.mask.shape, first.data.dtype)
    marks = np.zeros(state.mask.shape if state.sanitizer is not None else (), np.int32)
    for buffer, mask in state.parts(memory):
        touched = mask & mem.inside(buffer.data.shape, [state.per_lane(index) for index in indices])
        lanes, place = _lane_places(state, buffer, touched, indices, writes=False)
        result[lanes] = buffer.data[place]
        if state.sanitizer is not None:
            marks[lanes] = _watch_lanes(state, op, buffer, lanes, place, writes=False)
            marks[mask & ~touched] = _doubt(state, op, buffer, mask & ~touched, indices)
    return [marked(result, marks)]


def write(state: State, op: Op, operands: list[Operand]) -> list[Operand]:
    """Write one element by the group, or one by each lane; of lanes that write the same element the last wins."""
    memory, value, *indices = operands
    if not state.is_varying(op):
        place = _group_place(memory, indices)
        if place is not None:
            state.launch.traffic.count(memory, 1, written=True)
            _watch_group(state, op, memory, place, writes=True)
            memory.data[place] = value
        elif state.sanitizer is not None:
            raise state.sanitizer.written_outside(memory, [int(i) for i in indices], state.agents()[0], op)
        return []
    values = state.per_lane(value)
    for buffer, mask in state.parts(memory):
        everywhere = [state.per_lane(index) for index in indices]
        touched = mask & mem.inside(buffer.data.shape, everywhere)
        if state.sanitizer is not None and np.any(touched != mask):
            first = int(np.argmax(touched != mask))
            outside = [int(index[first]) for index in everywhere]
            raise state.sanitizer.written_outside(buffer, outside, int(state.lanes[first]), op)
        lanes, place = _lane_places(state, buffer, touched, indices, writes=True)
        _watch_lanes(state, op, buffer, lanes, place, writes=True)
        buffer.data[place] = values[lanes]
    return []


def load(state: State, op: Op, operands: list[Operand]) -> list[Operand]:
    """Load a tile of memory."""
    memory, *starts = operands
    if state.is_varying(op):
        raise lane_dependent(op.result, op.span)
    box, marks = _group_box(state, op, memory, starts, writes=False)
    extents = integers(op, "extents")
    dropped = integers(op, "dropped")
    found = window([int(start) for start in starts], extents, memory.data.shape, dropped)
    tile = partial(mem.load(memory.data, box).reshape(found.shape), found)
    return [marked(tile, marks.reshape(found.shape) if marks.ndim else marks)]


def gather(state: State, op: Op, operands: list[Operand]) -> list[Operand]:
    """Load a tile whose place along one axis each element of a tile of indices tells."""
    memory, *starts = operands
    if state.is_varying(op):
        raise lane_dependent(op.result, op.span)
    extents, dropped = integers(op, "extents"), integers(op, "dropped")
    shape = memory.data.shape
    axis = next(a for a, start in enumerate(op.operands[1:]) if isinstance(start.type, Tile))
    exists = presence_of(starts[axis]).flags
    places = [
        np.asarray(values_of(start) if a == axis else int(start) + np.arange(extents[a]))
        for a, start in enumerate(starts)
    ]
    inside = [(place >= 0) & (place < size) for place, size in zip(places, shape, strict=True)]
    inside[axis] = inside[axis] & exists
    safe = [np.where(known, place, 0) for known, place in zip(inside, places, strict=True)]
    elements = np.meshgrid(*safe, indexing="ij", sparse=True)
    known = np.ones(extents, np.bool_)
    for flags in np.meshgrid(*inside, indexing="ij", sparse=True):
        known = known & flags
    values = np.where(known, memory.data[tuple(elements)] if memory.data.size else 0, memory.data.dtype.type(0))
    state.launch.traffic.count(memory, int(known.sum()), written=False)
    kept = [a for a in range(len(shape)) if a not in dropped]
    found = Presence(
        tuple(extents[a] for a in kept), all(bool(inside[a].all()) for a in dropped), tuple(inside[a] for a in kept)
    )
    marks = _watch_gathered(state, op, memory, elements, known)
    tile = partial(values.astype(memory.data.dtype, copy=False).reshape(found.shape), found)
    return [marked(tile, marks.reshape(found.shape) if marks.ndim else marks)]


def store(state: State, op: Op, operands: list[Operand]) -> list[Operand]:
    """Store a tile into memory."""
    memory, tile, *starts = operands
    if state.is_varying(op):
        raise lane_dependent(op.operands[1], op.span)
    exists = presence_of(tile).flags if isinstance(tile, Partial) else None
    box, _ = _group_box(state, op, memory, starts, writes=True, exists=exists)
    mem.store(memory.data, box, values_of(tile), exists)
    return []


def copy(state: State, op: Op, operands: list[Operand]) -> list[Operand]:
    """Start an asynchronous copy: what it reads now lands in the buffer at the next barrier."""
    buffer, array, *starts = operands
    if state.is_varying(op):
        raise lane_dependent(op.operands[0], op.span)
    extents = integers(op, "extents")
    box = mem.clip(array.data.shape, [int(start) for start in starts], extents)
    state.launch.traffic.count(array, box.elements, written=False)
    if state.sanitizer is not None:
        source = mem.flat_box(array.data.shape, box)
        target = np.arange(int(buffer.data.size), dtype=np.int64)
        state.sanitizer.read(array, source, np.full(len(source), COPY), op)
        state.sanitizer.write(buffer, target, np.full(len(target), COPY), op)
    state.copies.append((buffer, mem.load(array.data, box).reshape(buffer.data.shape)))
    return []


def _doubt(state: State, op: Op, memory: Memory, missed: Mask, indices: Sequence[Numbers]) -> Marks:
    """Return the mark of a read that is outside the memory for the lanes `missed`."""
    if state.sanitizer is None or not missed.any():
        return CLEAN
    if not state.is_varying(op):
        place = [int(index) for index in indices]
        places: dict[int, Sequence[int]] = dict.fromkeys(state.agents(), place)
    else:
        everywhere = [state.per_lane(index)[missed].tolist() for index in indices]
        lanes: list[int] = state.lanes[missed].tolist()
        places = dict(zip(lanes, zip(*everywhere, strict=True), strict=True))
    return np.asarray(state.sanitizer.read_outside(memory, places, op), np.int32)


def _group_place(memory: Memory, indices: Sequence[Numbers]) -> tuple[int, ...] | None:
    """Return the element a uniform statement uses, or None when it is outside."""
    place = tuple(int(index) for index in indices)
    inside = all(0 <= index < size for index, size in zip(place, memory.data.shape, strict=True))
    return place if inside else None


def _watch_group(state: State, op: Op, memory: Memory, place: tuple[int, ...], *, writes: bool) -> Marks:
    """Tell the sanitizer of an element that a uniform statement uses; return the mark of what is read."""
    if state.sanitizer is None:
        return CLEAN
    agents = state.agents()
    elements = np.repeat(mem.flat(memory.data.shape, [np.asarray(index) for index in place]), len(agents))
    if writes:
        state.sanitizer.write(memory, elements, agents, op)
        return CLEAN
    return state.sanitizer.read(memory, elements, agents, op).max()


def _watch_gathered(state: State, op: Op, memory: Memory, places: Sequence[Numbers], known: Mask) -> Marks:
    """Tell the sanitizer of the elements that a gather reads; return the marks of what is read."""
    if state.sanitizer is None or not known.any():
        return CLEAN
    agents = state.agents()
    flat = mem.flat(memory.data.shape, [np.broadcast_to(place, known.shape)[known] for place in places])
    elements = np.repeat(flat, len(agents))
    who = np.resize(np.asarray(agents, np.int32), len(elements))
    marks = np.zeros(known.shape, np.int32)
    marks[known] = state.sanitizer.read(memory, elements, who, op)[:: len(agents)]
    return marks


def _lane_places(
    state: State, memory: Memory, touched: Mask, indices: Sequence[Numbers], *, writes: bool
) -> tuple[Lanes, tuple[Numbers, ...]]:
    """Return the lanes `touched` (as positions in the window), and their elements, axis by axis."""
    lanes = touched.nonzero()[0]
    state.launch.traffic.count(memory, len(lanes), written=writes)
    return lanes, tuple(state.per_lane(index)[lanes] for index in indices)


def _watch_lanes(
    state: State, op: Op, memory: Memory, lanes: Lanes, places: Sequence[Numbers], *, writes: bool
) -> Marks:
    """Tell the sanitizer of the elements that lanes use; return the marks of what is read, one for each."""
    if state.sanitizer is None:
        return CLEAN
    elements, agents = mem.flat(memory.data.shape, places), state.lanes[lanes].astype(np.int32)
    if writes:
        state.sanitizer.write(memory, elements, agents, op)
        return CLEAN
    return state.sanitizer.read(memory, elements, agents, op)


def _group_box(
    state: State, op: Op, memory: Memory, starts: Sequence[Numbers], *, writes: bool, exists: Mask | None = None
) -> tuple[mem.Box, Marks]:
    """Return the part of a tile's window that is inside the memory, and the marks of what is read.

    exists: which elements of a tile that is written exist; None: all
    """
    extents = integers(op, "extents")
    corner = [int(start) for start in starts]
    box = mem.clip(memory.data.shape, corner, extents)
    state.launch.traffic.count(memory, box.elements, written=writes)
    if state.sanitizer is None:
        return box, CLEAN
    agents = state.agents()
    number = 0
    if memory.shared and not box.whole:
        place = mem.first_outside(memory.data.shape, corner, extents)
        if writes:
            raise state.sanitizer.written_outside(memory, place, agents[0], op)
        number = state.sanitizer.read_outside(memory, dict.fromkeys(agents, place), op)
    offsets = mem.flat_box(memory.data.shape, box)
    if exists is not None:
        kept = np.reshape(exists, box.extents)[box.window].reshape(-1)
        state.sanitizer.left_out.add(memory, offsets[~kept], op)
        offsets = offsets[kept]
    elements = np.repeat(offsets, len(agents))
    who = np.resize(np.asarray(agents, np.int32), len(elements))
    if writes:
        state.sanitizer.write(memory, elements, who, op)
        return box, CLEAN
    marks = np.full(extents, number, np.int32)
    inside = tuple(part.stop - part.start for part in box.memory)
    marks[box.window] = state.sanitizer.read(memory, elements, who, op)[:: len(agents)].reshape(inside)
    return box, marks
