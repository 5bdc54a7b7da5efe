"""Executes a kernel for one window of lanes, statement by statement, in lock-step under a lane mask."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tessera.core.program.program import Block, Op
from tessera.core.program.types import Shared, Tile
from tessera.runtime.interpret import access
from tessera.runtime.interpret.absence import computed, values_of
from tessera.runtime.interpret.geometry import WARP
from tessera.runtime.interpret.memory import fresh_shared
from tessera.runtime.interpret.operands import Operand, integer, integer_or_none
from tessera.runtime.interpret.poison import Poisoned, marked, marks_of, passed_on, plain
from tessera.runtime.interpret.rounding import Numbers
from tessera.runtime.interpret.state import Mask, State, choose, lane_dependent
from tessera.runtime.interpret.values import PURE, prepare


class Machine(State):
    """A running window that can execute blocks."""

    def run(self) -> None:
        """Execute the whole kernel for this window's lanes."""
        self.block(self.launch.program.body, ())

    def block(self, block: Block, arguments: Sequence[Operand]) -> list[Operand]:
        """Execute a block; return what it yields."""
        values, observer = self.values, self.launch.observer
        values.update(zip(block.arguments, arguments, strict=True))
        if observer is not None:
            observer.entered(self, block)
        for op in block.ops:
            operands = [values[operand] for operand in op.operands]
            if op.opcode == "yield":
                return operands
            if observer is not None:
                observer.before(self, op, operands)
            if self.sanitizer is not None and any(type(operand) is Poisoned for operand in operands):
                values.update(zip(op.results, self.poisoned(op, operands), strict=True))
            elif (function := self.launch.functions.get(op) or self.prepare(op)) is not None:
                values[op.results[0]] = computed(op, function, operands)
            else:
                values.update(zip(op.results, _EFFECTS[op.opcode](self, op, operands), strict=True))
            if observer is not None:
                observer.after(self, op, operands)
        return []

    def poisoned(self, op: Op, operands: list[Operand]) -> list[Operand]:
        """Execute an operation on values that carry marks: pass them on, or report the read they come from."""
        function = self.launch.functions.get(op) or self.prepare(op)
        if function is not None:
            numbers = [marked(values_of(plain(operand)), marks_of(operand)) for operand in operands]
            marks = passed_on(op, numbers, function)
            if marks is not None:
                return [marked(computed(op, function, [*map(plain, operands)]), marks)]
        used = _USED.get(op.opcode, len(operands))
        for value, operand in zip(op.operands[:used], operands, strict=False):
            self.use(value, operand)
        operands = [*map(plain, operands[:used]), *operands[used:]]
        return [computed(op, function, operands)] if function is not None else _EFFECTS[op.opcode](self, op, operands)

    def masked(self, mask: Mask, op: Op, block: Block, arguments: Sequence[Operand]) -> list[Operand]:
        """Execute a block with only the lanes in `mask` active; `op` has parted them from any others."""
        if mask is self.mask or np.array_equal(mask, self.mask):
            return self.block(block, arguments)
        before, self.mask = self.mask, mask
        self.branches.append(op)
        yields = self.block(block, arguments)
        self.branches.pop()
        self.mask = before
        return yields

    def prepare(self, op: Op) -> Callable[..., Numbers] | None:
        """Return the function of a pure operation, and remember it; None for any other."""
        if op.opcode not in PURE or isinstance(op.results[0].type, Shared):
            return None
        if isinstance(op.results[0].type, Tile) and self.is_varying(op):
            raise lane_dependent(op.results[0], op.span)
        function = self.launch.functions[op] = prepare(op)
        return function

    # -- ids, shared memory, synchronisation ---------------------------------------------------------------------

    def select_buffer(self, _: Op, operands: list[Operand]) -> list[Operand]:
        """Choose between shared buffers, for the group or for each lane."""
        condition, yes, no = operands
        if np.ndim(condition):
            return [choose(condition, yes, no)]
        return [yes if condition else no]

    def id(self, op: Op, _: list[Operand]) -> list[Operand]:
        """Return the value of an id of ID_KINDS."""
        return [self.window.identity(str(op.attributes["of"]), integer_or_none(op, "axis"))]

    def dim(self, op: Op, _: list[Operand]) -> list[Operand]:
        """Return the value of a symbol."""
        return [np.int64(self.launch.symbols[str(op.attributes["symbol"])])]

    def alloc(self, op: Op, _: list[Operand]) -> list[Operand]:
        """Allocate a shared buffer: the same one each time the statement runs in this group."""
        kind = op.result.type
        if not isinstance(kind, Shared):
            raise TypeError("alloc makes something else than a shared buffer")
        if op not in self.buffers:
            self.buffers[op] = fresh_shared(op.result.name or "shared", kind.dtype, kind.shape)
        return [self.buffers[op]]

    def barrier(self, op: Op, _: list[Operand]) -> list[Operand]:
        """Complete the outstanding copies."""
        if self.sanitizer is not None:
            self.sanitizer.barrier(op, self.mask, self.branch_op)
        for buffer, tile in self.copies:
            buffer.data[...] = tile
        self.copies.clear()
        return []

    def group_sync(self, op: Op, _: list[Operand]) -> list[Operand]:
        """Note the barrier for the sanitizer; in lock-step there is nothing to wait for."""
        if self.sanitizer is not None:
            self.sanitizer.group_sync(op, integer(op, "size"), self.mask, self.branch_op)
        return []

    def shuffle(self, op: Op, operands: list[Operand]) -> list[Operand]:
        """Read another lane's value; a source out of the segment, or not active, gives the lane's own."""
        if not self.is_varying(op):
            return [operands[0]]
        width = integer(op, "width")
        value, amount = self.per_lane(operands[0]), self.per_lane(operands[1])
        place = self.lanes % WARP % width
        here = np.arange(len(self.lanes))
        target = _shuffle_target(str(op.attributes["mode"]), place, amount)
        source = here - place + target
        valid = (target >= 0) & (target < width) & (source < len(here))
        source = np.where(valid, source, here)
        return [value[np.where(self.mask[source], source, here)]]

    # -- control flow --------------------------------------------------------------------------------------------

    def branch(self, op: Op, operands: list[Operand]) -> list[Operand]:
        """Run an `if`: one side when the condition is uniform, else each side under its own mask."""
        condition = operands[0]
        yes = op.regions[0]
        no = op.regions[1] if len(op.regions) > 1 else Block()
        taken, left = self.mask & condition, self.mask & ~np.asarray(condition)
        if not left.any():
            return self.block(yes, ())
        if not taken.any():
            return self.block(no, ())
        first = self.masked(taken, op, yes, ())
        second = self.masked(left, op, no, ())
        return [self.merge(taken, a, b, v) for a, b, v in zip(first, second, op.results, strict=True)]

    def loop(self, op: Op, operands: list[Operand]) -> list[Operand]:
        """Run a `for`: lanes leave when their own range is over."""
        index, upper, step, *carried = operands
        (body,) = op.regions
        results, active = carried, self.mask
        up, down = step > 0, step < 0
        observer = self.launch.observer
        watched = self.sanitizer.trips if self.sanitizer is not None and op.attributes.get("parallel") else None
        if watched is not None:
            watched.enter(body.arguments[0].name)
        while True:
            self.launch.check_cancelled()
            active = active & (up & (index < upper) | down & (index > upper))
            if not active.any():
                if watched is not None:
                    watched.leave()
                return results
            if watched is not None and self.sanitizer is not None:
                watched.begin(int(index), len(self.sanitizer.ops))
            if observer is not None and not observer.wants_trip(self, op, operands, index):
                index = index + step
                continue
            carried = self.masked(active, op, body, (index, *carried))
            results = [self.merge(active, a, b, v) for a, b, v in zip(carried, results, op.results, strict=True)]
            index = index + step

    def repeat(self, op: Op, operands: list[Operand]) -> list[Operand]:
        """Run a `while`: lanes leave when their own condition fails."""
        condition, body = op.regions
        carried, results, active = operands, operands, self.mask
        while True:
            self.launch.check_cancelled()
            go_on, *passed = self.masked(active, op, condition, carried)
            go_on = self.use(condition.ops[-1].operands[0], go_on)
            results = [self.merge(active, a, b, v) for a, b, v in zip(passed, results, op.results, strict=True)]
            active = active & go_on
            if not active.any():
                return results
            carried = self.masked(active, op, body, passed)


def _shuffle_target(mode: str, place: Numbers, amount: Numbers) -> Numbers:
    if mode == "down":
        return place + amount
    if mode == "up":
        return place - amount
    return amount if mode == "idx" else place ^ amount


_USED: Final = {"for": 3, "while": 0}
"""How many operands an operation itself uses: the rest is carried on, marks and all."""
_EFFECTS: Final[dict[str, Callable[[Machine, Op, list[Operand]], list[Operand]]]] = {
    "select": Machine.select_buffer,
    "id": Machine.id,
    "dim": Machine.dim,
    "read": access.read,
    "write": access.write,
    "load": access.load,
    "gather": access.gather,
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
