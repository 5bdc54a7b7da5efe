"""Spread the independent iterations of a kernel's tile loops over groups."""

from dataclasses import dataclass
from typing import Any, ClassVar

from tessera.core.mlir import ir
from tessera.lowering.emit import Emitter
from tessera.lowering.passes import Pass
from tessera.lowering.tile.access import Access, accesses
from tessera.lowering.tile.affine import Affine, affine
from tessera.lowering.tile.attributes import RANGES, text, to_attribute
from tessera.lowering.tile.bounds import knowledge
from tessera.lowering.tile.walk import body, constant, extent, kernel, operations

_MAX_RANGES = 3


@dataclass(frozen=True, slots=True)
class DistributeRanges(Pass):
    """Give each iteration of the outermost `tile.range`, and of those perfectly nested in it, a group of its own.

    before: `scf.for %m = 0 to %M step 64 kind tile { scf.for %n = 0 to %N step 64 kind tile { ... } }`
    after:  the inner body at top level, `%m` and `%n` computed from `tessera.id group`; the function says
            `tessera.ranges = [["M", 64], ["N", 64]]`, from which the launcher counts groups
    keeps:  loops that carry values, whose bounds are not 0 to an extent, in kernels that use ids or touch memory
            outside the loop; loops of which two iterations might touch one element that some iteration writes
    """

    name: ClassVar[str] = "tile-distribute-ranges"

    def run(self, module: Any) -> None:
        """Distribute the kernel's outermost loops where that is provably legal."""
        function = kernel(module)
        if operations(function, "tessera.id"):
            return
        loops = _nest(function)
        if loops:
            _distribute(function, loops)


def _nest(function: Any) -> list[Any]:
    """The loops to spread, outer first."""
    loops: list[Any] = []
    block = body(function)
    while len(loops) < _MAX_RANGES:
        loop = _only_effect(block)
        if loop is None or not _plain(loop) or not _independent(loop):
            break
        loops.append(loop)
        block = body(loop)
    return loops


def _only_effect(block: Any) -> Any | None:
    """The tile loop that is all `block` does, apart from computing values."""
    found = None
    for view in list(block.operations)[:-1]:
        op = view.operation
        if op.name == "scf.for" and "tessera.kind" in op.attributes and found is None:
            found = op
        elif op.regions or not _harmless(op):
            return None
    return found if found is not None and found.attributes["tessera.kind"] == text("tile") else None


def _harmless(op: Any) -> bool:
    dialect = op.name.partition(".")[0]
    return dialect in ("arith", "math", "tensor") or op.name in ("tessera.dim", "tessera.alloc")


def _plain(loop: Any) -> bool:
    """Counts from 0 to an extent in constant steps, and carries nothing."""
    lower, upper, step = list(loop.operands)[:3]
    counts = constant(lower) == 0 and extent(upper) is not None and (constant(step) or 0) > 0
    return counts and not loop.results


def _independent(loop: Any) -> bool:
    """No two iterations touch one element that either of them writes."""
    index, step = body(loop).arguments[0], constant(loop.operands[2]) or 0
    by_memory: dict[Any, list[Access]] = {}
    for access in accesses(loop):
        by_memory.setdefault(access.memory, []).append(access)
    return all(
        _fresh(memory, loop, touched) if touched[0].shared else _disjoint(touched, index, step)
        for memory, touched in by_memory.items()
        if any(access.writes for access in touched)
    )


def _disjoint(touched: list[Access], index: Any, step: int) -> bool:
    """Some axis along which every access stays in a window that moves with the loop at least by its own width."""
    return any(_moves(touched, axis, index, step) for axis in range(len(touched[0].starts)))


def _moves(touched: list[Access], axis: int, index: Any, step: int) -> bool:
    windows: list[Affine] = []
    for access in touched:
        start = affine(access.starts[axis], index, knowledge(access.op))
        if start is None or start.coefficient <= 0:
            return False
        windows.append(start + Affine(0, 0, access.extents[axis] - 1))
    first = windows[0].coefficient
    width = max(w.high for w in windows) - min(w.low for w in windows) + 1
    return all(w.coefficient == first for w in windows) and width <= first * step


def _fresh(memory: Any, loop: Any, touched: list[Access]) -> bool:
    """A shared buffer that each iteration fills before it reads it (or that is made inside the loop)."""
    owner = memory.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "tessera.alloc":
        return False  # a buffer chosen by a select: which one an iteration finds depends on the iterations before
    parent = owner.operation.parent
    while parent is not None:
        if parent.operation == loop:
            return True
        parent = parent.operation.parent
    first = touched[0]
    return first.whole and first.op.parent.operation == loop


def _distribute(function: Any, loops: list[Any]) -> None:
    """Replace `loops` by their innermost body, at top level."""
    outer = loops[0]
    emit = Emitter.before(outer)
    function.attributes[RANGES] = to_attribute(
        tuple((extent(loop.operands[1]), constant(loop.operands[2])) for loop in loops)
    )
    indices = _indices(emit, loops)
    for loop, index in zip(loops, indices, strict=True):
        body(loop).arguments[0].replace_all_uses_with(index)
    for loop in loops:
        for view in list(body(loop).operations)[:-1]:
            if view.operation not in loops:
                view.operation.move_before(outer)
    outer.erase()


def _indices(emit: Emitter, loops: list[Any]) -> list[Any]:
    """Each loop's index as a function of the group's number; the innermost loop runs fastest."""
    with emit.located(loops[0].location):
        group = emit.value("tessera.id", [], "i64", {"of": text("group")})
    numbers: list[Any] = []
    for loop in reversed(loops[1:]):
        with emit.located(loop.location):
            count = _count(emit, loop)
            numbers.append(emit.value("arith.remui", [group, count], "i64"))
            group = emit.value("arith.divui", [group, count], "i64")
    numbers.append(group)
    made: list[Any] = []
    for loop, number in zip(loops, reversed(numbers), strict=True):
        with emit.located(loop.location):
            step = constant(loop.operands[2]) or 1
            made.append(number if step == 1 else emit.value("arith.muli", [number, emit.constant(step, "i64")], "i64"))
    return made


def _count(emit: Emitter, loop: Any) -> Any:
    """How many iterations `loop` has.  A loop without any has no groups, so nobody divides by 0."""
    step = constant(loop.operands[2]) or 1
    upper = extent(loop.operands[1])
    if isinstance(upper, int):
        return emit.constant(-(-upper // step), "i64")
    symbol = emit.value("tessera.dim", [], "i64", {"symbol": text(str(upper))})
    if step == 1:
        return symbol
    raised = emit.value("arith.addi", [symbol, emit.constant(step - 1, "i64")], "i64")
    return emit.value("arith.divui", [raised, emit.constant(step, "i64")], "i64")
