"""Find where the values are available that a condition on the elements of a tile is made of."""

from collections.abc import Iterator

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.valid_elements import Limit, Part, ValidElements
from tessera.lowering.base.ir_walk import ancestors


def available(part: Part, op: AnyOp) -> bool:
    """Return whether all values that a condition is made of are there before `op`."""
    around = [op.operation.block, *(outer.block for outer in ancestors(op) if outer.parent is not None)]
    return all(any(_block_of(v) == block for block in around) for v in _values(part))


def _block_of(value: ir.Value) -> ir.Block:
    return value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block


def _values(part: Part) -> Iterator[ir.Value]:
    """Yield the values of Tile IR in a condition."""
    for guard in part.guards:
        yield guard.a
        if guard.b is not None:
            yield guard.b
    if isinstance(part, Limit):
        yield from (v for v in (part.start, part.end) if isinstance(v, ir.Value))
        return
    for given in part.inputs:
        if isinstance(given, ir.Value):
            yield given
        elif isinstance(given, ValidElements):
            for _, inner in given.items:
                yield from _values(inner)
