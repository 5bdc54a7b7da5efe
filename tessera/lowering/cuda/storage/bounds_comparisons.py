"""Comparisons of places, as masks have them: one instruction for each element instead of four.

before: `%j = tessera.arange %n`, `%m = arith.cmpi slt, %j, %bound`: for each of its registers, of which c is known, a
        lane compares `(n + lane) + c` with `bound`, all 64 bits of them
after:  a lane computes `bound - (n + lane)` once, and compares 32 bits of it with each c
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.integers import knowledge
from tessera.lowering.cuda.base.index_builder import INDEX, IndexBuilder
from tessera.lowering.cuda.isa.sm90 import kept

_SIGNED: Final = range(6)
"""Predicates of `arith.cmpi`: equal, not equal, less, at most, more, at least."""
_REPEATED: Final = ("tessera.broadcast", "tessera.reshape", "tessera.transpose")
_PLACES: Final = "tessera.arange"
_NUMBERS: Final = ("tensor.splat", "arith.constant")
_FAR: Final = 1 << 62
"""Two numbers that are no farther from 0 have a sum of 64 bits."""


def compares_places(op: Any) -> bool:
    """Whether an operation compares the numbers from one on, with others like these or with a single one."""
    if op.name != "arith.cmpi" or int(ir.IntegerAttr(op.attributes["predicate"]).value) not in _SIGNED:
        return False
    names = [_source(value) for value in op.operands]
    return _PLACES in names and all(name in (_PLACES, *_NUMBERS) for name in names)


def shifted_places(op: Any) -> tuple[Any, Any] | None:
    """Of a sum of the numbers from one on and a single number: both tiles; None for what else there is.

    The sum is known not to overflow.
    """
    if op.name != "arith.addi":
        return None
    for places, number in (op.operands, reversed(op.operands)):
        if _source(places) == _PLACES and _name(_unrepeated(number)) in _NUMBERS:
            ends = _ends(places, op), _ends(number, op)
            return (places, number) if all(-_FAR < low <= high < _FAR for low, high in ends) else None
    return None


def _ends(value: Any, op: Any) -> tuple[int, int]:
    """The least and the largest number of places or of a number's repetitions, as far as is known where `op` stands."""
    maker = _unrepeated(value).owner.operation
    if maker.name == "arith.addi":
        pairs = zip(*(_ends(operand, op) for operand in maker.operands), strict=True)
        low, high = (sum(pair) for pair in pairs)
        return low, high
    if maker.name == "arith.constant":
        number = int(ir.IntegerAttr(ir.DenseElementsAttr(maker.attributes["value"]).get_splat_value()).value)
        return number, number
    found = knowledge(op).bounds(maker.operands[0])
    if found is None:
        return -_FAR, _FAR
    return found.low, found.high + (maker.results[0].type.shape[0] - 1 if maker.name == _PLACES else 0)


def _source(value: Any) -> str:
    """The name of the operation whose elements a tile repeats, shifted or not; "" where it is none."""
    value = _unrepeated(value)
    shifted = None if isinstance(value.owner, ir.Block) else shifted_places(value.owner.operation)
    return _name(value) if shifted is None else _source(shifted[0])


def _unrepeated(value: Any) -> Any:
    while _name(value) in _REPEATED:
        value = value.owner.operation.operands[0]
    return value


def _name(value: Any) -> str:
    return "" if isinstance(value.owner, ir.Block) else str(value.owner.operation.name)


def shifted(build: IndexBuilder, values: Sequence[Any], by: Any) -> tuple[Any, ...]:
    """The sum of each register and `by`, what is known of it added last."""
    bases: dict[Any, Any] = {}
    results: list[Any] = []
    for base, number in (_parts(build, value) for value in values):
        if base not in bases:
            bases[base] = build.add(base, by)
        results.append(build.index(build.add(bases[base], number)))
    return tuple(results)


def compared(
    build: IndexBuilder, left: Sequence[Any], right: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[Any, ...]:  # fmt: skip
    """An i1 for each register, of i64 values that are a part of the lane and a known number, and do not overflow.

    attributes: those of the `arith.cmpi`
    """
    pairs = [(_parts(build, a), _parts(build, b)) for a, b in zip(left, right, strict=True)]
    numbers = [a - b for (_, a), (_, b) in pairs]
    limits = min(numbers) - 1, max(numbers) + 1
    distances: dict[tuple[Any, Any], Any] = {}
    known: dict[tuple[Any, int], Any] = {}
    values: list[Any] = []
    for ((one, _), (other, _)), number in zip(pairs, numbers, strict=True):
        if (one, other) not in distances:
            distances[one, other] = _distance(build, one, other, limits)
        key = (distances[one, other], number)
        if key not in known:
            known[key] = build.value("arith.cmpi", [build.word(number), key[0]], "i1", attributes)
        values.append(known[key])
    return tuple(values)


def _parts(build: IndexBuilder, value: Any) -> tuple[Any, int]:
    """What a lane adds a known number to, and this number."""
    whole = build.known(value)
    if whole is not None:
        return 0, whole
    if not isinstance(value.owner, ir.Block) and value.owner.name == "arith.addi":
        base, offset = value.owner.operands
        number = build.known(offset)
        if number is not None:
            return base, number
    return value, 0


def _distance(build: IndexBuilder, one: Any, other: Any, limits: tuple[int, int]) -> Any:
    """`other - one` as an i32, between limits that are farther than all numbers it is compared with."""
    least, most = limits
    far = build.value("llvm.intr.ssub.sat", [build.index(other), build.index(one)], INDEX)
    # If LLVM knew what this is, it would take the limits away, and compare all 64 bits.
    return kept(build, build.to_word(build.maximum(build.minimum(far, most), least)))
