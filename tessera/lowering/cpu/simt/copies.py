"""Copies of blocks into shared memory."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES
from tessera.lowering.analysis.ir_tree import Node
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.memory import Index, LaneAddresses, indices_of, load_lanes, locate, store_lanes
from tessera.lowering.cpu.simt.vector_lanes import below
from tessera.lowering.cpu.simt.vectors import ALL, Linear, Scalar


def copy(code: LaneContext, node: Node) -> None:
    """`tessera.copy`: a block of an array into a shared buffer, row by row; what lies outside the array is 0.

    It is done at once, which is before the next barrier.
    """
    destination, source, *starts = node.operands
    extents = list(ir.DenseI64ArrayAttr(node.op.attributes["extents"]))
    indices = indices_of(code, node, starts, ALL)
    inner = max((axis for axis, extent in enumerate(extents) if extent > 1), default=len(extents) - 1)
    rows = [axis for axis, extent in enumerate(extents) if extent > 1 and axis != inner]
    target, array = code.array(destination), code.array(source)
    # A copy moves bits: as numbers, 16-bit floats would be widened on processors that have no such registers.
    stored = code.vectors.text(target.element)
    element = "i16" if stored in ("f16", "bf16") else stored

    last = code.vectors.constant(extents[inner], "i64")

    def row(remaining: Sequence[int], moved: list[Index], offset: ir.Value) -> None:
        """Copy the rows along the axes in `remaining`; `offset` counts rows of the destination."""
        if remaining:
            axis, *rest = remaining

            def inside(k: ir.Value) -> None:
                row(rest, _moved(code, moved, axis, k), _step(code, offset, extents[axis], k))

            _count(code, extents[axis], 1, inside)
            return
        start = code.vectors.integer("muli", offset, last)

        def chunk(k: ir.Value) -> None:
            whole = extents[inner] % LANES == 0
            mask = ALL if whole else code.vectors.narrow(ALL, below(code, k, last, safe=True))
            value = load_lanes(code, locate(code, array, _moved(code, moved, inner, k, stride=1), mask), element)
            base = code.vectors.integer("addi", start, k)
            store_lanes(code, LaneAddresses(target.pointer, base, 1, None, mask, None, narrow=True), value, element)

        _count(code, extents[inner], LANES, chunk)

    row(rows, indices, code.vectors.constant(0, "i64"))


def _count(code: LaneContext, extent: int, step: int, body: Callable[[ir.Value], None]) -> None:
    """Run `body(k)` for k = 0, step, ... below `extent`."""
    if extent <= step:
        body(code.vectors.constant(0, "i64"))
        return

    def inside(k: ir.Value) -> Sequence[ir.Value]:
        with code.scope():
            body(k)
        return []

    first, last, stride = (code.vectors.constant(n, "i64") for n in (0, extent, step))
    code.kernel.flow.count(first, last, stride, [], inside)


def _step(code: LaneContext, offset: ir.Value, extent: int, k: ir.Value) -> ir.Value:
    scaled = code.vectors.integer("muli", offset, code.vectors.constant(extent, "i64"))
    return code.vectors.integer("addi", scaled, k)


def _moved(code: LaneContext, indices: list[Index], axis: int, k: ir.Value, stride: int = 0) -> list[Index]:
    """Return the indices with `k` (+ lane * stride) added along `axis`."""
    base = code.vectors.integer("addi", code.base(indices[axis].lane), k)
    lane = Linear(base, stride) if stride else Scalar(base)
    return [replace(index, lane=lane) if number == axis else index for number, index in enumerate(indices)]
