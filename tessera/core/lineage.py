"""Carry the identities of operations from one stage of a compilation to the next, whatever the pass between them did.

No pass says what it made of what.  An operation that is the same in both stages keeps its identity; which one that is
among several with the same numbers of the Program is found by comparing, from strict to lax: what it computes (name,
attributes, types, and the same of everything that it is computed from), what it says itself, its name.  What is left in
the later stage is new: it gets the next identity of the operation of the Program that it stands for, `17.3`, and its
origin is what is left in the earlier stage of these operations, or else one of them that goes on beside it.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tessera.core.record import KERNEL, OpRecord, ValueRecord

_FUNCTION: Final = "func.func"


@dataclass(slots=True)
class Lineage:
    """The stages of one compilation, one after the other: gives every operation its identity.

    counts: how many identities were derived of each first part, so that none is given twice
    """

    before: Sequence[OpRecord] = ()
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def first(self, after: Sequence[OpRecord]) -> tuple[OpRecord, ...]:
        """Give identities to what the Program became: `17` is what computes the value of operation 17."""
        chosen: dict[tuple[int, ...], int] = {}
        for place, record in enumerate(after):
            if len(record.numbers) == 1 and (record.results or record.numbers not in chosen):
                chosen[record.numbers] = place
        known = {place: str(numbers[0]) for numbers, place in chosen.items()}
        known |= {place: KERNEL for place, record in enumerate(after) if record.name == _FUNCTION}
        named = [known.get(place) for place in range(len(after))]
        return self._renamed(after, named, lambda record: tuple(map(str, record.numbers)))

    def next(self, after: Sequence[OpRecord]) -> tuple[OpRecord, ...]:
        """Give identities to what a pass made of the stage before."""
        before = self.before
        matched = match(before, after)
        kept = {place for place in matched if place is not None}
        related: dict[int, list[int]] = defaultdict(list)
        for place, record in enumerate(before):
            for number in record.numbers:
                related[number].append(place)

        def origin(record: OpRecord) -> tuple[str, ...]:
            found = [place for number in record.numbers for place in related[number]]
            gone = [place for place in found if place not in kept]
            return tuple(dict.fromkeys(before[place].id for place in gone or found[:1]))

        named = [None if place is None else before[place].id for place in matched]
        return self._renamed(after, named, origin)

    def _renamed(
        self, after: Sequence[OpRecord], named: Sequence[str | None], origin: Callable[[OpRecord], tuple[str, ...]]
    ) -> tuple[OpRecord, ...]:
        """Return `after` with the identities `named`, and new ones where these are None."""
        ids = [name or self._derived(record) for name, record in zip(named, after, strict=True)]
        new = {record.id: identity for record, identity in zip(after, ids, strict=True)}
        values: dict[str, str] = {}
        for record, identity in zip(after, ids, strict=True):
            for value in (*record.results, *(one for region in record.arguments for one in region)):
                values[value.id] = identity + value.id[len(record.id) :]
        self.before = tuple(
            replace(
                record, id=identity, parent=new.get(record.parent, ""),
                operands=tuple(values.get(operand, operand) for operand in record.operands),
                results=_values(record.results, values),
                arguments=tuple(_values(region, values) for region in record.arguments),
                origin=origin(record) if name is None else (),
            )
            for name, record, identity in zip(named, after, ids, strict=True)
        )  # fmt: skip
        return self.before

    def _derived(self, record: OpRecord) -> str:
        base = str(record.numbers[0]) if record.numbers else KERNEL
        self.counts[base] += 1
        return f"{base}.{self.counts[base]}"


def _values(values: Iterable[ValueRecord], names: Mapping[str, str]) -> tuple[ValueRecord, ...]:
    return tuple(replace(value, id=names[value.id]) for value in values)


def match(before: Sequence[OpRecord], after: Sequence[OpRecord]) -> list[int | None]:
    """Return, for each operation of `after`, the place in `before` of the one that it is; None where it is new.

    Identities are not looked at, so the two may come from different compilations of one Program.
    """
    numbering: dict[Hashable, int] = {}
    mine, theirs = _Keys(before, numbering), _Keys(after, numbering)
    found: list[int | None] = [None] * len(after)
    taken: set[int] = set()

    def pair(key: Callable[[_Keys, int], Hashable | None]) -> None:
        """Match what is left and has the same key, in order."""
        waiting: dict[Hashable, deque[int]] = defaultdict(deque)
        for place in range(len(before)):
            if place not in taken:
                waiting[key(mine, place)].append(place)
        waiting.pop(None, None)
        for place in range(len(after)):
            if found[place] is None and (same := waiting.get(key(theirs, place))):
                found[place] = same[0]
                taken.add(same.popleft())

    def inside(keys: _Keys, place: int) -> Hashable:
        above, region = keys.parents[place]
        return (found[above] if keys is theirs and above is not None else above), region

    pair(lambda keys, place: (keys.computed[place], keys.around(place)))
    pair(lambda keys, place: keys.computed[place])
    pair(lambda keys, place: (keys.said[place], inside(keys, place)))
    pair(lambda keys, place: keys.said[place])
    pair(lambda keys, place: keys.named[place])
    return found


class _Keys:
    """What operations of a stage are compared by; equal things have equal numbers in the shared `numbering`.

    computed: what an operation computes, of what; said: what it says itself
    named: its name and what it stands for; None where it stands for nothing: one constant is not another
    parents: the place of the operation that each stands in, and the region
    """

    def __init__(self, records: Sequence[OpRecord], numbering: dict[Hashable, int]) -> None:
        self._numbering = numbering
        self.computed: list[int] = []
        self.said: list[int] = []
        self.named: list[int | None] = []
        self.parents: list[tuple[int | None, int]] = []
        places: dict[str, int] = {}
        values: dict[str, Hashable] = {}
        for place, record in enumerate(records):
            places[record.id] = place
            named = self._number((record.name, record.numbers))
            said = self._number((
                named, tuple(value.type for value in record.results),
                tuple(sorted((name, repr(value)) for name, value in record.attributes.items())),
            ))  # fmt: skip
            computed = self._number((said, tuple(values.get(operand, operand) for operand in record.operands)))
            for number, value in enumerate(record.results):
                values[value.id] = ("result", computed, number)
            for region, arguments in enumerate(record.arguments):
                for number, value in enumerate(arguments):
                    values[value.id] = ("argument", said, region, number)
            self.computed.append(computed)
            self.said.append(said)
            self.named.append(named if record.numbers else None)
            self.parents.append((places.get(record.parent), record.region))

    def around(self, place: int) -> Hashable:
        """What the operation computes that this one stands in."""
        above, region = self.parents[place]
        return (None if above is None else self.computed[above]), region

    def _number(self, key: Hashable) -> int:
        return self._numbering.setdefault(key, len(self._numbering))
