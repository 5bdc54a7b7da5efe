"""Follows an interpreted launch and writes down every statement: touches, variables, active lanes, trips of loops."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final, cast

import numpy as np

from tessera.core.program.dependences import Dependences
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.types import Array, Scalar, Shared, Tile
from tessera.runtime.interpret import memory as mem
from tessera.runtime.interpret.absence import Partial, presence_of, values_of
from tessera.runtime.interpret.geometry import Geometry, Window
from tessera.runtime.interpret.memory import Choice, Memory
from tessera.runtime.interpret.operands import Operand, integers
from tessera.runtime.interpret.state import State
from tessera.viz.tile_debugger.trace import Numbers, RecordedArray, Step, Touch, Trip, Variable

_OVERHEAD: Final = 600
"""Work of any operation beside its elements, in elements: about the time of an operation of NumPy."""
_DOT: Final = 3
"""Work of a fused multiply-add of the interpreter, which rounds each as the hardware does, in elements."""
LOOPS: Final = ("for", "while")
_WORKSPACE: Final = re.compile(r"^\$")
"""The first character of the name of memory that the compiler adds to a call."""
KEPT_BYTES: Final = 64 << 20
"""Arrays up to this size are kept as they were before the launch."""
Key = tuple[int, tuple[int, ...]]
"""A tile: the window's place in order, and which trip of each loop over tiles."""


class RecordingFull(Exception):
    """The recording has all that it may have."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of a recording: `work` in elements computed, `steps` in statements."""

    work: int
    steps: int


@dataclass(slots=True)
class Wanted:
    """Choice of the tiles that are recorded: places of windows, and of each loop over tiles the trips.

    last: the last place of a window that is wanted
    """

    windows: Callable[[int], bool]
    trips: Sequence[Callable[[int], bool]] = ()
    last: int | None = None


@dataclass(slots=True, eq=False)
class _Frame:
    """A loop that runs: its operation, the trips begun so far, and the one now."""

    op: Op
    begun: int = 0
    trip: Trip | None = None


def tile_loops(program: Program) -> tuple[Op, ...]:
    """Return the loops whose trips are the tiles of a kernel without groups, outermost first; none where it has groups.

    These are loops of which all trips are independent, each alone in the other but for statements around it.
    """
    if program.domain.kind != "single" or program.group is not None:
        return ()
    dependences = Dependences(program)
    found: list[Op] = []
    block = program.body
    while True:
        loops = [op for op in block.ops if op.opcode in LOOPS]
        if len(loops) != 1 or not _is_over_tiles(loops[0], dependences):
            return tuple(found)
        found.append(loops[0])
        block = loops[0].regions[0]


def _is_over_tiles(op: Op, dependences: Dependences) -> bool:
    return op.opcode == "for" and not op.results and op.attributes["kind"] == "tile" and dependences.of(op) is None


@dataclass(slots=True, eq=False)
class Recorder:
    """An observer (`runtime.interpret.state.Observer`) that makes the steps of a trace.

    counts: trips of each loop over tiles; work: elements computed so far; full: whether the budget ended the recording
    told: hears how many tiles were begun
    geometry: of the launch; pieces: windows that each of its groups is executed in
    """

    program: Program
    wanted: Wanted
    budget: Budget
    loops: tuple[Op, ...]
    mutable: Mapping[str, bool]
    told: Callable[[int], None]
    steps: list[Step] = field(default_factory=list[Step])
    arrays: list[RecordedArray] = field(default_factory=list[RecordedArray])
    tiles: dict[Key, tuple[Window, tuple[Trip, ...]]] = field(
        default_factory=dict[Key, tuple[Window, tuple[Trip, ...]]]
    )
    counts: list[int] = field(default_factory=list[int])
    work: int = 0
    full: bool = False
    geometry: Geometry = field(default_factory=lambda: Geometry((1, 1, 1), (1, 1, 1)))
    pieces: int = 1
    _owners: dict[Block, Op] = field(init=False)
    _frames: list[_Frame] = field(default_factory=list[_Frame])
    _place: int = -1
    _window: Window | None = None
    _step: Step | None = None
    _known: dict[str, object] = field(default_factory=dict[str, object])
    _numbers: dict[object, int] = field(default_factory=dict[object, int])

    def __post_init__(self) -> None:
        self._owners = {region: op for op in self.program.body.walk() for region in op.regions}
        self.counts = [1] * len(self.loops)

    # -- what the interpreter says -----------------------------------------------------------------------------

    def wants_window(self, window: Window) -> bool:
        """Take the windows that are wanted."""
        self._place += 1
        self._window = window
        if self._place == 0:
            self.geometry = window.geometry
            self.pieces = -(-window.geometry.lanes // (window.past - window.first))
        if self.wanted.last is not None and self._place > self.wanted.last:
            raise RecordingFull
        return self.wanted.windows(self._place)

    def entered(self, state: State, block: Block) -> None:
        """Begin a window, or a trip of a loop."""
        op = self._owners.get(block)
        if op is None:
            self._begin(state)
        elif op.opcode == "for" or (op.opcode == "while" and block is op.regions[0]):
            self._trip(state, op, block)

    def wants_trip(self, _: State, loop: Op, operands: Sequence[Operand], index: Numbers) -> bool:
        """Leave out trips of the loops over tiles that are not wanted."""
        if loop not in self.loops:
            return True
        depth = self.loops.index(loop)
        lower, upper, step = (int(bound) for bound in operands[:3])
        number = (int(index) - lower) // step
        self.counts[depth] = max(self.counts[depth], -((lower - upper) // step))
        taken = depth >= len(self.wanted.trips) or self.wanted.trips[depth](number)
        if not taken:
            self._frames[-1].begun += 1
        return taken

    def before(self, state: State, op: Op, operands: Sequence[Operand]) -> None:
        """Note a branch with its condition, and that a loop begins."""
        if op.opcode in LOOPS:
            self._frames.append(_Frame(op))
            self._step = None
        elif op.opcode == "if":
            step = self._at(state, op, "branch", fresh=True)
            self._note(state, step, op.operands[0], operands[0], name="condition")
        elif op.opcode == "barrier":
            step = self._at(state, op, "barrier", fresh=True)
            for buffer, tile in state.copies:
                elements = np.arange(buffer.data.size)
                step.touches.append(Touch(self._number(buffer), True, elements, values=_flat(tile)))

    def after(self, state: State, op: Op, operands: Sequence[Operand]) -> None:
        """Note what an operation touched, and what variables it made."""
        if op.opcode in LOOPS:
            self._frames.pop()
            self._step = None
        elif op.opcode in _TOUCHES:
            self._at(state, op).touches.extend(self.touches(state, op, operands))
        for value in op.results:
            if _is_users(value):
                self._assigned(state, op, value)
        self._spend(op)

    # -- steps -------------------------------------------------------------------------------------------------

    def _begin(self, state: State) -> None:
        assert self._window is not None
        self._frames, self._step, self._known = [], None, {}
        if self._place == 0 or not self.arrays:
            for parameter in self.program.parameters:
                found = state.values[parameter.value]
                if isinstance(parameter.value.type, Array) and isinstance(found, Memory):
                    self._number(found)

    def _trip(self, state: State, op: Op, block: Block) -> None:
        frame = self._frames[-1]
        frame.trip = trip_of(state, op, block, frame.begun)
        frame.begun += 1
        arguments = block.arguments
        if op in self.loops:
            if op is not self.loops[-1]:
                return  # a tile begins where the innermost of its loops begins
            self._known = {}
            arguments = tuple(loop.regions[0].arguments[0] for loop in self.loops)
        step = self._at(state, op, "loop", fresh=True)
        for value in arguments:
            if _is_users(value):
                self._note(state, step, value, state.values[value])

    def _assigned(self, state: State, op: Op, value: Value) -> None:
        found = state.values[value]
        if op.opcode in (*LOOPS, "if") and self._known.get(value.name) is found:
            return
        self._note(state, self._at(state, op), value, found)

    def _note(self, state: State, step: Step, value: Value, operand: Operand, name: str = "") -> None:
        name = name or value.name
        if self._known.get(name) is operand:
            return
        if name == value.name:
            self._known[name] = operand
        kind = value.type
        assert isinstance(kind, Scalar | Tile)
        numbers = np.asarray(values_of(operand))
        exists = presence_of(operand).flags if isinstance(operand, Partial) else None
        by_lane = isinstance(kind, Scalar) and numbers.ndim > 0
        if by_lane and not state.mask.all():
            exists = state.mask
        made = Variable(name, kind.dtype.name, numbers, by_lane, exists)
        step.variables[:] = [each for each in step.variables if each.name != name] + [made]

    def _at(self, state: State, op: Op, kind: str = "statement", *, fresh: bool = False) -> Step:
        """Return the step of a statement: the one that runs, or a new one."""
        trips = tuple(frame.trip for frame in self._frames if frame.trip is not None)
        tile = self._tile(trips)
        active = None if state.mask.all() else state.mask
        last = self._step
        same = last is not None and (last.tile, last.line, last.trips) == (tile, op.span.line, trips)
        if last is None or fresh or not same or last.active is not active:
            if len(self.steps) >= self.budget.steps:
                self.full = True
                raise RecordingFull
            last = Step(tile, op.span.line, trips, kind, active)
            self.steps.append(last)
            self._step = last
        return last

    def _tile(self, trips: Sequence[Trip]) -> int:
        assert self._window is not None
        own = tuple(trips[: len(self.loops)])
        if len(own) < len(self.loops):
            own = ()  # around the loops over tiles
        key = (self._place, tuple(trip.number for trip in own))
        if key not in self.tiles:
            self.tiles[key] = (self._window, own)
            self.told(len(self.tiles))
        return list(self.tiles).index(key) if key != next(reversed(self.tiles)) else len(self.tiles) - 1

    def _spend(self, op: Op) -> None:
        self.work += _OVERHEAD + _work(op)
        if self.work > self.budget.work:
            self.full = True
            raise RecordingFull

    # -- touches -----------------------------------------------------------------------------------------------

    def _number(self, memory: Memory) -> int:
        """Return the number of an array; two parameters that are one array have one number."""
        data = memory.data
        key: object = (memory.name, data.shape) if memory.shared else (data.ctypes.data, data.shape, data.strides)
        if key not in self._numbers:
            self._numbers[key] = len(self.arrays)
            keep = not memory.shared and data.nbytes <= KEPT_BYTES
            self.arrays.append(
                RecordedArray(
                    _WORKSPACE.sub("workspace ", memory.name), data.dtype.name, data.shape, memory.shared,
                    self.mutable.get(memory.name, True),
                    data.copy() if keep else None,
                )
            )  # fmt: skip
        return self._numbers[key]

    def touches(self, state: State, op: Op, operands: Sequence[Operand]) -> list[Touch]:
        """Return what an operation that accesses memory touched."""
        return _TOUCHES[op.opcode](self, state, op, operands)

    def read(self, state: State, op: Op, operands: Sequence[Operand]) -> list[Touch]:
        """Return what a `read` touched."""
        memory, *indices = operands
        return self._elements(state, op, memory, indices, None)

    def write(self, state: State, op: Op, operands: Sequence[Operand]) -> list[Touch]:
        """Return what a `write` touched."""
        memory, value, *indices = operands
        return self._elements(state, op, memory, indices, np.asarray(values_of(value)))

    def _elements(
        self, state: State, op: Op, memory: Memory | Choice, indices: Sequence[Numbers], written: Numbers | None
    ) -> list[Touch]:
        by_lane = state.is_varying(op)
        if not by_lane:
            assert isinstance(memory, Memory)
            places = [np.asarray(index).reshape(1) for index in indices]
            inside = np.asarray(mem.inside(memory.data.shape, places)).reshape(1)
            elements = mem.flat(memory.data.shape, [place[inside] for place in places])
            values = None if written is None else _flat(written)[: len(elements)].astype(memory.data.dtype)
            outside = int((~inside).sum())
            return [Touch(self._number(memory), written is not None, elements, outside=outside, values=values)]
        found: list[Touch] = []
        for buffer, mask in state.parts(memory):
            places = [state.per_lane(index) for index in indices]
            touched = mask & mem.inside(buffer.data.shape, places)
            elements = mem.flat(buffer.data.shape, [place[touched] for place in places])
            values = None if written is None else state.per_lane(written)[touched].astype(buffer.data.dtype)
            outside = int((mask & ~touched).sum())
            lanes = state.lanes[touched]
            found.append(Touch(self._number(buffer), written is not None, elements, (), (), lanes, outside, 0, values))
        return found

    def load(self, _: State, op: Op, operands: Sequence[Operand]) -> list[Touch]:
        """Return what a `load` touched."""
        memory, *starts = operands
        return [self._box(memory, [int(start) for start in starts], integers(op, "extents"))]

    def copy(self, _: State, op: Op, operands: Sequence[Operand]) -> list[Touch]:
        """Return what an asynchronous copy read; what it writes is seen at the barrier."""
        _, array, *starts = operands
        return [self._box(array, [int(start) for start in starts], integers(op, "extents"))]

    def store(self, _: State, op: Op, operands: Sequence[Operand]) -> list[Touch]:
        """Return what a `store` touched, without elements of the tile that do not exist."""
        memory, tile, *starts = operands
        corner, extents = [int(start) for start in starts], integers(op, "extents")
        touch = self._box(memory, corner, extents)
        box = mem.clip(memory.data.shape, corner, extents)
        values = np.reshape(values_of(tile), extents)[box.window].reshape(-1)
        exists = np.reshape(presence_of(tile).flags, extents)[box.window].reshape(-1)
        return [
            Touch(
                touch.array, True, touch.elements[exists], touch.starts, touch.extents, None, touch.outside,
                int((~exists).sum()), values[exists].astype(memory.data.dtype),
            )
        ]  # fmt: skip

    def _box(self, memory: Memory, starts: Sequence[int], extents: Sequence[int]) -> Touch:
        box = mem.clip(memory.data.shape, starts, extents)
        elements = mem.flat_box(memory.data.shape, box)
        outside = prod(extents) - box.elements
        return Touch(self._number(memory), False, elements, tuple(starts), tuple(extents), None, outside)


_TOUCHES: Final[dict[str, Callable[[Recorder, State, Op, Sequence[Operand]], list[Touch]]]] = {
    "read": Recorder.read,
    "write": Recorder.write,
    "load": Recorder.load,
    "store": Recorder.store,
    "copy": Recorder.copy,
}


def trip_of(state: State, loop: Op, block: Block, number: int) -> Trip:
    """Return the trip of a loop that begins now."""
    if loop.opcode != "for":
        return Trip("", loop.span.line, None, number)
    value = block.arguments[0]
    now = values_of(state.values[value])
    return Trip(value.name, loop.span.line, int(now) if np.ndim(now) == 0 else None, number)


def _is_users(value: Value) -> bool:
    """Return whether a value is one of the user's variables: names of the compiler's own begin with `$`."""
    return bool(value.name) and not value.name.startswith("$") and isinstance(value.type, Scalar | Tile)


def _flat(values: Numbers) -> Numbers:
    return np.asarray(values).reshape(-1)


def _work(op: Op) -> int:
    """Return about how many elements an operation computes."""
    kinds = [value.type for value in (*op.results, *op.operands)]
    size = max((prod(kind.shape) for kind in kinds if isinstance(kind, Tile | Shared)), default=1)
    if op.opcode == "dot":
        left, right = (cast("Tile", value.type) for value in op.operands[:2])
        return _DOT * left.shape[0] * left.shape[1] * right.shape[1]
    return size
