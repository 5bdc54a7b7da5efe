"""Find the arrays that the launcher copies to padded rows, whose alignment TMA can read.

The copy cannot be avoided: every eighth row of 16-bit elements begins at the same offset within 16 bytes, but TMA
faults (as at an illegal instruction) where a box does not begin at a multiple of 16 bytes.
"""

from collections.abc import Callable

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.types import Array, Type
from tessera.lowering.base.ir_walk import walk
from tessera.lowering.cuda.schedule.multibuffer import only_products, source_load


def find_padded(dots: list[AnyOp], copied: Callable[[AnyOp], bool], possible: Callable[[AnyOp], bool]) -> set[AnyOp]:
    """Return the loads to pad: all operands of a product that need it, or none, since one pipeline copies them.

    copied: whether TMA reads a load's array as it is; possible: whether it could read a copy with padded rows
    """
    found: set[AnyOp] = set()
    for dot in dots:
        loads = [load for load in map(source_load, list(dot.operands)[:2]) if load is not None]
        wanted = [load for load in loads if not copied(load)]
        fit = all(possible(load) and only_products(load.results[0], dots) for load in wanted)
        if fit and any(_is_read_again(load) for load in wanted):
            found.update(wanted)
    return found


def is_gapless(kind: Type) -> bool:
    """Return whether the launcher can copy an array a row at a time: C order without gaps, rows beginning anywhere."""
    return isinstance(kind, Array) and kind.contiguous and not kind.aligned


def _is_read_again(load: AnyOp) -> bool:
    """Return whether several groups read the same elements: the address lacks one of the group's indices.

    Indices are quotients and remainders of the group's number.
    """
    block = load.operation.block
    while block.owner.operation.name != "func.func":
        block = block.owner.operation.block
    indices = {index for op in walk(block) if op.name == "tessera.id" for index in _indices(op.results[0])}
    seen: set[ir.Value] = set()
    waiting = list(load.operands)[1:]
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen.add(value)
            if not isinstance(value.owner, ir.Block) and value not in indices:
                waiting += list(value.owner.operation.operands)
    return not indices <= seen


def _indices(number: ir.Value) -> set[ir.Value]:
    """Return the indices that the group's number, or a part of it, is split into."""
    found: set[ir.Value] = set()
    for use in number.uses:
        op = use.owner.operation
        if op.name in ("arith.divui", "arith.remui") and use.operand_number == 0:
            found |= _indices(op.results[0])
        else:
            found.add(number)
    return found
