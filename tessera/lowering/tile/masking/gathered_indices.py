"""The indices of a gather that lie inside the array, as a condition on the tile's axis."""

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.types import BOOL
from tessera.lowering.analysis.valid_elements import Flags
from tessera.lowering.base.attributes import integer, text
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import defining

_LESS, _AT_LEAST = 2, 5  # of signed integers, as `arith.cmpi` numbers its predicates


def indices_inside(gather: AnyOp, end: int | str, extent: int) -> Flags:
    """Emit `0 <= index < end` for the row of indices that a gather repeats along its other axes.

    before: `%t = tessera.gather %W[%rows, %c:+64]`, `%rows = tessera.broadcast (tessera.reshape %ids)`
    after:  `%a = arith.cmpi sge %ids, 0`, `%b = arith.cmpi slt %ids, %n`, `%in = arith.andi %a, %b` before it
    """
    index = gather.operands[1]
    while (maker := defining(index)) is not None and maker.name in ("tessera.broadcast", "tessera.reshape"):
        index = maker.operands[0]
        if ir.ShapedType(index.type).rank == 1:
            break
    emit = Emitter.before(gather)
    kind, flags = index.type, emit.type(f"tensor<{extent}x{BOOL}>")
    size = emit.value("tessera.dim", [], "i64", {"symbol": text(end)}) if isinstance(end, str) else None
    last = emit.constant(int(end), kind) if size is None else emit.value("tensor.splat", [size], kind)
    known = [
        emit.value("arith.cmpi", [index, bound], flags, {"predicate": integer(predicate)})
        for bound, predicate in ((emit.constant(0, kind), _AT_LEAST), (last, _LESS))
    ]
    return Flags("given", (extent,), (emit.value("arith.andi", known, flags),))
