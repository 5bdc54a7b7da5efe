"""Which kernels are lowered with their tiles in registers: those without lanes of their own and shared buffers."""

from typing import Any, Final

from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.lowering.analysis.uniformity import is_tile

_OPERATIONS: Final = frozenset(
    f"tessera.{name}"
    for name in ("id", "dim", "read", "write", "load", "store", "masked_store", "reduce", "dot", "broadcast", "reshape",
                 "transpose", "arange", "barrier")
) | {"scf.for", "scf.if", "scf.yield", "tensor.splat", "func.return"}  # fmt: skip
_IDS: Final = ("group", "grid_groups")


def eligible(operations: list[Any], program: Program) -> bool:
    """Whether a kernel made of `operations` is one of them; how large its tiles are is another question."""
    if has_lanes(program) or not any(is_tile(v.type) for op in operations for v in op.results):
        return False
    return first_unfit(operations) is None


def has_lanes(program: Program) -> bool:
    """Whether a kernel says what single lanes do."""
    return program.group is not None or program.domain.kind == "lanes"


def first_unfit(operations: list[Any]) -> Any | None:
    """The first operation that needs its tiles in memory; None where all do without."""
    return next((op for op in operations if not _fits(op)), None)


def _fits(op: Any) -> bool:
    if op.name not in _OPERATIONS and op.name.partition(".")[0] not in ("arith", "math"):
        return False
    if op.name == "tessera.id":
        return ir.StringAttr(op.attributes["of"]).value in _IDS
    if op.name == "tessera.reshape":
        return _plain_reshape(op)
    if op.name == "tessera.reduce":
        return _plain_reduce(op)
    return op.name != "scf.for" or not any(is_tile(v.type) for v in list(op.operands)[:3])


def _plain_reduce(op: Any) -> bool:
    """Whether padding to powers of two leaves the elements in the order in which they are added."""
    exact = ir.StringAttr(op.attributes["kind"]).value != "sum" or isinstance(
        op.operands[0].type.element_type, ir.IntegerType
    )
    inner = [extent for extent in op.operands[0].type.shape if extent != 1][1:]
    return exact or "axis" in op.attributes or all(extent & (extent - 1) == 0 for extent in inner)


def _plain_reshape(op: Any) -> bool:
    """Whether padding to powers of two does not come between the elements."""
    before, after = (tuple(v.type.shape) for v in (op.operands[0], op.results[0]))
    if [e for e in before if e != 1] == [e for e in after if e != 1]:
        return True
    return all(e & (e - 1) == 0 for e in (*before, *after))
