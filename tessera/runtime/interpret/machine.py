"""Executes one window of lanes, statement by statement, in lock-step under a lane mask.

A uniform scalar is a 0-d value, a varying one has one element a lane of the window, a tile is an array of its shape,
and a memory value is a `Memory` (or a `Choice` of them).  Inactive lanes compute too, but nothing they do is seen.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.mistakes import LaneDependentTile
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.types import Array, Scalar, Shared, Tile
from tessera.runtime.interpret import access, arithmetic
from tessera.runtime.interpret.geometry import WARP, Geometry, Window
from tessera.runtime.interpret.memory import Choice, Memory, Traffic, fresh_shared
from tessera.runtime.interpret.rounding import Numbers
from tessera.runtime.interpret.sanitizer import Sanitizer
from tessera.runtime.interpret.values import PURE, evaluate

Mask = NDArray[np.bool_]


class Launch:
    """What all groups of one launch share."""

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        values: dict[Value, Any],
        symbols: dict[str, int],
        varying: frozenset[Value],
        sanitizer: Sanitizer | None,
        cancelled: Callable[[], bool],
    ) -> None:
        self.program = program
        self.geometry = geometry
        self.values = values
        self.symbols = symbols
        self.varying = varying
        self.sanitizer = sanitizer
        self.cancelled = cancelled
        self.traffic = Traffic()

    def check_cancelled(self) -> None:
        """Stop, like an interrupted cell, when the caller wants no more."""
        if self.cancelled():
            raise KeyboardInterrupt("the launch was cancelled")


class Machine:
    """The state of one running window: values, active lanes, shared memory, outstanding copies."""

    def __init__(self, launch: Launch, window: Window) -> None:
        self.launch = launch
        self.window = window
        self.values: dict[Value, Any] = dict(launch.values)
        self.lanes = window.lanes
        self.mask: Mask = np.ones(len(self.lanes), np.bool_)
        self.buffers: dict[Op, Memory] = {}
        self.copies: list[tuple[Memory, Numbers]] = []
        self.branches: list[Op] = []

    def run(self) -> None:
        """Execute the whole kernel for this window's lanes."""
        self.block(self.launch.program.body, ())

    # -- blocks and lane masks ---------------------------------------------------------------------------------

    def block(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """Execute a block; return what it yields."""
        values = self.values
        values.update(zip(block.arguments, arguments, strict=True))
        for op in block.ops:
            operands = [values[operand] for operand in op.operands]
            if op.opcode == "yield":
                return operands
            if op.opcode in PURE and not isinstance(op.result.type, Shared):
                values[op.results[0]] = self.pure(op, operands)
            else:
                values.update(zip(op.results, _EFFECTS[op.opcode](self, op, operands), strict=True))
        return []

    def masked(self, mask: Mask, branch: Op, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """Execute a block with only the lanes in `mask` active, which `branch` has parted from the others."""
        before, self.mask = self.mask, mask
        self.branches.append(branch)
        yields = self.block(block, arguments)
        self.branches.pop()
        self.mask = before
        return yields

    def is_varying(self, values: Sequence[Value]) -> bool:
        """Tell whether any of `values` may differ between lanes."""
        return any(value in self.launch.varying for value in values)

    def per_lane(self, value: Numbers) -> Numbers:
        """Return a scalar with one element a lane."""
        return np.broadcast_to(value, self.mask.shape)

    def merge(self, chosen: Mask, new: Any, old: Any, of: Value) -> Any:
        """Return `new` in the lanes `chosen`, and `old` in the other active ones."""
        if new is old or not np.any(self.mask & ~chosen):
            return new
        if isinstance(of.type, Scalar):
            return np.where(chosen, new, old)
        if isinstance(of.type, Tile):
            raise lane_dependent(of.name, self.branches[-1] if self.branches else None, of)
        return choose(chosen, new, old)

    # -- pure operations ---------------------------------------------------------------------------------------

    def pure(self, op: Op, operands: list[Any]) -> Numbers:
        """Evaluate an operation without effects."""
        if isinstance(op.result.type, Tile) and self.is_varying(op.operands):
            raise lane_dependent(op.result.name, op, op.result)
        return evaluate(op, operands)

    def select_buffer(self, op: Op, operands: list[Any]) -> list[Any]:
        """Choose between shared buffers, for the group or for each lane."""
        condition, yes, no = operands
        if np.ndim(condition):
            return [choose(condition, yes, no)]
        return [yes if condition else no]

    def id(self, op: Op, _: list[Any]) -> list[Any]:
        """One of ID_KINDS."""
        axis: Any = op.attributes["axis"]
        return [self.window.identity(str(op.attributes["of"]), axis)]

    def dim(self, op: Op, _: list[Any]) -> list[Any]:
        """The value of a symbol."""
        return [np.int64(self.launch.symbols[str(op.attributes["symbol"])])]

    # -- synchronisation ---------------------------------------------------------------------------------------

    def alloc(self, op: Op, _: list[Any]) -> list[Any]:
        """A shared buffer: the same one each time the statement runs in this group."""
        kind = op.result.type
        assert isinstance(kind, Shared)
        if op not in self.buffers:
            self.buffers[op] = fresh_shared(op.result.name or "shared", kind.dtype, kind.shape)
        return [self.buffers[op]]

    def barrier(self, op: Op, _: list[Any]) -> list[Any]:
        """Outstanding copies land."""
        if self.launch.sanitizer is not None:
            self.launch.sanitizer.barrier(op, self.mask, self.branches[-1] if self.branches else None)
        for buffer, tile in self.copies:
            buffer.data[...] = tile
        self.copies.clear()
        return []

    def group_sync(self, op: Op, _: list[Any]) -> list[Any]:
        """Nothing to wait for in lock-step; the sanitizer takes note."""
        if self.launch.sanitizer is not None:
            size: Any = op.attributes["size"]
            branch = self.branches[-1] if self.branches else None
            self.launch.sanitizer.group_sync(op, size, self.mask, branch)
        return []

    def shuffle(self, op: Op, operands: list[Any]) -> list[Any]:
        """Read another lane's value; a source out of the segment, or not active, gives the lane's own."""
        if not self.is_varying(op.operands):
            return [operands[0]]
        width: Any = op.attributes["width"]
        value, amount = self.per_lane(operands[0]), self.per_lane(operands[1])
        place = self.lanes % WARP % width
        mode = op.attributes["mode"]
        if mode == "down":
            target = place + amount
        elif mode == "up":
            target = place - amount
        else:
            target = amount if mode == "idx" else place ^ amount
        here = np.arange(len(self.lanes))
        source = here - place + target
        valid = (target >= 0) & (target < width) & (source < len(here))
        source = np.where(valid, source, here)
        return [value[np.where(self.mask[source], source, here)]]

    # -- control flow ------------------------------------------------------------------------------------------

    def branch(self, op: Op, operands: list[Any]) -> list[Any]:
        """An `if`: one side when the condition is uniform, else each side under its own mask."""
        condition = operands[0]
        yes = op.regions[0]
        no = op.regions[1] if len(op.regions) > 1 else Block()
        if not np.ndim(condition):
            return self.block(yes if condition else no, ())
        taken, left = self.mask & condition, self.mask & ~condition
        if not left.any():
            return self.block(yes, ())
        if not taken.any():
            return self.block(no, ())
        first = self.masked(taken, op, yes, ())
        second = self.masked(left, op, no, ())
        return [self.merge(taken, a, b, v) for a, b, v in zip(first, second, op.results, strict=True)]

    def loop(self, op: Op, operands: list[Any]) -> list[Any]:
        """A `for`: lanes leave when their own range is over."""
        lower, upper, step, *carried = operands
        (body,) = op.regions
        results, index, active = carried, lower, self.mask
        while True:
            self.launch.check_cancelled()
            more = np.where(step > 0, index < upper, (step < 0) & (index > upper))
            if not more.ndim:
                if not more:
                    return results
            else:
                active = active & more
                if not active.any():
                    return results
            if active is self.mask or np.array_equal(active, self.mask):
                carried = self.block(body, (index, *carried))
            else:
                carried = self.masked(active, op, body, (index, *carried))
            results = [self.merge(active, a, b, v) for a, b, v in zip(carried, results, op.results, strict=True)]
            index = index + step

    def repeat(self, op: Op, operands: list[Any]) -> list[Any]:
        """A `while`: lanes leave when their own condition fails."""
        condition, body = op.regions
        carried, results, active = operands, operands, self.mask
        while True:
            self.launch.check_cancelled()
            go_on, *passed = self.masked(active, op, condition, carried)
            results = [self.merge(active, a, b, v) for a, b, v in zip(passed, results, op.results, strict=True)]
            active = active & go_on
            if not active.any():
                return results
            carried = self.masked(active, op, body, passed)


def choose(chosen: Mask, new: Memory | Choice, old: Memory | Choice) -> Memory | Choice:
    """Return the buffer that is `new` in the lanes `chosen` and `old` elsewhere."""
    sides = [side if isinstance(side, Choice) else Choice((side,), np.zeros(1, np.int64)) for side in (new, old)]
    buffers = tuple(dict.fromkeys((*sides[0].buffers, *sides[1].buffers)))
    places = [np.asarray([buffers.index(buffer) for buffer in side.buffers])[side.which] for side in sides]
    return Choice(buffers, np.where(chosen, places[0], places[1]))


def lane_dependent(name: str, op: Op | None, value: Value) -> LaneDependentTile:
    """The mistake of making a tile of values that differ between lanes."""
    what = f"the tile {name}" if name else "this tile"
    return LaneDependentTile(
        f"{what} would be different for each lane, but a tile belongs to the whole group",
        op.span if op is not None else value.span,
        "use values here that do not depend on tile.linear_id(), or work element by element: x[i]",
    )


def memory_of(value: Value) -> Array | Shared:
    """Return the type of a memory operand."""
    assert isinstance(value.type, Array | Shared)
    return value.type


_EFFECTS: Final[dict[str, Callable[[Machine, Op, list[Any]], list[Any]]]] = {
    "select": Machine.select_buffer,
    "id": Machine.id,
    "dim": Machine.dim,
    "read": access.read,
    "write": access.write,
    "load": access.load,
    "store": access.store,
    "copy": access.copy,
    "alloc": Machine.alloc,
    "barrier": Machine.barrier,
    "group_sync": Machine.group_sync,
    "shuffle": Machine.shuffle,
    "if": Machine.branch,
    "for": Machine.loop,
    "while": Machine.repeat,
}

_ = arithmetic
