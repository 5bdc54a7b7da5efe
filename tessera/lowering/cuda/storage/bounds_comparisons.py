"""Compare indices, as masks do, with one instruction for each element instead of four.

before: `%j = tessera.arange %n`, `%m = arith.cmpi slt, %j, %bound`: for each of its registers, of which c is known, a
        lane compares `(n + lane) + c` with `bound`, all 64 bits of them
after:  a lane computes `bound - (n + lane)` once, and compares 32 bits of it with each c
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.analysis.integers import integer_ranges
from tessera.lowering.base.emit import required
from tessera.lowering.base.ir_walk import defining
from tessera.lowering.cuda.base.index_builder import INDEX, IndexBuilder
from tessera.lowering.cuda.isa.sm90 import kept

_SIGNED: Final = range(6)
"""Predicates of `arith.cmpi`: equal, not equal, less, at most, more, at least."""
_REPEATED: Final = ("tessera.broadcast", "tessera.reshape", "tessera.transpose")
_PLACES: Final = "tessera.arange"
_NUMBERS: Final = ("tensor.splat", "arith.constant")
_FAR: Final = 1 << 62
"""Two numbers that are no farther from 0 have a sum of 64 bits."""


def compares_places(op: AnyOp) -> bool:
    """Return whether an operation compares consecutive numbers with consecutive numbers or with a single one."""
    if op.name != "arith.cmpi" or int(ir.IntegerAttr(op.attributes["predicate"]).value) not in _SIGNED:
        return False
    names = [_source(value) for value in op.operands]
    return _PLACES in names and all(name in (_PLACES, *_NUMBERS) for name in names)


def shifted_places(op: AnyOp) -> tuple[ir.Value, ir.Value] | None:
    """Return both tiles of a sum of consecutive numbers and a single number; None for any other operation.

    The sum is known not to overflow.
    """
    if op.name != "arith.addi":
        return None
    for places, number in (op.operands, reversed(op.operands)):
        if _source(places) == _PLACES and _name(_unrepeated(number)) in _NUMBERS:
            ends = _ends(places, op), _ends(number, op)
            return (places, number) if all(-_FAR < low <= high < _FAR for low, high in ends) else None
    return None


def _ends(value: ir.Value, op: AnyOp) -> tuple[int, int]:
    """Return the least and the largest number in a tile, as far as is known where `op` stands."""
    maker = required(defining(_unrepeated(value)))
    if maker.name == "arith.addi":
        pairs = zip(*(_ends(operand, op) for operand in maker.operands), strict=True)
        low, high = (sum(pair) for pair in pairs)
        return low, high
    if maker.name == "arith.constant":
        number = int(ir.IntegerAttr(ir.DenseElementsAttr(maker.attributes["value"]).get_splat_value()).value)
        return number, number
    found = integer_ranges(op).bounds(maker.operands[0])
    if found is None:
        return -_FAR, _FAR
    return found.low, found.high + (ir.ShapedType(maker.results[0].type).shape[0] - 1 if maker.name == _PLACES else 0)


def _source(value: ir.Value) -> str:
    """Return the name of the operation whose elements a tile repeats, shifted or not; "" for a block argument."""
    value = _unrepeated(value)
    maker = defining(value)
    shifted = None if maker is None else shifted_places(maker)
    return _name(value) if shifted is None else _source(shifted[0])


def _unrepeated(value: ir.Value) -> ir.Value:
    maker = defining(value)
    while maker is not None and maker.name in _REPEATED:
        value = maker.operands[0]
        maker = defining(value)
    return value


def _name(value: ir.Value) -> str:
    maker = defining(value)
    return "" if maker is None else maker.name


def shifted(build: IndexBuilder, values: Sequence[ir.Value], by: ir.Value) -> tuple[ir.Value, ...]:
    """Add `by` to each register, whose known part is added last."""
    bases: dict[Index, Index] = {}
    results: list[ir.Value] = []
    for base, number in (_parts(build, value) for value in values):
        if base not in bases:
            bases[base] = build.add(base, by)
        results.append(build.index(build.add(bases[base], number)))
    return tuple(results)


def compared(
    build: IndexBuilder, left: Sequence[ir.Value], right: Sequence[ir.Value], attributes: Mapping[str, ir.Attribute]
) -> tuple[ir.Value, ...]:  # fmt: skip
    """Compare i64 registers that are the sum of a lane's part and a known number and do not overflow; an i1 each.

    attributes: those of the `arith.cmpi`
    """
    pairs = [(_parts(build, a), _parts(build, b)) for a, b in zip(left, right, strict=True)]
    numbers = [a - b for (_, a), (_, b) in pairs]
    limits = min(numbers) - 1, max(numbers) + 1
    distances: dict[tuple[Index, Index], ir.Value] = {}
    known: dict[tuple[ir.Value, int], ir.Value] = {}
    values: list[ir.Value] = []
    for ((one, _), (other, _)), number in zip(pairs, numbers, strict=True):
        if (one, other) not in distances:
            distances[one, other] = _distance(build, one, other, limits)
        key = (distances[one, other], number)
        if key not in known:
            known[key] = build.value("arith.cmpi", [build.word(number), key[0]], "i1", attributes)
        values.append(known[key])
    return tuple(values)


def _parts(build: IndexBuilder, value: ir.Value) -> tuple[Index, int]:
    """Split an index into the lane's part and a known number."""
    whole = build.known(value)
    if whole is not None:
        return 0, whole
    maker = defining(value)
    if maker is not None and maker.name == "arith.addi":
        base, offset = maker.operands
        number = build.known(offset)
        if number is not None:
            return base, number
    return value, 0


def _distance(build: IndexBuilder, one: Index, other: Index, limits: tuple[int, int]) -> ir.Value:
    """Return `other - one` as an i32, clamped to limits beyond all numbers that it is compared with."""
    least, most = limits
    far = build.value("llvm.intr.ssub.sat", [build.index(other), build.index(one)], INDEX)
    # If LLVM knew what this is, it would take the limits away, and compare all 64 bits.
    return kept(build, build.to_word(build.maximum(build.minimum(far, most), least)))
