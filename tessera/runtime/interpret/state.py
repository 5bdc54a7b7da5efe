"""The state of a running kernel: the launch, and the state of one window of lanes in lock-step.

A uniform scalar is a 0-d value, a varying one has one element a lane of the window, a tile is an array of its shape,
and a memory value is a `Memory` (or a `Choice` of them).  Inactive lanes compute too, but nothing they do is seen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.source import Span
from tessera.core.errors.catalog import LaneDependentTile
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.types import Scalar, Tile
from tessera.runtime.interpret.findings import GROUP
from tessera.runtime.interpret.geometry import Geometry, Window
from tessera.runtime.interpret.memory import Choice, Memory, Traffic
from tessera.runtime.interpret.operands import Operand
from tessera.runtime.interpret.poison import Poisoned, marked, marks_of, plain
from tessera.runtime.interpret.rounding import Numbers
from tessera.runtime.interpret.sanitizer import Sanitizer

Mask = NDArray[np.bool_]


class Observer(Protocol):
    """Follows a launch, operation by operation: what a recording or a debugger is made of.

    It may keep values, which are never changed in place, but must copy what it wants of memories.
    """

    def wants_window(self, window: Window) -> bool:
        """Decide whether a window is executed."""
        ...

    def entered(self, state: "State", block: Block) -> None:
        """Hear that a block begins; its arguments have their values."""
        ...

    def wants_trip(self, state: "State", /, loop: Op, operands: Sequence[Operand], index: Numbers) -> bool:
        """Decide whether a trip of a loop is executed; to leave one out is right where no trip needs another."""
        ...

    def before(self, state: "State", op: Op, operands: Sequence[Operand]) -> None:
        """Hear of an operation that is about to be executed."""
        ...

    def after(self, state: "State", op: Op, operands: Sequence[Operand]) -> None:
        """Hear of an operation that was executed; `state.values` has its results."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """The part of a launch that all its groups share.

    values: the parameters; varying: see `uniform.varying_values`; sanitizer: None for a launch without it;
    functions: what pure operations met so far compute; observer: what follows the launch, if anything does
    """

    program: Program
    geometry: Geometry
    values: Mapping[Value, Operand]
    symbols: Mapping[str, int]
    varying: frozenset[Value]
    sanitizer: Sanitizer | None
    cancelled: Callable[[], bool]
    traffic: Traffic = field(default_factory=Traffic)
    functions: dict[Op, Callable[..., Numbers]] = field(default_factory=dict[Op, Callable[..., Numbers]])
    observer: "Observer | None" = None

    def check_cancelled(self) -> None:
        """Stop, like an interrupted cell, when the caller wants no more."""
        if self.cancelled():
            raise KeyboardInterrupt("the launch was cancelled")


class State:
    """One running window: values, active lanes, shared memory, outstanding copies, and what parted the lanes."""

    def __init__(self, launch: Launch, window: Window) -> None:
        self.launch = launch
        self.sanitizer = launch.sanitizer
        self.window = window
        self.values: dict[Value, Operand] = dict(launch.values)
        self.lanes = window.lanes
        self.mask: Mask = np.ones(len(self.lanes), np.bool_)
        self.buffers: dict[Op, Memory] = {}
        self.copies: list[tuple[Memory, Numbers]] = []
        self.branches: list[Op] = []

    @property
    def branch_op(self) -> Op | None:
        """The innermost statement that parted the lanes, if any."""
        return self.branches[-1] if self.branches else None

    def is_varying(self, op: Op) -> bool:
        """Tell whether any operand of `op` may differ between lanes; if not, it runs once for the group."""
        return not self.launch.varying.isdisjoint(op.operands)

    def per_lane(self, value: Numbers) -> Numbers:
        """Return a scalar with one element a lane."""
        if np.ndim(value):
            return value
        repeated: Numbers = np.broadcast_to(value, self.mask.shape)
        return repeated

    def agents(self) -> list[int]:
        """Return who executes a uniform statement: the group, or, where the lanes are parted, (two of) those here."""
        return [GROUP] if self.mask.all() else [int(lane) for lane in self.lanes[self.mask][:2]]

    def merge(self, chosen: Mask, new: Operand, old: Operand, of: Value) -> Operand:
        """Return `new` in the lanes `chosen`, and `old` in the other active ones."""
        if new is old or not (self.mask & ~chosen).any():
            return new
        if isinstance(of.type, Scalar):
            sides: tuple[Numbers, Numbers] = (plain(new), plain(old))
            return marked(np.where(chosen, *sides), np.where(chosen, marks_of(new), marks_of(old)))
        if isinstance(of.type, Tile):
            raise lane_dependent(of, of.span)
        return choose(chosen, new, old)

    def use(self, of: Value, operand: Operand) -> Operand:
        """Return the value of `operand`.  Raises what the sanitizer found where an active lane's is poison."""
        if self.sanitizer is None or not isinstance(operand, Poisoned):
            return operand
        marks = operand.marks
        if isinstance(of.type, Scalar) and marks.ndim:
            marks = np.where(self.mask, marks, 0)
        if marks.any():
            place = int(np.argmax(marks != 0))
            lane = int(self.lanes[place]) if isinstance(of.type, Scalar) and marks.ndim else self.agents()[0]
            raise self.sanitizer.doubts[int(marks.flat[place]) - 1](lane)
        return operand.value

    def parts(self, memory: Memory | Choice) -> list[tuple[Memory, Mask]]:
        """Return each buffer that active lanes mean, with those lanes."""
        if isinstance(memory, Memory):
            return [(memory, self.mask)]
        which = self.per_lane(memory.which)
        masks = [self.mask & (which == number) for number in range(len(memory.buffers))]
        return [(buffer, mask) for buffer, mask in zip(memory.buffers, masks, strict=True) if mask.any()]


def choose(chosen: Mask, new: Memory | Choice, old: Memory | Choice) -> Memory | Choice:
    """Return the buffer that is `new` in the lanes `chosen` and `old` elsewhere."""
    sides = [side if isinstance(side, Choice) else Choice((side,), np.asarray(0)) for side in (new, old)]
    buffers = tuple(dict.fromkeys((*sides[0].buffers, *sides[1].buffers)))
    places = [np.asarray([buffers.index(buffer) for buffer in side.buffers])[side.which] for side in sides]
    return Choice(buffers, np.where(chosen, places[0], places[1]))


def lane_dependent(tile: Value, span: Span) -> LaneDependentTile:
    """Return the error for a tile made of values that differ between lanes."""
    what = f"the tile {tile.name}" if tile.name else "this tile"
    return LaneDependentTile(
        f"{what} would be different for each lane, but a tile belongs to the whole group",
        span,
        "use values here that do not depend on tile.linear_id(), or work element by element: x[i]",
    )
