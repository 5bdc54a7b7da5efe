"""Carry the identities of operations from one stage of a compilation to the next, whatever the pass between them did.

No pass says what it made of what.  An operation that is the same in both stages keeps its identity; which one that is
among several with the same numbers of the Program is found by comparing, from strict to lax: what it computes (name,
attributes, types, and the same of everything that it is computed from), what it says itself, what it says but for
decisions of passes, its name.  What is left in the later stage is new: it gets the next identity of the operation of
the Program that it stands for, `17.3`, and its origin is what is left in the earlier stage of these operations, or else
one of them that goes on beside it.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tessera.core.record import KERNEL, AttributeData, OpRecord, ValueRecord
from tessera.core.subsequences import longest_common, longest_rising

_FUNCTION: Final = "func.func"
_DECIDED: Final = "tessera."


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

    def next(self, after: Sequence[OpRecord], *, one_program: bool = True) -> tuple[OpRecord, ...]:
        """Give identities to what a pass made of the stage before.  one_program: see `match`."""
        before = self.before
        matched = match(before, after, one_program=one_program)
        kept = {place for place in matched if place is not None}
        related: dict[int, list[int]] = defaultdict(list)
        for place, record in enumerate(before):
            for number in record.numbers:
                related[number].append(place)

        def origin(record: OpRecord) -> tuple[str, ...]:
            found = [place for number in record.numbers for place in related[number]] if one_program else []
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
        # Written out: `dataclasses.replace` takes three times as long, and there are thousands.
        self.before = tuple([
            OpRecord(
                identity, record.name, new.get(record.parent, ""), record.region,
                tuple([values.get(operand, operand) for operand in record.operands]),
                _values(record.results, values),
                tuple([_values(region, values) for region in record.arguments]),
                record.attributes, record.spans, record.numbers, origin(record) if name is None else (),
            )
            for name, record, identity in zip(named, after, ids, strict=True)
        ])  # fmt: skip
        return self.before

    def _derived(self, record: OpRecord) -> str:
        base = str(record.numbers[0]) if record.numbers else KERNEL
        self.counts[base] += 1
        return f"{base}.{self.counts[base]}"


def _values(values: Iterable[ValueRecord], names: Mapping[str, str]) -> tuple[ValueRecord, ...]:
    return tuple([ValueRecord(names[value.id], value.type, value.name) for value in values])


def match(before: Sequence[OpRecord], after: Sequence[OpRecord], *, one_program: bool = True) -> list[int | None]:
    """Return, for each operation of `after`, the place in `before` of the one that it is; None where it is new.

    Identities are not looked at, so the two may come from different compilations.

    one_program: whether the numbers of both count in one Program; without them, what computes the same is the same, and
                 what is left is matched in order, by what it says and then by its name
    """
    numbering: dict[Hashable, int] = {}
    matching = _Matching(
        _Keys(before, numbering, one_program=one_program), _Keys(after, numbering, one_program=one_program)
    )
    if not one_program:
        matching.in_order(lambda keys: keys.computed)
    matching.pair(lambda keys: list(zip(keys.computed, keys.around, strict=True)))
    matching.pair(lambda keys: keys.computed)
    if not one_program:
        matching.in_order(lambda keys: keys.said)
        matching.in_order(lambda keys: keys.named)
        return matching.found
    matching.pair(lambda keys: list(zip(keys.said, matching.inside(keys), strict=True)))
    matching.pair(lambda keys: keys.said)
    matching.pair(lambda keys: keys.undecided)
    matching.pair(lambda keys: keys.named)
    return matching.found


class _Matching:
    """The counterparts that were found so far: of each operation of the later stage its place in the earlier one."""

    def __init__(self, mine: "_Keys", theirs: "_Keys") -> None:
        self.mine, self.theirs = mine, theirs
        self.found: list[int | None] = [None] * len(theirs.said)
        self._taken: set[int] = set()

    def pair(self, keys: "Callable[[_Keys], Sequence[Hashable]]") -> None:
        """Match what is left and has the same key, in order; None is no key."""
        if len(self._taken) == min(len(self.found), len(self.mine.said)):
            return
        waiting: dict[Hashable, list[int]] = {}
        old_keys = keys(self.mine)
        for place in range(len(old_keys) - 1, -1, -1):  # the first one last, where `pop` takes it
            if place not in self._taken:
                waiting.setdefault(old_keys[place], []).append(place)
        waiting.pop(None, None)
        for place, key in enumerate(keys(self.theirs)):
            if self.found[place] is None and (same := waiting.get(key)):
                self._match(same.pop(), place)

    def in_order(self, keys: "Callable[[_Keys], Sequence[Hashable]]") -> None:
        """Match what is left between neighbours that are matched, without crossing any of these."""
        old_keys, new_keys = keys(self.mine), keys(self.theirs)
        pairs = [(place, other) for place, other in enumerate(self.found) if other is not None]
        stayed = sorted(longest_rising([other for _, other in pairs]))
        ends = [(-1, -1), *(pairs[number] for number in stayed), (len(self.found), len(self.mine.said))]
        for (new, old), (next_new, next_old) in pairwise(ends):
            theirs = [place for place in range(new + 1, next_new) if self.found[place] is None]
            mine = [place for place in range(old + 1, next_old) if place not in self._taken]
            common = longest_common([old_keys[place] for place in mine], [new_keys[place] for place in theirs])
            for a, b in common:
                self._match(mine[a], theirs[b])

    def inside(self, keys: "_Keys") -> list[Hashable]:
        """Return what each operation stands in, by one name for both stages."""
        found = self.found if keys is self.theirs else range(len(keys.said))
        return [(None if above is None else found[above], region) for above, region in keys.parents]

    def _match(self, old: int, new: int) -> None:
        self.found[new] = old
        self._taken.add(old)


def _sorted(attributes: Mapping[str, AttributeData], without: str = "\0") -> tuple[tuple[str, str], ...]:
    """Return attributes as something that can be compared, but for those whose names begin with `without`."""
    if not attributes:
        return ()
    return tuple(sorted([(name, repr(value)) for name, value in attributes.items() if not name.startswith(without)]))


class _Keys:
    """Keys by which operations of two stages are compared; equal things have equal numbers in the shared `numbering`.

    computed: what an operation computes, of what; said: what it says itself
    undecided: the same without what passes decided about it; None for what stands for an operation of the Program
    named: its name and what it stands for; None where it stands for nothing: one constant is not another
    parents: the place of the operation that each stands in, and the region
    """

    def __init__(self, records: Sequence[OpRecord], numbering: dict[Hashable, int], *, one_program: bool) -> None:
        self._numbering = numbering
        self.computed: list[int] = []
        self.said: list[int] = []
        self.undecided: list[int | None] = []
        self.named: list[int | None] = []
        self.parents: list[tuple[int | None, int]] = []
        places: dict[str, int] = {}
        values: dict[str, Hashable] = {}
        for place, record in enumerate(records):
            places[record.id] = place
            named = self._number((record.name, record.numbers if one_program else ()))
            types = tuple([value.type for value in record.results])
            said = self._number((named, types, _sorted(record.attributes)))
            bare = None if record.numbers else self._number((named, types, _sorted(record.attributes, _DECIDED)))
            computed = self._number((said, tuple(values.get(operand, operand) for operand in record.operands)))
            for number, value in enumerate(record.results):
                values[value.id] = ("result", computed, number)
            for region, arguments in enumerate(record.arguments):
                for number, value in enumerate(arguments):
                    values[value.id] = ("argument", said, region, number)
            self.computed.append(computed)
            self.said.append(said)
            self.undecided.append(bare)
            whole = record.name == _FUNCTION  # of which there is one
            self.named.append(named if record.numbers or whole or not one_program else None)
            self.parents.append((places.get(record.parent), record.region))

    @property
    def around(self) -> list[Hashable]:
        """Return the key of the operation that each one stands in."""
        return [(None if above is None else self.computed[above], region) for above, region in self.parents]

    def _number(self, key: Hashable) -> int:
        return self._numbering.setdefault(key, len(self._numbering))
