"""How values go through regions: into what these begin with, on to the next iteration, and out as results."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.record import OpRecord, ValueRecord

YIELDS: Final = ("scf.yield", "scf.condition", "yield")
_BOUNDS: Final = 3
"""Operands of a counted loop in front of those that it carries: from, up to, step."""


@dataclass(frozen=True, slots=True)
class Join:
    """The value `operand` becomes the value `into`: an argument of a region, or a result of its operation.

    by: the operation whose operand it is: that with the region, or the one that ends it
    carried: whether it does so in the next iteration
    """

    operand: str
    into: str
    by: str
    carried: bool = False


def joins(records: Sequence[OpRecord]) -> Iterator[Join]:
    """Yield what flows into and out of the regions of `records`."""
    ends: dict[str, list[OpRecord]] = defaultdict(list)
    for record in records:
        if record.name in YIELDS and record.parent:
            ends[record.parent].append(record)
    for record in records:
        first = record.arguments[0] if record.arguments else ()
        if record.name == "scf.for":
            yield from _pairs(record.operands[_BOUNDS:], first[1:], record.id)
        elif record.name == "scf.while":
            yield from _pairs(record.operands, first, record.id)
        for end in ends[record.id]:
            yield from _of_end(record, end)


def _of_end(owner: OpRecord, end: OpRecord) -> Iterator[Join]:
    if end.name == "scf.condition":
        body = owner.arguments[1] if len(owner.arguments) > 1 else ()
        yield from _pairs(end.operands[1:], body, end.id)
        yield from _pairs(end.operands[1:], owner.results, end.id)
        return
    first = owner.arguments[0] if owner.arguments else ()
    if owner.name == "scf.for":
        yield from _pairs(end.operands, first[1:], end.id, carried=True)
    elif owner.name == "scf.while":
        yield from _pairs(end.operands, first, end.id, carried=True)
        return
    yield from _pairs(end.operands, owner.results, end.id)


def _pairs(operands: Sequence[str], values: Sequence[ValueRecord], by: str, *, carried: bool = False) -> Iterator[Join]:
    for operand, value in zip(operands, values, strict=False):
        yield Join(operand, value.id, by, carried)


def taken_by_regions(record: OpRecord) -> tuple[str, ...]:
    """Return the operands of an operation with regions that it takes itself: bounds, conditions."""
    if record.name == "scf.for":
        return record.operands[:_BOUNDS]
    return () if record.name == "scf.while" else record.operands
