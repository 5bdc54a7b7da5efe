"""Which arrays the launcher copies so that their rows are aligned, for the copy engine to read.

There is no way around the copy: every eighth row of 16-bit elements begins at the same place within 16 bytes, but the
copy engine faults (as at an illegal instruction) where a window begins at no multiple of 16 bytes.
"""

from collections.abc import Callable
from typing import Any

from tessera.core.mlir import ir
from tessera.core.program.types import Array
from tessera.lowering.analysis.uniformity import walk
from tessera.lowering.cuda.schedule.multibuffer import only_products, source_load


def find_realigned(dots: list[Any], copied: Callable[[Any], bool], possible: Callable[[Any], bool]) -> set[Any]:
    """The loads of such arrays: all factors of a product that need it, or none, as they are copied ahead together.

    copied: whether the copy engine reads a load's array as it is; possible: whether it could read an aligned copy
    """
    found: set[Any] = set()
    for dot in dots:
        loads = [load for load in map(source_load, list(dot.operands)[:2]) if load is not None]
        wanted = [load for load in loads if not copied(load)]
        fit = all(possible(load) and only_products(load.results[0], dots) for load in wanted)
        if fit and any(_is_read_again(load) for load in wanted):
            found.update(wanted)
    return found


def is_gapless(kind: Any) -> bool:
    """Whether the launcher can copy an array a row at a time: C order without gaps, rows beginning anywhere."""
    return isinstance(kind, Array) and kind.contiguous and not kind.aligned


def _is_read_again(load: Any) -> bool:
    """Whether several groups read the same elements: a load whose place has nothing of one of the group's indices.

    Indices are what divisions and remainders by counts make of the group's number.
    """
    block = load.block
    while block.owner.operation.name != "func.func":
        block = block.owner.operation.block
    indices = {index for op in walk(block) if op.name == "tessera.id" for index in _indices(op.results[0])}
    seen: set[Any] = set()
    waiting = list(load.operands)[1:]
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen.add(value)
            if not isinstance(value.owner, ir.Block) and value not in indices:
                waiting += list(value.owner.operation.operands)
    return not indices <= seen


def _indices(number: Any) -> set[Any]:
    """What the group's number, or a part of it, is taken apart into."""
    found: set[Any] = set()
    for use in number.uses:
        op = use.owner.operation
        if op.name in ("arith.divui", "arith.remui") and use.operand_number == 0:
            found |= _indices(op.results[0])
        else:
            found.add(number)
    return found
