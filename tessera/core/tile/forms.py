"""How single operations and types of Tile IR are written, for people."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.core.tile.verify import is_shared

_PREDICATES: Final = {
    "arith.cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "arith.cmpf": ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
                   "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
}  # fmt: skip


def type_text(kind: Any, shape: Sequence[str] | None = None) -> str:
    """`tile<64x64xf32>`, `array<?x64xf32>` (with `shape`, the extents' names), `shared<128xf32>`, or MLIR's text."""
    if isinstance(kind, ir.RankedTensorType):
        return f"tile<{_dimensions(kind)}{kind.element_type}>"
    if isinstance(kind, ir.MemRefType):
        head = "shared" if is_shared(kind) else "array"
        extents = "".join(f"{e}x" for e in shape) if shape is not None else _dimensions(kind)
        tail = ", xor" if is_shared(kind) and "xor" in str(kind.memory_space) else ""
        return f"{head}<{extents}{kind.element_type}{tail}>"
    return str(kind)


def attributes_text(attributes: Mapping[str, Any]) -> str:
    """`{axis = 1, kind = "sum"}`, or nothing."""
    if not attributes:
        return ""
    return "{" + ", ".join(f"{n} = {attribute_text(attributes[n])}" for n in sorted(attributes)) + "}"


def attribute_text(attribute: Any) -> str:
    """An attribute without its type."""
    if isinstance(attribute, ir.IntegerAttr | ir.StringAttr | ir.BoolAttr):
        value = attribute.value
        return f'"{value}"' if isinstance(value, str) else str(value).lower()
    if isinstance(attribute, ir.DenseI64ArrayAttr | ir.DenseBoolArrayAttr):
        return str([int(v) for v in attribute])
    return str(attribute)


def _dimensions(kind: Any) -> str:
    return "".join(f"{'?' if kind.is_dynamic_dim(i) else kind.shape[i]}x" for i in range(kind.rank))


def _string(op: Any, name: str) -> str:
    return str(ir.StringAttr(op.attributes[name]).value)


def _tail(op: Any) -> str:
    """What is worth saying of an access: the cache hint, and the axes proven inside."""
    cache = f" cache {_string(op, 'cache')}" if "cache" in op.attributes and _string(op, "cache") else ""
    inside = [axis for axis, flag in enumerate(ir.DenseBoolArrayAttr(op.attributes["in_bounds"])) if flag]
    return f"{cache} in_bounds {inside}" if inside else cache


def _slice(op: Any, memory: str, starts: Sequence[str]) -> str:
    extents = list(ir.DenseI64ArrayAttr(op.attributes["extents"]))
    dropped = set(ir.DenseI64ArrayAttr(op.attributes["dropped"]))
    parts = [s if axis in dropped else f"{s}:+{e}" for axis, (s, e) in enumerate(zip(starts, extents, strict=True))]
    return f"{memory}[{', '.join(parts)}]"


def _id(op: Any, _: Sequence[str]) -> str:
    axis = f" axis {op.attributes['axis'].value}" if "axis" in op.attributes else ""
    return f"{op.name} {_string(op, 'of')}{axis}"


def _dim(op: Any, _: Sequence[str]) -> str:
    return f"{op.name} {_string(op, 'symbol')}"


def _read(op: Any, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[0]}[{', '.join(operands[1:])}]{_tail(op)}"


def _write(op: Any, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[1]}, {operands[0]}[{', '.join(operands[2:])}]{_tail(op)}"


def _load(op: Any, operands: Sequence[str]) -> str:
    return f"{op.name} {_slice(op, operands[0], operands[1:])}{_tail(op)}"


def _store(op: Any, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[1]}, {_slice(op, operands[0], operands[2:])}{_tail(op)}"


def _masked_store(op: Any, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[1]} where {operands[2]}, {_slice(op, operands[0], operands[3:])}{_tail(op)}"


def _copy(op: Any, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[0]}, {_slice(op, operands[1], operands[2:])}{_tail(op)}"


def _compare(op: Any, operands: Sequence[str]) -> str:
    predicate = _PREDICATES[str(op.name)][int(ir.IntegerAttr(op.attributes["predicate"]).value)]
    return f"{op.name} {predicate} {', '.join(operands)}"


def _constant(op: Any, _: Sequence[str]) -> str:
    value = op.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        return f"{op.name} splat {str(value.get_splat_value()).split(' : ')[0]}"
    return f"{op.name} {value}"


def _reduce(op: Any, operands: Sequence[str]) -> str:
    axis = f" axis {op.attributes['axis'].value}" if "axis" in op.attributes else ""
    return f"{op.name} {_string(op, 'kind')} {operands[0]}{axis}"


def _softmax(op: Any, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[0]} axis {op.attributes['axis'].value}"


def _shuffle(op: Any, operands: Sequence[str]) -> str:
    return f"{op.name} {_string(op, 'mode')} {', '.join(operands)} width {op.attributes['width'].value}"


def _dot(op: Any, operands: Sequence[str]) -> str:
    exact = " exact" if op.attributes["exact"].value else ""
    compute = f" {_string(op, 'compute')}" if "compute" in op.attributes else ""
    return f"{op.name} {', '.join(operands)}{exact}{compute}"


def _group_sync(op: Any, _: Sequence[str]) -> str:
    return f"{op.name} {op.attributes['size'].value}"


FORMS: Final[dict[str, Callable[[Any, Sequence[str]], str]]] = {
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
