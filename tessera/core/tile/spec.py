"""The legality of Tile IR: one table of operations and one of types, checked where a stage begins and ends.

The verifiers of single operations are in `verify.py` and upstream; this says which operations there are at all.
"""

from typing import Final

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.dialect import OPERATIONS
from tessera.core.tile.location import spans
from tessera.core.tile.verify import is_shared

# What `to_tile` emits, and what upstream's simplification may make of it.
_ARITH: Final = (
    "addf addi andi bitcast cmpf cmpi constant divf divsi divui extf extsi extui fptosi fptoui maximumf maxsi maxui"
    " minimumf minsi minui mulf muli negf ori remf remsi remui select shli shrsi shrui sitofp subf subi truncf"
    " trunci uitofp xori"
)
_MATH: Final = "absf absi ceil copysign cos erf exp exp2 floor fma log log2 powf rsqrt sin sqrt tanh"
LEGAL_OPERATIONS: Final = frozenset(
    (
        *(f"arith.{name}" for name in _ARITH.split()),
        *(f"math.{name}" for name in _MATH.split()),
        *(f"tessera.{name}" for name in OPERATIONS),
        *("scf.for", "scf.if", "scf.while", "scf.condition", "scf.yield"),
        *("builtin.module", "func.func", "func.return", "tensor.splat"),
    )
)
"""Every operation a target must know."""

ELEMENTS: Final = frozenset(("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i64", "i32", "i16", "i8", "i1"))
"""Element types of scalars and tiles; memory holds all but i1."""


def legal_type(kind: ir.Type) -> bool:
    """Return whether a value of type `kind` may appear in Tile IR."""
    if isinstance(kind, ir.RankedTensorType):
        return kind.has_static_shape and kind.rank > 0 and str(kind.element_type) in ELEMENTS
    if isinstance(kind, ir.MemRefType):
        if str(kind.element_type) not in ELEMENTS - {"i1"}:
            return False
        return kind.has_static_shape if is_shared(kind) else kind.memory_space is None
    return str(kind) in ELEMENTS


def check_tile_ir(module: ir.Module, stage: str) -> None:
    """Raise `CompilerCrash`, naming `stage`, unless every operation and type of `module` is one of Tile IR's."""
    problems: list[tuple[str, ir.Location]] = []

    def visit(op: AnyOp) -> ir.WalkResult:
        if op.name not in LEGAL_OPERATIONS:
            problems.append((f"the operation {op.name}", op.location))
        problems.extend((f"the type {v.type}", op.location) for v in op.results if not legal_type(v.type))
        return ir.WalkResult.ADVANCE if not problems else ir.WalkResult.INTERRUPT

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    if problems:
        what, where = problems[0]
        msg = f"{stage}: {what} is not legal in Tile IR"
        raise CompilerCrash(msg, next(iter(spans(where)), NOWHERE))
