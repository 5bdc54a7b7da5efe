"""Find memory accesses that need a barrier in between, so that lanes keep the order of the kernel.

A lane's own accesses stay in order, but an element that one operation touches belongs to another lane in the next one,
where the places or the layouts differ; and what TMA stores arrives some time later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.aliasing import AccessWindow, loops_around
from tessera.lowering.analysis.memory_accesses import accesses_of

_READS: Final = ("tessera.load", "tessera.gather", "tessera.read")
_STORE: Final = "tessera.store"
_STORES: Final = (_STORE, "tessera.masked_store")
"""Stores of tiles, by the whole team."""
_WRITES: Final = (*_STORES, "tessera.write")


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """List the operations that a barrier precedes; `behind_stores`: those that a store may come before."""

    waits: frozenset[AnyOp] = frozenset()
    behind_stores: frozenset[AnyOp] = frozenset()


def order_memory(operations: Sequence[AnyOp]) -> MemoryOrder:
    """Return which of a kernel's operations (outer before inner, in order) have to wait.

    before: `tessera.store %a, %Y[0]`, `tessera.store %b, %Y[8]` of 64 elements each
    after:  all warps wait before both: the second one's elements stay
    keeps:  stores that cannot meet, such as those of a loop to blocks of its step; arrays that are only read
    """
    arrays: dict[ir.Value, list[AnyOp]] = {}
    for op in operations:
        if op.name in (*_READS, *_WRITES):
            arrays.setdefault(op.operands[0], []).append(op)
    waits: set[AnyOp] = set()
    behind: set[AnyOp] = set()
    for accesses in arrays.values():
        writes = [op for op in accesses if op.name in _WRITES]
        if not writes or (len(writes) == len(accesses) and not _meet(writes)):
            continue
        waits.update(accesses)
        behind.update(op for number, op in enumerate(accesses) if _follows_store(op, accesses[:number], writes))
    return MemoryOrder(frozenset(waits), frozenset(behind))


def _follows_store(op: AnyOp, before: Sequence[AnyOp], writes: Sequence[AnyOp]) -> bool:
    """Return whether a store to the array of `op` comes before it in a group, or in an earlier iteration of a loop."""
    loops = loops_around(op)
    return any(write.name == _STORE and (write in before or loops & loops_around(write)) for write in writes)


def _meet(writes: Sequence[AnyOp]) -> bool:
    """Return whether two of these writes, or one of them in two iterations of a loop, may reach the same element."""
    windows = [(op.name in _STORES, AccessWindow.of(access)) for op in writes for access in accesses_of(op)]
    # Writes of single elements are all one lane's.
    return any(of_tile and not window.is_disjoint_across_iterations() for of_tile, window in windows) or any(
        (of_tile or other_of_tile) and not one.is_disjoint(other)
        for (of_tile, one), (other_of_tile, other) in combinations(windows, 2)
    )
