"""Keep the groups of a partition in topological order while groups grow, merge and change what they read.

Each group has a level above the levels of all groups that it reads, so a search for a path between two groups goes
through the levels between them alone (D. J. Pearce and P. H. J. Kelly, "A dynamic topological sort algorithm for
directed acyclic graphs", 2006, bounds it by positions in an order).  Long chains, such as a recurrent network of
hundreds of steps, are partitioned in linear time so.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet


class NoKernel(AssertionError):
    """A group is no kernel, whatever is written to memory for it: of a plan that recomputes, another one is taken."""


class GroupOrder:
    """Hold which groups read which, by number."""

    def __init__(self, sources: Mapping[int, Iterable[int]] | None = None) -> None:
        """Order groups by what each reads; of none, groups are added by `start`."""
        sources = sources or {}
        self._sources: dict[int, set[int]] = {number: set() for number in sources}
        self._readers: dict[int, set[int]] = {number: set() for number in sources}
        self._levels = dict.fromkeys(sources, 0)
        for number, read in sources.items():
            self.add(number, read)

    def start(self, number: int, sources: Iterable[int]) -> None:
        """Add a group that no other reads so far."""
        self._sources[number], self._readers[number], self._levels[number] = set(), set(), 0
        self.add(number, sources)

    def sources(self, number: int) -> AbstractSet[int]:
        """Return the groups that one reads."""
        return self._sources[number]

    def add(self, number: int, sources: Iterable[int]) -> None:
        """Let a group read others, too; its level and its readers' levels rise where they have to."""
        new = {source for source in sources if source not in self._sources[number]} - {number}
        self._sources[number] |= new
        for source in new:
            self._existing(source)
            self._readers[source].add(number)
        if new:
            self._raise(number, max(self._levels[source] for source in new) + 1, new)

    def replace(self, number: int, sources: Iterable[int]) -> None:
        """Let a group read these groups alone."""
        now = set(sources) - {number}
        for source in self._sources[number] - now:
            self._readers[source].discard(number)
        self._sources[number] &= now
        self.add(number, now)

    def merge(self, target: int, others: Collection[int]) -> None:
        """Make several groups one, with the number of the first."""
        merged = {target, *others}
        sources = {each for number in merged for each in self._sources[number]} - merged
        readers = {each for number in merged for each in self._readers[number]} - merged
        level = max(self._levels[number] for number in merged)
        for number in merged - {target}:
            del self._sources[number], self._readers[number], self._levels[number]
        for source in sources:
            self._readers[source] = self._readers[source] - merged | {target}
        for reader in readers:
            self._sources[reader] = self._sources[reader] - merged | {target}
        self._sources[target], self._readers[target] = sources, readers
        self._levels[target] = level
        for reader in readers:
            self._raise(reader, level + 1, sources)

    def needs(self, numbers: Iterable[int], others: Collection[int]) -> bool:
        """Return whether one of some groups reads one of others, through groups between them too."""
        floor = min((self._levels[other] for other in others if other in self._levels), default=0)
        stack, seen = list(numbers), set[int]()
        while stack:
            sources = self._existing(stack.pop())
            if not sources.isdisjoint(others):
                return True
            new = {source for source in sources if self._levels[source] > floor} - seen
            seen |= new
            stack += new
        return False

    def all_before(self, number: int) -> set[int]:
        """Return all groups that one reads, through others too."""
        seen, stack = set[int](), [number]
        while stack:
            new = self._existing(stack.pop()) - seen
            seen |= new
            stack += new
        return seen

    def _existing(self, number: int) -> set[int]:
        if number not in self._sources:
            raise NoKernel("a group reads what no other makes")
        return self._sources[number]

    def _raise(self, number: int, level: int, sources: AbstractSet[int]) -> None:
        """Raise a group's level, and the levels of what reads it: none of `sources` is among these, but in a circle."""
        stack = [(number, level)]
        while stack:
            number, level = stack.pop()
            if self._levels[number] >= level:
                continue
            if number in sources:
                raise NoKernel("groups that read each other")
            self._levels[number] = level
            stack += [(reader, level + 1) for reader in self._readers[number]]
