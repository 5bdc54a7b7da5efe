"""Decide where each tile value lives: computed where it is used, or kept in the thread's memory.

A *virtual* value has no memory: its readers compute the elements they need (a load reads the array then).  A
value in *scratch* is computed once, in program order.  Virtual is cheaper as long as little is computed twice.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.verify import is_shared
from tessera.lowering.analysis.aliasing import same_window
from tessera.lowering.analysis.ir_tree import Node, read_function
from tessera.lowering.analysis.liveness import Liveness
from tessera.lowering.base.attributes import integer, text
from tessera.lowering.base.ir_walk import LOOPS, defining, kernel, operations
from tessera.lowering.base.passes import Pass

_FREE: Final = frozenset(("arith.constant", "tensor.splat", "tessera.arange"))
_MOVES: Final = frozenset(("tessera.broadcast", "tessera.reshape", "tessera.transpose"))
_KEPT: Final = frozenset(("tessera.gather", "tessera.dot", "tessera.reduce", "tessera.softmax"))
_CONTROL: Final = frozenset(("scf.for", "scf.if", "scf.while"))
_ENDS: Final = frozenset(("scf.yield", "scf.condition"))
_FLOWS: Final = _CONTROL | _ENDS
_COSTS: Final = {
    **dict.fromkeys(("arith.divf", "math.sqrt", "math.rsqrt"), 8),
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "math.exp", "math.exp2"), 16),
    **dict.fromkeys(("math.log", "math.log2"), 20),
    **dict.fromkeys(("math.sin", "math.cos", "math.tanh", "math.erf", "math.powf", "arith.remf"), 40),
}
_GATHER: Final = 10
_LOOP: Final = 8
"""How often a loop of unknown length is taken to run."""
_DEEPEST: Final = 64
"""Operations computed for one reader, one inside the other.  Keeping one value in so many costs nothing, and whatever
follows expressions recursively has an end."""


@dataclass(frozen=True, slots=True)
class PlaceValues(Pass):
    """Mark each operation that makes a tile with `tessera.place`, "virtual" or "scratch".

    before: `%e = math.exp %x`, used by a sum and by a product
    after:  `%e = math.exp %x {tessera.place = "scratch"}`: it is expensive and read twice

    A load is virtual unless the kernel writes that array before the last reader.  What a loop hands on is in scratch;
    `tessera.replaces = i` lets an operation write its result over carried tile i, whose last reader it is.
    """

    name: ClassVar[str] = "tile-place-values"

    def run(self, module: ir.Module) -> None:
        """Mark every operation of the kernel."""
        _Placement(kernel(module)).mark()


class _Placement:
    """The placement of one kernel."""

    def __init__(self, function: AnyOp) -> None:
        self.ops = operations(function)[1:]
        self.liveness = Liveness(read_function(function), lambda node: self.virtual.get(node.op, False))
        self.names = {op: str(op.name) for op in self.ops}
        self.makers = [op for op in self.ops if self.names[op] not in _CONTROL and any(map(_is_tile, op.results))]
        self.virtual: dict[AnyOp, bool] = {}
        self._writes = self._places_of_writes()
        self._levels: dict[AnyOp, int] = {}
        self._reads: dict[AnyOp, int] = {}
        self._costs: dict[AnyOp, int] = {}
        self._aligned: dict[tuple[ir.Value, ir.Value], bool] = {}
        self._reached: dict[tuple[ir.Value, ir.Value], bool] = {}

    def mark(self) -> None:
        """Decide, users before what they use, and write the attributes."""
        for op in self.makers:
            self.cost(op)  # what it reads has its cost by now: none has to ask for another's
        for op in reversed(self.makers):
            self.reads(op)  # likewise, from the other end
            self.virtual[op] = self._is_virtual(op)
        for op in reversed(self.makers):
            if self.names[op] == "tessera.load" and self.virtual[op]:
                self.virtual[op] = not self._overwritten(op)
        # An operation's hash covers its attributes: everything is looked up before any is written.
        decisions = [(op, None if self.virtual[op] else self._replaces(op), self.virtual[op]) for op in self.makers]
        for op, carried, virtual in decisions:
            op.attributes["tessera.place"] = text("virtual" if virtual else "scratch")
            if carried is not None:
                op.attributes["tessera.replaces"] = integer(carried)

    def _places_of_writes(self) -> dict[ir.Value | None, list[int]]:
        """Return the positions of writes to each array, and under None of what may write shared memory."""
        found: dict[ir.Value | None, list[Node]] = {None: []}
        for op in self.ops:
            if self.names[op] in _WRITES:
                memory = op.operands[0] if op.operands else None
                if memory is not None:
                    found.setdefault(memory, []).append(self.liveness.node(op))
                if memory is None or is_shared(memory.type):
                    found[None].append(self.liveness.node(op))
        return {memory: self.liveness.positions(nodes) for memory, nodes in found.items()}

    # -- virtual or not ----------------------------------------------------------------------------------------

    def _is_virtual(self, op: AnyOp) -> bool:
        name = self.names[op]
        if name in _FREE:
            return True
        levels = self._levels[op] = 1 + max((self._levels[u] for u in self._virtual_users(op)), default=0)
        if levels > _DEEPEST and name != "tessera.load":
            return False
        if name in _KEPT or (name != "tessera.load" and self._handed_on(op)):
            return False
        if name == "tessera.transpose":
            return not _moves_vector_axis(op) or all(self.names[user] in _TURNING for user, _ in _uses(op.results[0]))
        if name == "tessera.reshape":
            return _only_units(op)
        if name == "tessera.broadcast":
            return True
        reads, cost = self.reads(op), self.cost(op)
        return reads <= 1 or cost * reads <= cost + 1 + reads

    def _virtual_users(self, op: AnyOp) -> Iterator[AnyOp]:
        return (user for user, _ in _uses(op.results[0]) if self.virtual.get(user, False))

    def _handed_on(self, op: AnyOp) -> bool:
        return any(self.names[user] in _FLOWS for user, _ in _uses(op.results[0]))

    def reads(self, op: AnyOp) -> int:
        """Return how often each element of `op`'s result is read, if it is not kept."""
        found = self._reads.get(op)
        if found is None:
            users = dict.fromkeys(user for user, _ in _uses(op.results[0]))
            found = self._reads[op] = sum(self._reads_of_user(op, user) for user in users)
        return found

    def _reads_of_user(self, op: AnyOp, user: AnyOp) -> int:
        times = _LOOP ** _loops_between(op, user)
        if self.virtual.get(user, False):
            times *= max(1, self.reads(user))
        if self.names[user] == "tessera.broadcast":
            before, after = _shape(user.operands[0]), _shape(user.results[0])
            # A row that repeats one element computes it once.
            last = max((axis for axis, extent in enumerate(after) if extent > 1), default=0)
            times *= math.prod(a for i, (b, a) in enumerate(zip(before, after, strict=True)) if b != a and i != last)
        return times

    def cost(self, op: AnyOp) -> int:
        """Return the cost of computing one element, in simple operations, with everything virtual it reads."""
        found = self._costs.get(op)
        if found is None:
            name = self.names[op]
            own = 0 if name in _FREE | _MOVES else _COSTS.get(name, 1)
            if name == "tessera.load" and not _consecutive(op):
                own = _GATHER
            makers = [defining(v) for v in op.operands if _is_tile(v)]
            found = own + sum(1 if m is None or self.names[m] in _KEPT | _CONTROL else self.cost(m) for m in makers)
            self._costs[op] = found
        return found

    # -- loads and the writes after them -----------------------------------------------------------------------

    def _overwritten(self, load: AnyOp) -> bool:
        """Return whether a reader of `load` may come after a write to the same memory."""
        memory = load.operands[0]
        # Any lane may write shared memory after a barrier, and buffers may take turns under one name.
        writes = self._writes.get(None if is_shared(memory.type) else memory, [])

        def in_place(reader: Node) -> bool:
            same = reader.name == "tessera.store" and same_window(load, reader.op)
            return same and self._aligned_value(reader.operands[1], load.results[0])

        return self.liveness.is_overwritten(self.liveness.node(load), writes, in_place)

    # -- results in place of carried tiles ---------------------------------------------------------------------

    def _replaces(self, op: AnyOp) -> int | None:
        """Return the number of the loop's carried tile that the result of `op` may overwrite; None for none."""
        loop = op.parent.operation if op.parent is not None else None
        if loop is None or self.names.get(loop) != "scf.for" or self.names[op] == "tessera.load":
            return None
        block = op.operation.block
        end = list(block.operations)[-1].operation
        places = [index for index, value in enumerate(end.operands) if value == op.results[0]]
        if len(places) != 1:
            return None
        (index,) = places
        carried = block.arguments[1 + index]
        if self.liveness.is_read_after(carried, self.liveness.node(op)):
            return None
        operand = 2 if self.names[op] == "tessera.dot" else 0
        if self.names[op] in ("tessera.reduce", *_MOVES):
            return None if self._depends(op, carried) else index
        if self.names[op] == "tessera.dot":
            aside = any(self._reaches(v, carried) for v in op.operands[:2])
            aligned = len(op.operands) < 3 or self._aligned_value(op.operands[operand], carried)
            return None if aside or not aligned else index
        return index if all(self._aligned_value(v, carried) for v in op.operands) else None

    def _depends(self, op: AnyOp, value: ir.Value) -> bool:
        return any(self._reaches(v, value) for v in op.operands)

    def _reaches(self, value: ir.Value, source: ir.Value) -> bool:
        """Return whether reading `value` reads the memory of `source`."""
        if value == source:
            return True
        found = self._reached.get((value, source))
        if found is None:
            op = defining(value)
            found = op is not None and self.virtual.get(op, False) and self._depends(op, source)
            self._reached[value, source] = found
        return found

    def _aligned_value(self, value: ir.Value, source: ir.Value) -> bool:
        """Return whether reading an element of `value` reads, of `source`, nothing but the same element."""
        op = defining(value)
        if value == source or op is None or not self.virtual.get(op, False):
            return True
        found = self._aligned.get((value, source))
        if found is None:
            if self.names[op] in _MOVES:
                found = not self._depends(op, source)
            else:
                found = all(self._aligned_value(v, source) for v in op.operands)
            self._aligned[value, source] = found
        return found


_WRITES: Final = frozenset(
    ("tessera.store", "tessera.masked_store", "tessera.write", "tessera.copy", "tessera.barrier", "tessera.group_sync")
)
_TURNING: Final = frozenset(("tessera.dot", "tessera.store", "tessera.masked_store", "tessera.transpose"))


def _is_tile(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def _shape(value: ir.Value) -> list[int]:
    return list(ir.ShapedType(value.type).shape)


def _uses(value: ir.Value) -> Iterator[tuple[AnyOp, int]]:
    for use in value.uses:
        yield use.owner.operation, use.operand_number


def _ancestors(op: AnyOp) -> list[AnyOp]:
    found: list[AnyOp] = []
    parent = op.parent
    while parent is not None:
        found.append(parent.operation)
        parent = parent.operation.parent
    return found


def _loops_between(op: AnyOp, user: AnyOp) -> int:
    """Return the loops around `user` that are not around `op`."""
    around = _ancestors(op)
    return sum(1 for a in _ancestors(user) if a not in around and str(a.name) in LOOPS)


def _consecutive(load: AnyOp) -> bool:
    """Return whether the tile's vectors lie side by side in memory."""
    extents = list(ir.DenseI64ArrayAttr(load.attributes["extents"]))
    last = max((axis for axis, extent in enumerate(extents) if extent > 1), default=len(extents) - 1)
    kind = ir.MemRefType(load.operands[0].type)
    plain = isinstance(kind.layout, ir.AffineMapAttr)
    return plain and all(extent == 1 for extent in list(kind.shape)[last + 1 :]) if kind.rank else True


def _moves_vector_axis(op: AnyOp) -> bool:
    """Return whether a transpose moves the axis along which vectors lie."""
    order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    before, after = _shape(op.operands[0]), _shape(op.results[0])
    kept = [axis for axis in order if before[axis] > 1]
    return kept != sorted(kept) and len(after) > 1


def _only_units(op: AnyOp) -> bool:
    """Return whether a reshape adds and drops axes of extent 1, no more."""
    return [e for e in _shape(op.operands[0]) if e > 1] == [e for e in _shape(op.results[0]) if e > 1]
