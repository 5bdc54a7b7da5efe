"""Mark the accesses that are proven to stay inside their array, so that no mask is computed for them."""

from dataclasses import dataclass
from typing import ClassVar

from tessera.core.mlir import ir
from tessera.lowering.analysis.integers import IntegerRanges, integer_ranges
from tessera.lowering.analysis.memory_accesses import ACCESSES, Access, accesses_of, array_shapes, group_of
from tessera.lowering.base.attributes import flags
from tessera.lowering.base.ir_walk import kernel, operations
from tessera.lowering.base.passes import Pass


@dataclass(frozen=True, slots=True)
class MaskEdges(Pass):
    """Set `in_bounds` on each axis along which an access cannot leave its memory, wherever it is executed.

    before: `scf.if (%i < %n) { tessera.read %x[%i] }` with `x: f32[n]`
    after:  `scf.if (%i < %n) { tessera.read %x[%i] in_bounds [0] }`
    keeps:  accesses that may cross an edge, e.g. the last block of a tile loop over an extent not known to divide;
            the flag says nothing of lanes that do not execute the access
    """

    name: ClassVar[str] = "tile-mask-edges"

    def run(self, module: ir.Module) -> None:
        """Mark every access of the kernel."""
        function = kernel(module)
        shapes, lanes = array_shapes(function), group_of(function)
        known: dict[ir.Block, IntegerRanges] = {}
        for op in operations(function, *ACCESSES):
            facts = known.setdefault(op.operation.block, integer_ranges(op, lanes))
            access = accesses_of(op)[0]
            op.attributes["in_bounds"] = flags(_proven(access, shapes, facts))


def _proven(access: Access, shapes: dict[ir.Value, tuple[int | str, ...]], facts: IntegerRanges) -> list[bool]:
    memory = access.memory
    shape = shapes.get(memory) or tuple(ir.ShapedType(memory.type).shape)
    return [
        _inside(start, extent, whole, facts)
        for start, extent, whole in zip(access.starts, access.extents, shape, strict=True)
    ]


def _inside(start: ir.Value, extent: int, whole: int | str, facts: IntegerRanges) -> bool:
    bounds = facts.bounds(start)
    if bounds is None or bounds.low < 0:
        return False
    if isinstance(whole, int):
        return bounds.high + extent <= whole
    return whole in bounds.above and bounds.above[whole] + extent <= 0
