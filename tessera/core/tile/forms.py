"""How single operations and types of Tile IR are written, for people."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.verify import is_shared

_PREDICATES: Final = {
    "arith.cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "arith.cmpf": ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
                   "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
}  # fmt: skip


def type_text(kind: ir.Type, shape: Sequence[str] | None = None) -> str:
    """`tile<64x64xf32>`, `array<?x64xf32>` (with `shape`, the extents' names), `shared<128xf32>`, or MLIR's text."""
    if isinstance(kind, ir.RankedTensorType):
        return f"tile<{_dimensions(kind)}{kind.element_type}>"
    if isinstance(kind, ir.MemRefType):
        head = "shared" if is_shared(kind) else "array"
        extents = "".join(f"{e}x" for e in shape) if shape is not None else _dimensions(kind)
        tail = ", xor" if is_shared(kind) and "xor" in str(kind.memory_space) else ""
        return f"{head}<{extents}{kind.element_type}{tail}>"
    return str(kind)


def attributes_text(attributes: Mapping[str, ir.Attribute]) -> str:
    """`{axis = 1, kind = "sum"}`, or nothing."""
    if not attributes:
        return ""
    return "{" + ", ".join(f"{n} = {attribute_text(attributes[n])}" for n in sorted(attributes)) + "}"


def attribute_text(attribute: ir.Attribute) -> str:
    """An attribute without its type."""
    if isinstance(attribute, ir.IntegerAttr | ir.StringAttr | ir.BoolAttr):
        value = attribute.value
        return f'"{value}"' if isinstance(value, str) else str(value).lower()
    if isinstance(attribute, ir.DenseI64ArrayAttr | ir.DenseBoolArrayAttr):
        return str([int(v) for v in attribute])
    return str(attribute)


def _dimensions(kind: ir.Type) -> str:
    return "".join(
        f"{'?' if ir.ShapedType(kind).is_dynamic_dim(i) else ir.ShapedType(kind).shape[i]}x"
        for i in range(ir.ShapedType(kind).rank)
    )


def _string(op: AnyOp, name: str) -> str:
    return str(ir.StringAttr(op.attributes[name]).value)


def _tail(op: AnyOp) -> str:
    """What is worth saying of an access: the cache hint, and the axes proven inside."""
    cache = f" cache {_string(op, 'cache')}" if "cache" in op.attributes and _string(op, "cache") else ""
    inside = [axis for axis, flag in enumerate(ir.DenseBoolArrayAttr(op.attributes["in_bounds"])) if flag]
    return f"{cache} in_bounds {inside}" if inside else cache


def _slice(op: AnyOp, memory: str, starts: Sequence[str]) -> str:
    extents = list(ir.DenseI64ArrayAttr(op.attributes["extents"]))
    dropped = set(ir.DenseI64ArrayAttr(op.attributes["dropped"]))
    parts = [s if axis in dropped else f"{s}:+{e}" for axis, (s, e) in enumerate(zip(starts, extents, strict=True))]
    return f"{memory}[{', '.join(parts)}]"


def _id(op: AnyOp, _: Sequence[str]) -> str:
    axis = f" axis {ir.IntegerAttr(op.attributes['axis']).value}" if "axis" in op.attributes else ""
    return f"{op.name} {_string(op, 'of')}{axis}"


def _dim(op: AnyOp, _: Sequence[str]) -> str:
    return f"{op.name} {_string(op, 'symbol')}"


def _read(op: AnyOp, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[0]}[{', '.join(operands[1:])}]{_tail(op)}"


def _write(op: AnyOp, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[1]}, {operands[0]}[{', '.join(operands[2:])}]{_tail(op)}"


def _load(op: AnyOp, operands: Sequence[str]) -> str:
    return f"{op.name} {_slice(op, operands[0], operands[1:])}{_tail(op)}"


def _store(op: AnyOp, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[1]}, {_slice(op, operands[0], operands[2:])}{_tail(op)}"


def _masked_store(op: AnyOp, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[1]} where {operands[2]}, {_slice(op, operands[0], operands[3:])}{_tail(op)}"


def _copy(op: AnyOp, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[0]}, {_slice(op, operands[1], operands[2:])}{_tail(op)}"


def _compare(op: AnyOp, operands: Sequence[str]) -> str:
    predicate = _PREDICATES[str(op.name)][int(ir.IntegerAttr(op.attributes["predicate"]).value)]
    return f"{op.name} {predicate} {', '.join(operands)}"


def _constant(op: AnyOp, _: Sequence[str]) -> str:
    value = op.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        return f"{op.name} splat {str(value.get_splat_value()).split(' : ')[0]}"
    return f"{op.name} {value}"


def _reduce(op: AnyOp, operands: Sequence[str]) -> str:
    axis = f" axis {ir.IntegerAttr(op.attributes['axis']).value}" if "axis" in op.attributes else ""
    return f"{op.name} {_string(op, 'kind')} {operands[0]}{axis}"


def _softmax(op: AnyOp, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[0]} axis {ir.IntegerAttr(op.attributes['axis']).value}"


def _shuffle(op: AnyOp, operands: Sequence[str]) -> str:
    return f"{op.name} {_string(op, 'mode')} {', '.join(operands)} width {ir.IntegerAttr(op.attributes['width']).value}"


def _dot(op: AnyOp, operands: Sequence[str]) -> str:
    exact = " exact" if ir.BoolAttr(op.attributes["exact"]).value else ""
    compute = f" {_string(op, 'compute')}" if "compute" in op.attributes else ""
    return f"{op.name} {', '.join(operands)}{exact}{compute}"


def _group_sync(op: AnyOp, _: Sequence[str]) -> str:
    return f"{op.name} {ir.IntegerAttr(op.attributes['size']).value}"


FORMS: Final[dict[str, Callable[[AnyOp, Sequence[str]], str]]] = {
    "tessera.id": _id,
    "tessera.dim": _dim,
    "tessera.read": _read,
    "tessera.write": _write,
    "tessera.load": _load,
    "tessera.store": _store,
    "tessera.masked_store": _masked_store,
    "tessera.copy": _copy,
    "tessera.group_sync": _group_sync,
    "tessera.shuffle": _shuffle,
    "tessera.reduce": _reduce,
    "tessera.softmax": _softmax,
    "tessera.dot": _dot,
    "arith.cmpi": _compare,
    "arith.cmpf": _compare,
    "arith.constant": _constant,
}
"""Operations that are not written as their name, operands and attributes."""
