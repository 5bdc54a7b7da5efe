"""Emit two versions of a parallel region: most warps are full, and need no masks.

    if i < n: y[i] = x[i]      becomes      if all 32 lanes have i < n:  y[i] = x[i]   without any mask
                                            else:                       the same under a mask

Numbers of lanes below a bound are scalars, so asking whether a warp is full costs next to nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES
from tessera.lowering.analysis.ir_tree import Node
from tessera.lowering.base.emit import required
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.masked_control import MaskedControl
from tessera.lowering.cpu.simt.vector_lanes import below
from tessera.lowering.cpu.simt.vectors import Linear, Mask, Prefix, Scalar

_MOST: Final = 4
"""Bounds asked about at most: a warp that is full but for the others runs masked."""

_COMPARISONS: Final = ("arith.cmpi", "arith.andi", "arith.xori")

Facts = dict[frozenset[tuple[ir.Value, ir.Value]], ir.Value]


def in_versions(
    code: LaneContext, control: MaskedControl, nodes: Sequence[Node], mask: Mask, after: Callable[[Mask], None]
) -> None:
    """Emit `nodes` and then `after(mask)`, once for full warps and once for the others where that pays."""
    rest = _head(code, control, nodes, mask)
    counts = dict(list(_counts(code, rest, mask).items())[:_MOST]) if mask.vector is None else {}

    def version(now: Mask) -> Callable[[], list[ir.Value]]:
        def emit() -> list[ir.Value]:
            with code.scope():
                control.nodes(rest, now)
                after(now)
            return []

        return emit

    if not counts:
        version(mask)()
        return
    full: ir.Value | None = None
    for count in counts.values():
        this = code.vectors.compare("eq", count, code.vectors.constant(LANES, "i64"))
        full = this if full is None else code.kernel.flow.both(full, this)
    known = mask.facts.union(*counts)
    code.kernel.flow.branch(required(full), version(Mask(facts=known)), version(mask))


def _head(code: LaneContext, control: MaskedControl, nodes: Sequence[Node], mask: Mask) -> list[Node]:
    """Emit the scalar arithmetic that needs nothing of the rest; give the rest."""
    rest: list[Node] = []
    for node in nodes:
        if _is_head(code, node):
            control.nodes([node], mask)
        else:
            rest.append(node)
    return rest


def _is_head(code: LaneContext, node: Node) -> bool:
    if node.name in ("tessera.id", "tessera.dim"):
        return True
    if not node.name.startswith("arith."):
        return False
    lanes = [code.vectors.scope.find(v) for v in node.operands]
    if any(lane is None for lane in lanes):
        return False
    scalars = all(isinstance(lane, Scalar | Linear | Prefix) for lane in lanes)
    return code.shape(node.results[0]).kind != "varying" or (scalars and node.name in _COMPARISONS)


def _counts(code: LaneContext, nodes: Sequence[Node], mask: Mask) -> Facts:
    """Count the lanes below each bound that `nodes` ask about: all counts are 32 where the warp is full."""
    found: Facts = {}
    if mask.count is not None:
        found[mask.facts] = mask.count
    for node in nodes:
        for prefix in _prefixes(code, node):
            if prefix.exact:
                found.setdefault(prefix.facts, prefix.count)
    return found


def _prefixes(code: LaneContext, node: Node) -> Iterator[Prefix]:
    if node.name == "scf.if":
        condition = code.vectors.scope.find(node.operands[0])
        if isinstance(condition, Prefix):
            yield condition
    elif node.name in ("tessera.read", "tessera.write") and _is_here(code, node.operands[0]):
        flags = list(ir.DenseBoolArrayAttr(node.op.attributes["in_bounds"]))
        indices = node.operands[1:] if node.name == "tessera.read" else node.operands[2:]
        extents = code.array(node.operands[0]).extents
        for value, extent, inside in zip(indices, extents, flags, strict=True):
            lane = code.vectors.scope.find(value)
            if not inside and isinstance(lane, Linear) and lane.stride == 1 and code.shape(value).natural:
                yield below(code, lane.base, extent, safe=True)


def _is_here(code: LaneContext, memory: ir.Value) -> bool:
    return memory in code.arrays or code.vectors.scope.find(memory) is not None
