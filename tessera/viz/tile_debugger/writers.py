"""Find who writes an element: the tile, the line and the lane, in a run of the whole launch that notes nothing else."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.core.program.program import Block, Op
from tessera.core.progress import working
from tessera.profiling.wrong_elements import WrongElements
from tessera.runtime.interpret.operands import Operand
from tessera.runtime.interpret.state import State
from tessera.runtime.launch.interpreter import Interpreter
from tessera.viz.tile_debugger.recorder import LOOPS, Budget, Recorder, RecordingFull, Wanted, tile_loops, trip_of
from tessera.viz.tile_debugger.recording import (
    LANES_AT_ONCE,
    Launch,
    Limits,
    copied_arguments,
    record,
    sizes_of,
    tile_number,
)
from tessera.viz.tile_debugger.trace import Focus, Trace

_PATIENCE: Final = 8
"""How many times the work of a recording a search may take: it notes no values."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The last writer of an element.

    tile: its number in the launch; line: of the user's file; lane: None where the whole group wrote
    """

    tile: int
    line: int
    lane: int | None


@dataclass(slots=True, eq=False)
class WriterSearch(Recorder):
    """An observer that notes the last access which writes one element, by its number in row-major order."""

    array: str = ""
    element: int = 0
    wrote: tuple[int, tuple[int, ...], int, int | None] | None = None

    def before(self, state: State, op: Op, operands: Sequence[Operand]) -> None:
        """Follow loops alone."""
        if op.opcode in LOOPS:
            Recorder.before(self, state, op, operands)

    def after(self, state: State, op: Op, operands: Sequence[Operand]) -> None:
        """Note a write of the element."""
        if op.opcode in LOOPS:
            self._frames.pop()
        for touch in self.touches(state, op, operands) if op.opcode in ("write", "store") else ():
            if self.arrays[touch.array].name != self.array:
                continue
            positions = np.flatnonzero(touch.elements == self.element)
            if len(positions):
                trips = tuple(frame.trip.number for frame in self._frames if frame.trip is not None)
                lane = None if touch.lanes is None else int(touch.lanes[positions[-1]])
                self.wrote = (self._place, trips[: len(self.loops)], op.span.line, lane)
        self._spend(op)

    def _trip(self, state: State, op: Op, block: Block) -> None:
        frame = self._frames[-1]
        frame.trip = trip_of(state, op, block, frame.begun)
        frame.begun += 1


def find_writer(launch: Launch, array: str, element: int, limits: Limits) -> Writer | None:
    """Return who writes an element last; None: nothing does.

    Raises RecordingFull for a launch that takes more than some times the work of a recording.
    """
    program, loops = launch.program, tile_loops(launch.program)
    mutable = {parameter.name: parameter.mutable for parameter in program.parameters}
    everything = Wanted(lambda _: True, [lambda _: True for _ in loops])
    with working(f"searching for who writes {array}", 1) as task:
        search = WriterSearch(
            program, everything, Budget(_PATIENCE * limits.work, 0), loops, mutable, task.step,
            array=array, element=element,
        )  # fmt: skip
        interpreter = Interpreter(program, launch.types, observer=search, lanes_at_once=LANES_AT_ONCE)
        with suppress(RecordingFull):
            interpreter(*copied_arguments(launch), grid=launch.grid)
    if search.full:
        raise RecordingFull
    if search.wrote is None:
        return None
    window, trips, line, lane = search.wrote
    return Writer(tile_number(sizes_of(search), window, trips), line, lane)


def trace_of_first_wrong(launch: Launch, wrong: WrongElements, limits: Limits | None) -> tuple[Trace, Focus, str]:
    """Return a recording that has who wrote the first wrong element of an output, where that is, and it in words."""
    limits = limits or Limits()
    trace = record(launch, limits)
    array = trace.number_of(wrong.name)
    shape = trace.arrays[array].shape
    element = int(np.ravel_multi_index(wrong.index, shape)) if math.prod(shape) else 0
    try:
        writer = find_writer(launch, wrong.name, element, limits)
    except RecordingFull:
        return trace, Focus(None, array, element), f"{wrong}; who writes it is not searched for in so large a launch"
    if writer is None:
        return trace, Focus(None, array, element), f"{wrong}; no tile writes it"
    if all(tile.number != writer.tile for tile in trace.tiles):
        trace = record(launch, limits, writer.tile)
    steps = [number for number, touch, _ in trace.users(array, element) if touch.writes]
    names = [tile.name for tile in trace.tiles if tile.number == writer.tile]
    tile = names[0] if names else f"tile {writer.tile}"
    tile = f"tile {tile}" if trace.kind == "trip" else tile
    lane = "" if writer.lane is None else f", lane {writer.lane}"
    who = f"written at line {writer.line} by {tile}{lane}"
    return trace, Focus(steps[-1] if steps else None, array, element), f"{wrong}; {who}"
