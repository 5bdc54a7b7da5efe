"""Find operations, and ask what a value is: the questions passes on Tile IR have in common."""

from collections.abc import Iterator

from tessera.core.mlir import AnyOp, ir


def operations(root: AnyOp | ir.Module, *names: str) -> list[AnyOp]:
    """Every operation inside `root` with one of `names` (any, without names), outer before inner."""
    found: list[AnyOp] = []

    def visit(op: AnyOp) -> ir.WalkResult:
        if not names or op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def kernel(module: ir.Module) -> ir.Operation:
    """The kernel's function: the only `func.func` of a Tile IR module."""
    return next(op.operation for op in module.body.operations if op.operation.name == "func.func")


def body(op: AnyOp) -> ir.Block:
    """The only block of an operation's first region."""
    return op.regions[0].blocks[0]


def defining(value: ir.Value) -> ir.Operation | None:
    """The operation that makes `value`, or None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def constant(value: ir.Value) -> int | None:
    """The integer that `value` is known to be, or None."""
    op = defining(value)
    if op is None or op.name != "arith.constant" or not isinstance(op.attributes["value"], ir.IntegerAttr):
        return None
    return int(ir.IntegerAttr(op.attributes["value"]).value)


def symbol(value: ir.Value) -> str | None:
    """The shape symbol whose extent `value` is, or None."""
    op = defining(value)
    if op is None or op.name != "tessera.dim":
        return None
    return str(ir.StringAttr(op.attributes["symbol"]).value)


def extent(value: ir.Value) -> int | str | None:
    """The number or the symbol that `value` is known to be, or None."""
    number = constant(value)
    return symbol(value) if number is None else number


def ancestors(op: AnyOp) -> Iterator[ir.Operation]:
    """The operations around `op`, inner before outer."""
    parent = op.parent
    while parent is not None:
        yield parent.operation
        parent = parent.operation.parent
