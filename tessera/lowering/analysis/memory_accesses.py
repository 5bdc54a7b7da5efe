"""The accesses of memory inside an operation, in one form: `read`, `write`, `load`, stores and both ends of `copy`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.verify import is_shared
from tessera.lowering.analysis.affine_forms import affine_form
from tessera.lowering.analysis.integers import Bounds, IntegerRanges
from tessera.lowering.analysis.valid_elements import WHOLE, Item, Limit
from tessera.lowering.base.attributes import dropped_axes, from_attribute
from tessera.lowering.base.ir_walk import operations

WRITES: Final = {"tessera.write": 0, "tessera.store": 0, "tessera.masked_store": 0, "tessera.copy": 0}
READS: Final = {"tessera.read": 0, "tessera.load": 0, "tessera.gather": 0, "tessera.copy": 1}
"""What writes and reads memory, and which operand the memory is."""
ACCESSES: Final = (
    "tessera.read",
    "tessera.write",
    "tessera.load",
    "tessera.gather",
    "tessera.store",
    "tessera.masked_store",
    "tessera.copy",
)

ANYWHERE: Final = 1 << 62
"""The extent of an access along an axis of which nothing is known."""

Shapes = dict[ir.Value, tuple[int | str, ...]]
"""The extents of each array."""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One access: `op` touches `extents` elements of `memory` from `starts` on, one number an axis.

    The shared end of a `copy` is an access of the whole buffer: starts are empty.
    """

    op: AnyOp
    memory: ir.Value
    starts: tuple[ir.Value, ...]
    extents: tuple[int, ...]
    writes: bool

    @property
    def shared(self) -> bool:
        """Return whether the memory is a group's shared buffer."""
        return is_shared(self.memory.type)

    @property
    def whole(self) -> bool:
        """Return whether this is the shared end of a copy."""
        return self.op.name == "tessera.copy" and self.writes


def accesses(root: AnyOp | ir.Module) -> list[Access]:
    """Return every access inside `root` in program order; a copy reads its source, then writes its destination."""
    found: list[Access] = []
    for op in operations(root, *ACCESSES):
        found += accesses_of(op)
    return found


def accesses_of(op: AnyOp) -> list[Access]:
    """Return the accesses of one operation."""
    operands = list(op.operands)
    match op.name:
        case "tessera.read":
            return [Access(op, operands[0], tuple(operands[1:]), (1,) * (len(operands) - 1), False)]
        case "tessera.write":
            return [Access(op, operands[0], tuple(operands[2:]), (1,) * (len(operands) - 2), True)]
        case "tessera.load":
            return [Access(op, operands[0], tuple(operands[1:]), extents_of(op), False)]
        case "tessera.gather":
            axis = ir.IntegerAttr(op.attributes["axis"]).value
            extents = (ANYWHERE if a == axis else extent for a, extent in enumerate(extents_of(op)))
            return [Access(op, operands[0], tuple(operands[2:]), tuple(extents), False)]
        case "tessera.store":
            return [Access(op, operands[0], tuple(operands[2:]), extents_of(op), True)]
        case "tessera.masked_store":
            return [Access(op, operands[0], tuple(operands[3:]), extents_of(op), True)]
        case _:
            shape = tuple(ir.ShapedType(operands[0].type).shape)
            return [
                Access(op, operands[1], tuple(operands[2:]), extents_of(op), False),
                Access(op, operands[0], (), shape, True),
            ]


def extents_of(op: AnyOp) -> tuple[int, ...]:
    """Return the `extents` attribute."""
    return tuple(ir.DenseI64ArrayAttr(op.attributes["extents"]))


def array_shapes(function: AnyOp) -> Shapes:
    """Return the extents of the kernel's arrays, with the names of their symbols."""
    shapes: Shapes = {}
    arguments = function.regions[0].blocks[0].arguments
    for value, facts in zip(arguments, ir.ArrayAttr(function.attributes["arg_attrs"]), strict=True):
        known = ir.DictAttr(facts)
        if "tessera.shape" in known:
            shape = from_attribute(known["tessera.shape"])
            shapes[value] = tuple(e for e in shape if isinstance(e, int | str)) if isinstance(shape, tuple) else ()
    return shapes


def group_of(function: AnyOp) -> tuple[int, ...] | None:
    """Return the kernel's `tile[...]`, or None."""
    if "tessera.group" not in function.attributes:
        return None
    group = from_attribute(function.attributes["tessera.group"])
    return tuple(e for e in group if isinstance(e, int)) if isinstance(group, tuple) else None


def window_limits(
    op: AnyOp, memory: ir.Value, starts: Sequence[ir.Value], shapes: Shapes, facts: IntegerRanges | None = None
) -> list[Item]:
    """Return the limits that the tile of a load or store keeps where it is inside the memory, axis by axis.

    facts: what is known of the starts; limits that are certainly kept are left out
    """
    dropped = dropped_axes(op)
    kept = [axis for axis in range(len(starts)) if axis not in dropped]
    shape = shapes.get(memory) or tuple(ir.ShapedType(memory.type).shape)
    items: list[Item] = []
    for axis, (start, extent, end) in enumerate(zip(starts, extents_of(op), shape, strict=True)):
        place = kept.index(axis) if axis in kept else WHOLE
        bounds = None if facts is None else facts.bounds(start)
        if bounds is None or not _ends_inside(bounds, extent, end):
            items.append((place, Limit(affine_form(end) - affine_form(start), True, extent == 1, start, end)))
        if bounds is None or bounds.low < 0:
            items.append((place, Limit(affine_form(0) - affine_form(start), False, extent == 1, start, 0)))
    return items


def _ends_inside(bounds: Bounds, extent: int, end: int | str) -> bool:
    if isinstance(end, int):
        return bounds.high + extent <= end
    return end in bounds.above and bounds.above[end] + extent <= 0
