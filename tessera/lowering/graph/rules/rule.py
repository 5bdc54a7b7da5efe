"""Rewrite rules as values: what they look for, and what they say is equal."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tessera.lowering.graph.egraph.egraph import EGraph, ENode


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """One place where a rule applies.

    number: the class that is computed anew; nodes: what was matched, for the history of what is made
    build: adds the new nodes and returns their class
    """

    number: int
    nodes: tuple[ENode, ...]
    build: Callable[[], int]


Finder: TypeAlias = Callable[[EGraph], Iterator[RuleMatch]]


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """A rule.

    klass: what it may change, a key of `CLASSES`; find: yields its matches in a fixed order
    also: further classes, for what it changes beside
    concatenates: whether it joins operands, which a mesh may have cut along the axis that becomes theirs
    """

    name: str
    klass: str
    find: Finder
    also: tuple[str, ...] = ()
    concatenates: bool = False

    @property
    def summary(self) -> str:
        """The first line of what its finder says about it."""
        return (self.find.__doc__ or "").strip().split("\n")[0]
