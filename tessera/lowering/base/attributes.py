"""Plain values to MLIR attributes and back: how a kernel's facts travel with its function."""

from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Attribute

RANGES: Final = "tessera.ranges"
"""Function attribute: `[[length (an expression of shape symbols), step], ...]` of what is spread over groups."""
LENGTH: Final = "tessera.length"
"""Attribute of a loop whose trips do not depend on each other: how long it is, an expression of shape symbols."""


def integers(values: Sequence[int]) -> ir.DenseI64ArrayAttr:
    """Make `array<i64: ...>`."""
    return ir.DenseI64ArrayAttr.get([int(v) for v in values])


def flags(values: Sequence[bool]) -> ir.DenseBoolArrayAttr:
    """Make `array<i1: ...>`."""
    return ir.DenseBoolArrayAttr.get([bool(v) for v in values])


def integer(value: int) -> ir.IntegerAttr:
    """Make `value : i64`."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value))


def text(value: str) -> ir.StringAttr:
    """Make a string attribute."""
    return ir.StringAttr.get(value)


def to_attribute(value: Attribute) -> ir.Attribute:
    """Make the attribute for a number, bool, string, None or tuple of them."""
    match value:
        case None:
            return ir.UnitAttr.get()
        case bool():
            return ir.BoolAttr.get(value)
        case int():
            return integer(value)
        case float():
            return ir.FloatAttr.get(ir.F64Type.get(), value)
        case str():
            return text(value)
        case tuple():
            return ir.ArrayAttr.get([to_attribute(v) for v in value])


def dictionary(values: Mapping[str, Attribute]) -> ir.DictAttr:
    """Make a dictionary attribute."""
    return ir.DictAttr.get({name: to_attribute(value) for name, value in values.items()})


def from_attribute(attribute: ir.Attribute) -> Attribute:
    """Return the value that `to_attribute` was given; dense arrays come back as tuples too."""
    match attribute:
        case ir.BoolAttr() | ir.StringAttr() | ir.FloatAttr() | ir.IntegerAttr():
            return attribute.value
        case ir.ArrayAttr():
            return tuple(from_attribute(v) for v in attribute)
        case ir.DenseI64ArrayAttr() | ir.DenseBoolArrayAttr():
            return tuple(attribute)
        case ir.UnitAttr():
            return None
        case _:
            msg = f"no plain value for the attribute {attribute}"
            raise ValueError(msg)


def number_of(attribute: ir.Attribute) -> bool | int | float:
    """Return the number that an attribute holds.

    Raises:
        ValueError: it holds something else.
    """
    match attribute:
        case ir.BoolAttr() | ir.IntegerAttr() | ir.FloatAttr():
            return attribute.value
        case _:
            msg = f"no number: the attribute {attribute}"
            raise ValueError(msg)


# -- what operations of the `tessera` dialect say ----------------------------------------------------------------


def named_axis(op: AnyOp) -> int | None:
    """Return the axis of a `tessera.id` or `tessera.reduce`, or None."""
    return int(ir.IntegerAttr(op.attributes["axis"]).value) if "axis" in op.attributes else None


def dropped_axes(op: AnyOp) -> frozenset[int]:
    """Return the axes of the memory that the tile of a load, store or copy lacks."""
    return frozenset(ir.DenseI64ArrayAttr(op.attributes["dropped"]))


def proven_axes(op: AnyOp) -> list[bool]:
    """Return, for each axis of the memory, whether an access is known to stay inside."""
    return list(ir.DenseBoolArrayAttr(op.attributes["in_bounds"]))
