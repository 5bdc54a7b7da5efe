"""Loop dependences: trips of a loop over tiles may run at the same time if none writes an element another touches.

The test looks at windows: an access of `y[8 * r + j : +4]` lies, along an axis, between two linear forms of the loop's
index (see `linear.py`).  Two accesses of one array in different trips are apart where along some axis both move with
the index by the same factor, and their window together is no wider than one step of the loop moves it.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.program.expressions import Expression, make
from tessera.core.program.linear import Bounds, Definitions
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.types import Array, Shared, Tile

CARRIED, MEETS, KEPT, ASKED = "carried", "meets", "kept", "asked"
"""Why trips depend on each other: a value goes from one to the next; two accesses may meet; a shared buffer keeps what
was in it; the user asked for order."""
ACCESSES: Final = ("read", "write", "load", "gather", "store", "copy")


@dataclass(frozen=True, slots=True, eq=False)
class MemoryAccess:
    """One access: `op` touches `extents` elements of `memory` from `starts` on, one number an axis.

    The shared end of a `copy` is an access of the whole buffer: starts are empty.
    A `gather` has a tile of indices among its starts.
    """

    op: Op
    memory: Value
    starts: tuple[Value, ...]
    extents: tuple[int, ...]
    writes: bool


@dataclass(frozen=True, slots=True, eq=False)
class Dependence:
    """Why the trips of a loop keep their order.

    kind: one of the words above; name: the value that is carried, or the memory
    first, second: two accesses that may meet in different trips, of which `first` writes
    """

    kind: str
    name: str = ""
    first: Op | None = None
    second: Op | None = None


def accesses_of(op: Op) -> tuple[MemoryAccess, ...]:
    """The accesses of one operation; a copy reads its source, then writes its destination."""
    operands = op.operands
    match op.opcode:
        case "read":
            return (MemoryAccess(op, operands[0], operands[1:], (1,) * (len(operands) - 1), False),)
        case "write":
            return (MemoryAccess(op, operands[0], operands[2:], (1,) * (len(operands) - 2), True),)
        case "load" | "gather":
            return (MemoryAccess(op, operands[0], operands[1:], extents_of(op), False),)
        case "store":
            return (MemoryAccess(op, operands[0], operands[2:], extents_of(op), True),)
        case "copy":
            return (
                MemoryAccess(op, operands[1], operands[2:], extents_of(op), False),
                MemoryAccess(op, operands[0], (), (), True),
            )
        case _:
            return ()


def accesses(block: Block) -> list[MemoryAccess]:
    """Every access inside `block`, in program order."""
    return [access for op in block.walk() for access in accesses_of(op)]


def extents_of(op: Op) -> tuple[int, ...]:
    """The `extents` of a load, store or copy."""
    given = op.attributes["extents"]
    return tuple(e for e in given if isinstance(e, int)) if isinstance(given, tuple) else ()


def written_arrays(block: Block) -> set[Value]:
    """The memory that `block` writes."""
    return {access.memory for access in accesses(block) if access.writes}


def may_be_one(a: Value, b: Value, written: set[Value]) -> bool:
    """Return whether two parameters may be given one array: only one is `written`, and their types may be the same."""
    if a is b:
        return True
    one, other = a.type, b.type
    if not isinstance(one, Array) or not isinstance(other, Array) or {a, b} <= written or one.dtype != other.dtype:
        return False
    if len(one.shape) != len(other.shape):
        return False
    fixed = [(x, y) for x, y in zip(one.shape, other.shape, strict=True) if isinstance(x, int) and isinstance(y, int)]
    return all(x == y for x, y in fixed)


class Dependences:
    """The dependences of the loops of one Program."""

    def __init__(self, program: Program) -> None:
        self.definitions = Definitions(program)
        self._found: dict[Op, Dependence | None] = {}

    def of(self, loop: Op) -> Dependence | None:
        """Why the trips of a tile loop must run in order; None where they need not."""
        if loop not in self._found:
            self._found[loop] = self.without(loop, frozenset())
        return self._found[loop]

    def length(self, loop: Op) -> Expression | None:
        """Upper less lower bound of `loop`, where that is an expression of shape symbols, in constant steps."""
        step = self.definitions.constant(loop.operands[2])
        if step is None or step < 1:
            return None
        lower, upper = loop.operands[:2]
        bounds = Bounds(loop, self.definitions)
        low, high = bounds.of(lower).exact, bounds.of(upper).exact
        if low is not None and high is not None and low.terms == high.terms:
            return high.constant - low.constant
        first, last = self.definitions.expression(lower), self.definitions.expression(upper)
        return None if first is None or last is None else make("sub", last, first)

    def without(self, loop: Op, left_out: frozenset[Op]) -> Dependence | None:
        """Return why the trips of a loop depend on each other, as if `left_out` accessed nothing."""
        asked = loop.attributes.get("parallel")
        if loop.results:
            return Dependence(CARRIED, loop.results[0].name, loop)
        if asked is not None:
            return None if asked else Dependence(ASKED)
        by_memory: dict[Value, list[MemoryAccess]] = {}
        for access in accesses(loop.regions[0]):
            if access.op in left_out:
                continue
            by_memory.setdefault(access.memory, []).append(access)
        bounds: Bounds | None = None
        for memory, touched in by_memory.items():
            if not any(access.writes for access in touched):
                continue
            if isinstance(memory.type, Shared):
                found = None if _fresh(memory, loop, touched, self.definitions) else _kept(memory, touched)
            else:
                bounds = bounds or Bounds(loop, self.definitions)
                found = self._meeting(touched, loop, bounds)
            if found is not None:
                return found
        return None

    def no_alias(self, loop: Op, written: set[Value]) -> set[tuple[Value, Value]]:
        """Arrays (one written, one read) that must not be one array for the trips of `loop` to be independent."""
        by_memory: dict[Value, list[MemoryAccess]] = {}
        for access in accesses(loop.regions[0]):
            by_memory.setdefault(access.memory, []).append(access)
        bounds = Bounds(loop, self.definitions)
        found: set[tuple[Value, Value]] = set()
        for mine, theirs in itertools.product(by_memory, by_memory):
            if mine is theirs or mine not in written or not may_be_one(mine, theirs, written):
                continue
            touched = [*(access for access in by_memory[mine] if access.writes), *by_memory[theirs]]
            if self._meeting(touched, loop, bounds) is not None:
                found.add((mine, theirs))
        return found

    def _meeting(self, touched: Sequence[MemoryAccess], loop: Op, bounds: Bounds) -> Dependence | None:
        """Two accesses of one array that may meet in different trips."""
        step = self.definitions.constant(loop.operands[2]) or 0
        windows = [tuple(_windows(access, axis, bounds) for axis in range(len(access.starts))) for access in touched]
        for a, mine in zip(touched, windows, strict=True):
            if not a.writes:
                continue
            for b, theirs in zip(touched, windows, strict=True):
                if not any(_are_disjoint(x, y, step) for x, y in zip(mine, theirs, strict=True)):
                    return Dependence(MEETS, a.memory.name, a.op, b.op)
        return None


_Terms = frozenset[tuple[object, int]]
_Window = tuple[int, int, int]
"""A factor of the index, and the first and the last element from there on."""


def _windows(access: MemoryAccess, axis: int, bounds: Bounds) -> Mapping[_Terms, _Window]:
    """The windows of an access along an axis that move with the index, by what else they move with."""
    if isinstance(access.starts[axis].type, Tile):  # indices that nothing is known of
        return {}
    found = bounds.of(access.starts[axis])
    made: dict[_Terms, _Window] = {}
    for low in found.low:
        coefficient = low.coefficient(bounds.index)
        highs = [high.constant for high in found.high if high.terms == low.terms]
        if coefficient and highs:
            first, last = low.constant, min(highs) + access.extents[axis] - 1
            _, old_first, old_last = made.get(low.terms, (coefficient, first, last))
            made[low.terms] = (coefficient, max(first, old_first), min(last, old_last))
    return made


def _are_disjoint(mine: Mapping[_Terms, _Window], theirs: Mapping[_Terms, _Window], step: int) -> bool:
    """Return whether two accesses never meet in different trips: together no wider than a step moves them."""
    for terms, (coefficient, first, last) in mine.items():
        if terms in theirs:
            _, other_first, other_last = theirs[terms]
            if max(last, other_last) - min(first, other_first) + 1 <= abs(coefficient) * step:
                return True
    return False


def _fresh(memory: Value, loop: Op, touched: Sequence[MemoryAccess], definitions: Definitions) -> bool:
    """A shared buffer that each trip fills before it reads it, or that is made inside the loop."""
    maker = definitions.makers.get(memory)
    if maker is None or maker.opcode != "alloc":
        return False  # a buffer chosen by a select: which one a trip finds depends on the trips before
    if any(op is maker for op in loop.regions[0].walk()):
        return True
    first = touched[0]
    return first.op.opcode == "copy" and first.writes and any(op is first.op for op in loop.regions[0].ops)


def _kept(memory: Value, touched: Sequence[MemoryAccess]) -> Dependence:
    writer = next(access.op for access in touched if access.writes)
    return Dependence(KEPT, memory.name, writer, touched[0].op)
