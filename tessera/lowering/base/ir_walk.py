"""Find operations, and ask what a value is: the questions passes on Tile IR have in common."""

from collections.abc import Iterator
from typing import Final

from tessera.core.mlir import AnyOp, ir

LOOPS: Final = frozenset(("scf.for", "scf.while"))


def operations(root: AnyOp | ir.Module, *names: str) -> list[AnyOp]:
    """Return every operation inside `root` with one of `names` (any, without names), outer before inner."""
    found: list[AnyOp] = []

    def visit(op: AnyOp) -> ir.WalkResult:
        if not names or op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def walk(block: ir.Block) -> Iterator[ir.Operation]:
    """Yield every operation inside `block`, outer before inner."""
    for op in block.operations:
        yield op.operation
        for region in op.operation.regions:
            for inner in region.blocks:
                yield from walk(inner)


def is_memory(kind: ir.Type) -> bool:
    """Return whether a type is that of an array or a shared buffer."""
    return isinstance(kind, ir.MemRefType)


def is_tile(kind: ir.Type) -> bool:
    """Return whether a type is that of a tile."""
    return isinstance(kind, ir.RankedTensorType)


def kernel(module: ir.Module) -> ir.Operation:
    """Return the kernel's function, the only `func.func` of a Tile IR module."""
    return next(op.operation for op in module.body.operations if op.operation.name == "func.func")


def body(op: AnyOp) -> ir.Block:
    """Return the only block of an operation's first region."""
    return op.regions[0].blocks[0]


def defining(value: ir.Value) -> ir.Operation | None:
    """Return the operation that defines `value`, or None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def constant(value: ir.Value) -> int | None:
    """Return the integer that `value` is known to be, or None."""
    op = defining(value)
    if op is None or op.name != "arith.constant" or not isinstance(op.attributes["value"], ir.IntegerAttr):
        return None
    return int(ir.IntegerAttr(op.attributes["value"]).value)


def symbol(value: ir.Value) -> str | None:
    """Return the shape symbol whose extent `value` is, or None."""
    op = defining(value)
    if op is None or op.name != "tessera.dim":
        return None
    return str(ir.StringAttr(op.attributes["symbol"]).value)


def extent(value: ir.Value) -> int | str | None:
    """Return the number or the symbol that `value` is known to be, or None."""
    number = constant(value)
    return symbol(value) if number is None else number


def shape_of(value: ir.Value) -> list[int]:
    """Return the extents of a tile or an array."""
    return ir.ShapedType(value.type).shape


def element_of(value: ir.Value) -> str:
    """Return the text of the element type of a tile or an array."""
    return str(ir.ShapedType(value.type).element_type)


def ancestors(op: AnyOp) -> Iterator[ir.Operation]:
    """Yield the operations around `op`, inner before outer."""
    parent = op.parent
    while parent is not None:
        yield parent.operation
        parent = parent.operation.parent
