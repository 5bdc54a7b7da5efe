"""One kernel of a captured function with the graph above it: what each node became, by its place in the user's text.

Operations of the kernel are numbered on behind the nodes of the graph, and a node of that kernel has the numbers of the
operations from its place too: so a node has counterparts in machine code, and an instruction has its node.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tessera.core.base.plurals import counted
from tessera.core.base.source import Span
from tessera.core.errors.catalog import NothingToShow
from tessera.core.listing import Listing
from tessera.core.schedule.plan import CALL, Group
from tessera.core.schedule.text import operations
from tessera.core.targets import ORACLE
from tessera.lowering.schedule.emit.to_program import Lowered
from tessera.session.compiled import Compiled
from tessera.session.session import resolve_target
from tessera.viz.operators.captured import CapturedGraph
from tessera.viz.operators.names import function_span
from tessera.viz.operators.records import identity


@dataclass(frozen=True, eq=False)
class ChosenKernel:
    """A kernel.  number: None for the one that computes most; target_name: "" for where a call runs."""

    graph: CapturedGraph
    number: int | None = None
    target_name: str = ""

    @cached_property
    def group(self) -> Group:
        """The group that it computes, of a body too.  Raises NothingToShow where there is none of that number."""
        groups = self.graph.plan.groups
        if self.number is not None and 0 <= self.number < len(groups) and groups[self.number].kind != CALL:
            return groups[self.number]
        plans = (self.graph.plan, *(body.plan for body in self.graph.bodies))
        groups = [group for plan in plans for group in plan.groups if group.kind != CALL]
        if self.number is not None or not groups:
            few = counted(len(groups), "kernel")
            raise NothingToShow(f"{self.graph.name} is {few}, and {self.number} is none", hint="kernels count from 0")
        return max(groups, key=operations)

    @cached_property
    def compiled(self) -> Compiled:
        """Its compilation."""
        found = self.graph.kernel(self.group, self.graph.target(self.target_name)).compiled
        assert found is not None, "the target is one that code is made for"
        return found

    @cached_property
    def interpreted(self) -> Lowered:
        """It as a program, for the interpreter."""
        return self.graph.kernel(self.group, resolve_target(ORACLE)).lowered

    @property
    def function(self) -> tuple[str, Span]:
        """The name of the captured function, and its place."""
        return self.graph.name, function_span(self.graph.executable.traced)

    @cached_property
    def listings(self) -> tuple[Listing, ...]:
        """The levels of the graph, then those of the kernel, with operations numbered as one."""
        below = [_renumbered(listing, self.first) for listing in self.compiled.listings if listing.level != "source"]
        above = [stage.listing for stage in self.graph.stages]
        return (*(_linked(listing, self._by_node) for listing in above if listing is not None), *below)

    @property
    def first(self) -> int:
        """The number of the kernel's first operation, behind those of all nodes."""
        return self.graph.plan.graph.next_ident

    @cached_property
    def links(self) -> Mapping[int, tuple[int, ...]]:
        """The numbers of the kernel's operations that stand for captured nodes, by their numbers."""
        found: dict[int, dict[int, None]] = defaultdict(dict)
        if self.group not in self.graph.plan.groups:
            return {}  # a body has numbers of its own
        for node in self.group.members:
            for number in self.graph.ancestry.numbers(node):
                found[number].update(dict.fromkeys(self._by_node[identity(node)]))
        return {number: tuple(operations) for number, operations in found.items()}

    @cached_property
    def _by_node(self) -> Mapping[str, tuple[int, ...]]:
        """The numbers of the kernel's operations that stand for each node of it."""
        by_span: dict[Span, list[int]] = defaultdict(list)
        if self.group not in self.graph.plan.groups:
            return {}
        for record in self.compiled.stages[0].records:
            for span in record.spans:
                by_span[span] += [self.first + number for number in record.numbers]
        return {identity(node): tuple(by_span[node.span]) for node in self.group.members}


def _renumbered(listing: Listing, first: int) -> Listing:
    lines = tuple(replace(line, ops=tuple(first + op for op in line.ops)) for line in listing.lines)
    return Listing(listing.level, listing.stage, lines)


def _linked(listing: Listing, links: Mapping[str, tuple[int, ...]]) -> Listing:
    lines = tuple(
        replace(line, ops=(*line.ops, *links.get(line.record.partition(".")[0], ()))) if line.ops else line
        for line in listing.lines
    )
    return Listing(listing.level, listing.stage, lines, listing.records)
