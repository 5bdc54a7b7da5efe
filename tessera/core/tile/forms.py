"""How single operations of Tile IR are written, for people."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tessera.core.record import AttributeData, OpRecord, Verbatim

_PREDICATES: Final = {
    "arith.cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "arith.cmpf": ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
                   "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
}  # fmt: skip
_SPLAT: Final = re.compile(r"dense<([^\[\]\"<>]*)> : ")


def attributes_text(attributes: Mapping[str, AttributeData]) -> str:
    """`{axis = 1, kind = "sum"}`, or nothing."""
    if not attributes:
        return ""
    return "{" + ", ".join(f"{n} = {attribute_text(attributes[n])}" for n in sorted(attributes)) + "}"


def attribute_text(attribute: AttributeData) -> str:
    """An attribute without its type."""
    match attribute:
        case str():
            return f'"{attribute}"'
        case bool():
            return str(attribute).lower()
        case tuple():
            return str([int(v) if isinstance(v, int) else v for v in attribute])
        case Verbatim():
            return attribute.text
        case _:
            return str(attribute)


def numbers_of(op: OpRecord, name: str) -> tuple[int, ...]:
    """An attribute that is an array of numbers or truth values."""
    found = op.attributes[name]
    assert isinstance(found, tuple)
    return tuple(int(number) for number in found if isinstance(number, int))


def _tail(op: OpRecord) -> str:
    """Return what is worth saying of an access: the cache hint, and the axes proven inside."""
    cache = f" cache {op.attributes['cache']}" if op.attributes.get("cache") else ""
    inside = [axis for axis, flag in enumerate(numbers_of(op, "in_bounds")) if flag]
    return f"{cache} in_bounds {inside}" if inside else cache


def _slice(op: OpRecord, memory: str, starts: Sequence[str]) -> str:
    extents, dropped = numbers_of(op, "extents"), set(numbers_of(op, "dropped"))
    parts = [s if axis in dropped else f"{s}:+{e}" for axis, (s, e) in enumerate(zip(starts, extents, strict=True))]
    return f"{memory}[{', '.join(parts)}]"


def _axis(op: OpRecord) -> str:
    return f" axis {op.attributes['axis']}" if "axis" in op.attributes else ""


def _id(op: OpRecord, _: Sequence[str]) -> str:
    return f"{op.name} {op.attributes['of']}{_axis(op)}"


def _dim(op: OpRecord, _: Sequence[str]) -> str:
    return f"{op.name} {op.attributes['symbol']}"


def _read(op: OpRecord, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[0]}[{', '.join(operands[1:])}]{_tail(op)}"


def _write(op: OpRecord, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[1]}, {operands[0]}[{', '.join(operands[2:])}]{_tail(op)}"


def _load(op: OpRecord, operands: Sequence[str]) -> str:
    return f"{op.name} {_slice(op, operands[0], operands[1:])}{_tail(op)}"


def _gather(op: OpRecord, operands: Sequence[str]) -> str:
    axis = op.attributes["axis"]
    starts = [operands[1] if a == axis else start for a, start in enumerate(operands[2:])]
    return f"{op.name} {_slice(op, operands[0], starts)}{_tail(op)}"


def _store(op: OpRecord, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[1]}, {_slice(op, operands[0], operands[2:])}{_tail(op)}"


def _masked_store(op: OpRecord, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[1]} where {operands[2]}, {_slice(op, operands[0], operands[3:])}{_tail(op)}"


def _copy(op: OpRecord, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[0]}, {_slice(op, operands[1], operands[2:])}{_tail(op)}"


def _compare(op: OpRecord, operands: Sequence[str]) -> str:
    predicate = op.attributes["predicate"]
    assert isinstance(predicate, int)
    return f"{op.name} {_PREDICATES[op.name][predicate]} {', '.join(operands)}"


def _constant(op: OpRecord, _: Sequence[str]) -> str:
    text = attribute_text(op.attributes["value"])
    splat = _SPLAT.match(text)
    return f"{op.name} splat {splat[1]}" if splat is not None else f"{op.name} {text}"


def _reduce(op: OpRecord, operands: Sequence[str]) -> str:
    return f"{op.name} {op.attributes['kind']} {operands[0]}{_axis(op)}"


def _softmax(op: OpRecord, operands: Sequence[str]) -> str:
    return f"{op.name} {operands[0]}{_axis(op)}"


def _shuffle(op: OpRecord, operands: Sequence[str]) -> str:
    return f"{op.name} {op.attributes['mode']} {', '.join(operands)} width {op.attributes['width']}"


def _dot(op: OpRecord, operands: Sequence[str]) -> str:
    exact = " exact" if op.attributes["exact"] else ""
    compute = f" {op.attributes['compute']}" if "compute" in op.attributes else ""
    return f"{op.name} {', '.join(operands)}{exact}{compute}"


def _group_sync(op: OpRecord, _: Sequence[str]) -> str:
    return f"{op.name} {op.attributes['size']}"


FORMS: Final[dict[str, Callable[[OpRecord, Sequence[str]], str]]] = {
    "tessera.id": _id,
    "tessera.dim": _dim,
    "tessera.read": _read,
    "tessera.write": _write,
    "tessera.load": _load,
    "tessera.gather": _gather,
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
