"""Spread the independent iterations of a kernel's tile loops over groups."""

from dataclasses import dataclass
from typing import ClassVar, Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.expressions import Expression, read_expression, translate
from tessera.lowering.analysis.memory_accesses import accesses
from tessera.lowering.base.attributes import LENGTH, RANGES, from_attribute, text, to_attribute
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import body, constant, kernel, operations
from tessera.lowering.base.passes import Pass

_MAX_RANGES: Final = 4
_PURE: Final = tuple(f"tessera.{name}" for name in ("arange", "broadcast", "reshape", "transpose", "reduce", "softmax"))
"""Operations on tiles that each group may do again."""
_ARITHMETIC: Final = {
    "add": "arith.addi", "sub": "arith.subi", "mul": "arith.muli", "divide": "arith.divui", "min": "arith.minsi",
    "max": "arith.maxsi",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DistributeRanges(Pass):
    """Give each iteration of the outermost `tile.range`, and of those perfectly nested in it, a group of its own.

    before: `%s = load %w; scf.for %m = 1 to %M step 64 kind tile { scf.for %n = 0 to %N step 64 kind tile { ... } }`
    after:  `%s = load %w` and the inner body at top level, `%m` and `%n` computed from `tessera.id group`; the function
            says `tessera.ranges = [[M - 1, 64], [N, 64]]`, from which the launcher counts groups
    keeps:  loops that are not marked as independent, in kernels that use ids or do more than each group may do again
    """

    name: ClassVar[str] = "tile-distribute-ranges"

    def run(self, module: ir.Module) -> None:
        """Distribute the kernel's outermost loops where that is provably legal."""
        function = kernel(module)
        if operations(function, "tessera.id"):
            return
        loops = _nest(function)
        if loops:
            _distribute(function, loops)


def _nest(function: AnyOp) -> list[AnyOp]:
    """Return the loops to spread, outer first."""
    loop = _outermost(function)
    loops: list[AnyOp] = []
    while loop is not None and LENGTH in loop.attributes and len(loops) < _MAX_RANGES:
        loops.append(loop)
        loop = _only_effect(body(loop))
    return loops


def _outermost(function: AnyOp) -> ir.Operation | None:
    """Return the tile loop that is all a kernel does, apart from computing values that each group can recompute."""
    written = [access.memory for access in accesses(function) if access.writes]
    found = None
    for view in list(body(function).operations)[:-1]:
        op = view.operation
        if found is None and _is_tile_loop(op):
            found = op
        elif not _recomputed(op, written):
            return None
    return found


def _recomputed(op: AnyOp, written: list[ir.Value]) -> bool:
    """Return whether each group may repeat what is outside the loop: it is cheap, and reads what is not written."""
    if _harmless(op) or op.name in _PURE:
        return True
    return op.name in ("tessera.read", "tessera.load") and op.operands[0] not in written


def _only_effect(block: ir.Block) -> ir.Operation | None:
    """Return the tile loop that is all `block` does, apart from computing indices and constants."""
    found = None
    for view in list(block.operations)[:-1]:
        op = view.operation
        if found is None and _is_tile_loop(op):
            found = op
        elif op.regions or not _harmless(op):
            return None
    return found


def _is_tile_loop(op: AnyOp) -> bool:
    return op.name == "scf.for" and "tessera.kind" in op.attributes and op.attributes["tessera.kind"] == text("tile")


def _harmless(op: AnyOp) -> bool:
    dialect = op.name.partition(".")[0]
    return dialect in ("arith", "math", "tensor") or op.name in ("tessera.dim", "tessera.alloc")


def _distribute(function: AnyOp, loops: list[AnyOp]) -> None:
    """Replace `loops` by their innermost body, at top level."""
    outer = loops[0]
    emit = Emitter.before(outer)
    function.attributes[RANGES] = to_attribute(tuple((_length(loop), constant(loop.operands[2])) for loop in loops))
    indices = _indices(emit, loops)
    for loop, index in zip(loops, indices, strict=True):
        body(loop).arguments[0].replace_all_uses_with(_from(loop, index))
    for loop in loops:
        for view in list(body(loop).operations)[:-1]:
            if view.operation not in loops:
                view.operation.move_before(outer)
    outer.erase()


def _length(loop: AnyOp) -> Expression:
    return read_expression(from_attribute(loop.attributes[LENGTH]))


def _from(loop: AnyOp, distance: ir.Value) -> ir.Value:
    """Return the index that is `distance` after the loop's lower bound."""
    lower = loop.operands[0]
    if constant(lower) == 0:
        return distance
    emit = Emitter.before(loop)
    with emit.located(loop.location):
        return emit.value("arith.addi", [lower, distance], "i64")


def _indices(emit: Emitter, loops: list[AnyOp]) -> list[ir.Value]:
    """Return how far each loop's index is from its first, by the group's number; the innermost runs fastest."""
    with emit.located(loops[0].location):
        group = emit.value("tessera.id", [], "i64", {"of": text("group")})
    numbers: list[ir.Value] = []
    for loop in reversed(loops[1:]):
        with emit.located(loop.location):
            count = _count(emit, loop)
            numbers.append(emit.value("arith.remui", [group, count], "i64"))
            group = emit.value("arith.divui", [group, count], "i64")
    numbers.append(group)
    made: list[ir.Value] = []
    for loop, number in zip(loops, reversed(numbers), strict=True):
        with emit.located(loop.location):
            step = constant(loop.operands[2]) or 1
            made.append(number if step == 1 else emit.value("arith.muli", [number, emit.constant(step, "i64")], "i64"))
    return made


def _count(emit: Emitter, loop: AnyOp) -> ir.Value:
    """Return how many iterations `loop` has.  A loop without any has no groups, so 0 is never divided by."""
    step = constant(loop.operands[2]) or 1
    length = _length(loop)
    if isinstance(length, int):
        return emit.constant(-(-length // step), "i64")
    whole = translate(length, _Values(emit))
    if step == 1:
        return whole
    raised = emit.value("arith.addi", [whole, emit.constant(step - 1, "i64")], "i64")
    return emit.value("arith.divui", [raised, emit.constant(step, "i64")], "i64")


@dataclass(frozen=True, slots=True)
class _Values:
    """Makes operations of expressions."""

    emit: Emitter

    def leaf(self, leaf: int | str) -> ir.Value:
        """Return a constant, or the value of a symbol."""
        if isinstance(leaf, int):
            return self.emit.constant(leaf, "i64")
        return self.emit.value("tessera.dim", [], "i64", {"symbol": text(leaf)})

    def apply(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit one operation."""
        return self.emit.value(_ARITHMETIC[name], [a, b], "i64")
