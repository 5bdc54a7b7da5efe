"""Analyse tiles of indices and comparisons of them, such as `tile.arange(n, n + 64)[None, :] < columns`."""

from typing import Final

from tessera.core.mlir import ir
from tessera.core.tile.verify import tile
from tessera.lowering.analysis.affine_forms import AffineForm, affine_form
from tessera.lowering.analysis.valid_elements import axis_groups
from tessera.lowering.base.ir_walk import defining

# Numbers of the predicates of arith.cmpi, for signed integers.
LESS: Final = 2
AT_MOST: Final = 3
GREATER: Final = 4
AT_LEAST: Final = 5
MIRRORED: Final = {LESS: GREATER, AT_MOST: AT_LEAST, GREATER: LESS, AT_LEAST: AT_MOST}
"""Predicates with their operands exchanged."""


def not_negative(condition: ir.Value, holds: bool) -> list[AffineForm]:
    """Return the differences that are not negative where a condition of a branch holds, or where it does not."""
    op = defining(condition)
    if op is None:
        return []
    if op.name == ("arith.andi" if holds else "arith.ori"):
        return [found for v in op.operands for found in not_negative(v, holds)]
    if op.name != "arith.cmpi" or str(op.operands[0].type) != "i64":
        return []
    a, b = map(affine_form, op.operands)
    one = affine_form(1)
    sides = {LESS: (b - a - one, a - b), AT_MOST: (b - a, a - b - one), GREATER: (a - b - one, b - a),
             AT_LEAST: (a - b, b - a - one)}  # fmt: skip
    found = sides.get(int(ir.IntegerAttr(op.attributes["predicate"]).value))
    return [] if found is None else [found[0 if holds else 1]]


def splat_number(value: ir.Value) -> float | None:
    """Return the number that all elements of a tile are, or None."""
    op = defining(value)
    if op is None or not isinstance(value.type, ir.RankedTensorType):
        return None
    if op.name == "arith.constant":
        attribute = ir.DenseElementsAttr(op.attributes["value"])
        return _plain(attribute.get_splat_value()) if attribute.is_splat else None
    inner = defining(op.operands[0]) if op.name == "tensor.splat" else None
    return _plain(inner.attributes["value"]) if inner is not None and inner.name == "arith.constant" else None


def _plain(attribute: ir.Attribute) -> float | None:
    value = attribute.value if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr) else None
    return None if value is None or str(value) == "-0.0" else value


def repeated_index(value: ir.Value) -> ir.Value | None:
    """Return the i64 that a tile repeats, or None."""
    op = defining(value)
    while op is not None and op.name in ("tessera.broadcast", "tessera.reshape"):
        op = defining(op.operands[0])
    if op is None or op.name != "tensor.splat" or str(op.operands[0].type) != "i64":
        return None
    return op.operands[0]


def counting_axis(value: ir.Value) -> tuple[int, AffineForm] | None:
    """Return the axis along which a tile of i64 counts up by one, and the form of its first number; or None."""
    op = defining(value)
    if op is None:
        return None
    if op.name == "tessera.arange":
        return 0, affine_form(op.operands[0])
    if op.name in ("arith.addi", "arith.subi"):
        for inner, number in (list(op.operands), list(reversed(op.operands)))[: 2 if op.name == "arith.addi" else 1]:
            found, shift = counting_axis(inner), repeated_index(number)
            if found is not None and shift is not None:
                moved = affine_form(shift) if op.name == "arith.subi" else affine_form(0) - affine_form(shift)
                return found[0], found[1] - moved
        return None
    if op.name not in ("tessera.reshape", "tessera.broadcast"):
        return None
    found = counting_axis(op.operands[0])
    before, after = (tile(v.type)[0] for v in (op.operands[0], op.results[0]))
    if found is None or op.name == "tessera.broadcast":
        return found if found is not None and before[found[0]] == after[found[0]] else None
    axes = {old[0]: new[0] for old, new in axis_groups(before, after) if len(old) == len(new) == 1}
    return (axes[found[0]], found[1]) if found[0] in axes else None
