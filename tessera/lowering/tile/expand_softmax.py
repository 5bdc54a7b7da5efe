"""Write a softmax as the operations it is made of."""

from dataclasses import dataclass
from typing import ClassVar

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.attributes import integer, text
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import operations
from tessera.lowering.base.passes import Pass


@dataclass(frozen=True, slots=True)
class ExpandSoftmax(Pass):
    """Spell out `softmax(x) = e * (1 / sum(e))` with `e = exp(x - max(x))`, along one axis.

    before: `%p = tessera.softmax %x {axis = 1} : tile<8x256xf32>`
    after:  `%m = tessera.reduce %x {axis = 1, kind = "max"}`, reshaped to 8x1 and broadcast to 8x256;
            `arith.subf`, `math.exp`, the same with "sum", `1 / sum` on the 8x1 tile, broadcast, `arith.mulf`
    """

    name: ClassVar[str] = "tile-expand-softmax"

    def run(self, module: ir.Module) -> None:
        """Expand every softmax of `module`."""
        for op in operations(module, "tessera.softmax"):
            _expand(op)


def _expand(op: AnyOp) -> None:
    emit = Emitter.before(op)
    x, axis = op.operands[0], ir.IntegerAttr(op.attributes["axis"]).value
    maximum = _along(emit, x, "max", axis)
    centred = emit.value("arith.subf", [x, _spread(emit, maximum, x.type)], x.type)
    e = emit.value("math.exp", [centred], x.type)
    total = _along(emit, e, "sum", axis)
    reciprocal = emit.value("arith.divf", [emit.constant(1, total.type), total], total.type)
    result = emit.value("arith.mulf", [e, _spread(emit, reciprocal, x.type)], x.type)
    op.results[0].replace_all_uses_with(result)
    op.erase()


def _along(emit: Emitter, tile: ir.Value, kind: str, axis: int) -> ir.Value:
    """Reduce `tile` along `axis`; the result keeps that axis, with extent 1."""
    shape, element = list(ir.ShapedType(tile.type).shape), ir.ShapedType(tile.type).element_type
    left = shape[:axis] + shape[axis + 1 :]
    kept = ir.RankedTensorType.get([*shape[:axis], 1, *shape[axis + 1 :]], element)
    result = ir.RankedTensorType.get(left, element) if left else element
    reduced = emit.value("tessera.reduce", [tile], result, {"kind": text(kind), "axis": integer(axis)})
    return emit.value("tessera.reshape" if left else "tensor.splat", [reduced], kept)


def _spread(emit: Emitter, tile: ir.Value, kind: ir.Type) -> ir.Value:
    return emit.value("tessera.broadcast", [tile], kind)
