"""Accesses to arrays that lanes could make in another order than the kernel says, if the team did not wait in between.

A lane's own accesses stay in order, but an element that one operation touches belongs to another lane in the next one,
where the places or the layouts differ; and what the copy engine stores arrives some time later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.lowering.base.attributes import dropped_axes

_READS: Final = ("tessera.load", "tessera.read")
_STORE: Final = "tessera.store"
_STORES: Final = {_STORE: 2, "tessera.masked_store": 3}
"""Of tiles, and the operand of each with which the starts begin."""
_WRITES: Final = (*_STORES, "tessera.write")


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """The operations in front of which the team waits; `behind_stores`: those that a store may come before."""

    waits: frozenset[Any] = frozenset()
    behind_stores: frozenset[Any] = frozenset()


def order_memory(operations: Sequence[Any]) -> MemoryOrder:
    """What has to wait in a kernel of these operations (outer before inner, in order).

    before: `tessera.store %a, %Y[0]`, `tessera.store %b, %Y[8]` of 64 elements each
    after:  the team waits in front of both: the second one's elements stay
    keeps:  stores that cannot meet, such as those of a loop to blocks of its step; arrays that are only read
    """
    arrays: dict[Any, list[Any]] = {}
    for op in operations:
        if op.name in (*_READS, *_WRITES):
            arrays.setdefault(op.operands[0], []).append(op)
    waits: set[Any] = set()
    behind: set[Any] = set()
    for accesses in arrays.values():
        writes = [op for op in accesses if op.name in _WRITES]
        if not writes or (len(writes) == len(accesses) and not _meet(writes)):
            continue
        waits.update(accesses)
        behind.update(op for number, op in enumerate(accesses) if _follows_store(op, accesses[:number], writes))
    return MemoryOrder(frozenset(waits), frozenset(behind))


def _follows_store(op: Any, before: Sequence[Any], writes: Sequence[Any]) -> bool:
    """Whether a store to the array of `op` comes before it in a group, be it in an earlier round of a loop."""
    loops = _loops(op)
    return any(write.name == _STORE and (write in before or loops & _loops(write)) for write in writes)


def _meet(writes: Sequence[Any]) -> bool:
    """Whether two of these writes, or one of them in two rounds of a loop, may reach the same element."""
    windows = [_Window.of(op) for op in writes]
    # Writes of single elements are all one lane's.
    return any(window.is_tile and not window.is_apart_from_itself() for window in windows) or any(
        (one.is_tile or other.is_tile) and not one.is_apart(other) for one, other in combinations(windows, 2)
    )


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a window begins along an axis: `number` elements behind a sum of values, each times a number."""

    values: Mapping[Any, int]
    number: int
    extent: int

    @staticmethod
    def of(value: Any, extent: int) -> "_Start":
        """The value taken apart, as far as it is a sum."""
        values: dict[Any, int] = {}
        number, waiting = 0, [(value, 1)]
        while waiting:
            found, factor = waiting.pop()
            op = None if isinstance(found.owner, ir.Block) else found.owner.operation
            known = _constant(found)
            if known is not None:
                number += factor * known
            elif op is not None and op.name == "arith.addi":
                waiting += [(operand, factor) for operand in op.operands]
            elif op is not None and op.name == "arith.muli" and (by := _constant(op.operands[1])) is not None:
                waiting.append((op.operands[0], factor * by))
            else:
                values[found] = values.get(found, 0) + factor
        return _Start(values, number, extent)

    def varies_in(self, loop: Any) -> bool:
        """Whether it differs from round to round."""
        return any(loop in _loops_of(value) for value in self.values)

    def step(self, loop: Any) -> int | None:
        """How far it moves from round to round of a loop; None where nobody knows."""
        index = loop.regions[0].blocks[0].arguments[0]
        others = [value for value in self.values if value != index and loop in _loops_of(value)]
        step = _constant(loop.operands[2])
        return None if others or step is None else abs(self.values.get(index, 0) * step)


@dataclass(frozen=True, slots=True)
class _Window:
    """What a store (`is_tile`) or a write of one element reaches, and the loops it is in."""

    is_tile: bool
    loops: frozenset[Any]
    starts: tuple[_Start, ...]

    @staticmethod
    def of(op: Any) -> "_Window":
        """The window of a store or write."""
        starts = list(op.operands)[_STORES.get(op.name, 2) :]
        extents = [1] * len(starts)
        if op.name in _STORES:
            dropped = dropped_axes(op)
            shape = iter(op.operands[1].type.shape)
            extents = [1 if axis in dropped else next(shape) for axis in range(len(starts))]
        return _Window(op.name in _STORES, _loops(op), tuple(map(_Start.of, starts, extents)))

    def is_apart_from_itself(self) -> bool:
        """Whether rounds of loops reach other elements, or the same ones by the same lanes."""
        return all(
            any((start.step(loop) or 0) >= start.extent for start in self.starts)
            for loop in self.loops
            if any(start.varies_in(loop) for start in self.starts)
        )

    def is_apart(self, other: "_Window") -> bool:
        """Whether two windows never share an element, whatever the rounds of the loops around both."""
        return any(_are_apart(a, b, self.loops & other.loops) for a, b in zip(self.starts, other.starts, strict=True))


def _are_apart(a: _Start, b: _Start, loops: frozenset[Any]) -> bool:
    """Whether what begins at `a` and what begins at `b` share no index along their axis."""
    if a.values != b.values:
        return False
    distance = b.number - a.number
    varying = [loop for loop in loops if a.varies_in(loop)]
    if not varying:
        return distance >= a.extent or -distance >= b.extent
    step = a.step(varying[0])
    if not step or len(varying) > 1:
        return False
    # The one's window repeats every `step`: between two of them there must be room for the other's.
    return distance % step >= a.extent and -distance % step >= b.extent


def _loops(op: Any) -> frozenset[Any]:
    """The loops around an operation."""
    return _loops_around(op.block)


def _loops_of(value: Any) -> frozenset[Any]:
    """The loops whose rounds a value may differ in: those around where it is made."""
    return _loops_around(value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block)


def _loops_around(block: Any) -> frozenset[Any]:
    found: set[Any] = set()
    while block.owner.operation.name != "func.func":
        owner = block.owner.operation
        if owner.name == "scf.for":
            found.add(owner)
        block = owner.block
    return frozenset(found)


def _constant(value: Any) -> int | None:
    op = None if isinstance(value.owner, ir.Block) else value.owner.operation
    return int(ir.IntegerAttr(op.attributes["value"]).value) if op is not None and op.name == "arith.constant" else None
