"""Check whether a kernel can keep its tiles in registers: it has no code for single lanes and no shared buffers."""

from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.lowering.base.ir_walk import is_tile, shape_of

_OPERATIONS: Final = frozenset(
    f"tessera.{name}"
    for name in ("id", "dim", "read", "write", "load", "gather", "store", "masked_store", "reduce", "dot", "broadcast",
                 "reshape", "transpose", "arange", "barrier")
) | {"scf.for", "scf.if", "scf.yield", "tensor.splat", "func.return"}  # fmt: skip
_IDS: Final = ("group", "grid_groups")


def eligible(operations: list[AnyOp], program: Program) -> bool:
    """Return whether a kernel made of `operations` can keep its tiles in registers, whatever their size."""
    if has_lanes(program) or not any(is_tile(v.type) for op in operations for v in op.results):
        return False
    return first_unfit(operations) is None


def has_lanes(program: Program) -> bool:
    """Return whether a kernel has code for single lanes."""
    return program.group is not None or program.domain.kind == "lanes"


def first_unfit(operations: list[AnyOp]) -> AnyOp | None:
    """Return the first operation that needs its tiles in memory; None where all do without."""
    return next((op for op in operations if not _fits(op)), None)


def _fits(op: AnyOp) -> bool:
    if op.name not in _OPERATIONS and op.name.partition(".")[0] not in ("arith", "math"):
        return False
    if op.name == "tessera.id":
        return ir.StringAttr(op.attributes["of"]).value in _IDS
    if op.name == "tessera.reshape":
        return _plain_reshape(op)
    if op.name == "tessera.reduce":
        return _plain_reduce(op)
    return op.name != "scf.for" or not any(is_tile(v.type) for v in list(op.operands)[:3])


def _plain_reduce(op: AnyOp) -> bool:
    """Return whether padding to powers of two leaves the elements in the order in which they are added."""
    element = ir.ShapedType(op.operands[0].type).element_type
    exact = ir.StringAttr(op.attributes["kind"]).value != "sum" or isinstance(element, ir.IntegerType)
    inner = [extent for extent in shape_of(op.operands[0]) if extent != 1][1:]
    return exact or "axis" in op.attributes or all(extent & (extent - 1) == 0 for extent in inner)


def _plain_reshape(op: AnyOp) -> bool:
    """Return whether padding to powers of two does not come between the elements."""
    before, after = (tuple(shape_of(v)) for v in (op.operands[0], op.results[0]))
    if [e for e in before if e != 1] == [e for e in after if e != 1]:
        return True
    return all(e & (e - 1) == 0 for e in (*before, *after))
