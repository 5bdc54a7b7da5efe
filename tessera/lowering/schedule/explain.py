"""Explain a plan: partition its graph once more, keep what was tried, and judge each pair of neighbouring kernels.

Partitions depend on the graph alone, so what is told here is what happened.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.schedule.decisions import Attempt, Boundary, Cost, FusionReport, Refusal
from tessera.core.schedule.plan import Group, Plan
from tessera.core.schedule.refusals import decisive, listening
from tessera.core.schedule.text import bytes_moved, flops, operations
from tessera.lowering.schedule.form import Members, form
from tessera.lowering.schedule.fuse import MOST_NODES, Draft
from tessera.lowering.schedule.made_again import is_cheap_again
from tessera.lowering.schedule.regroup import Regrouper

_ADJOINT: Final = "adjoint"


def explain_fusion(plan: Plan) -> FusionReport:
    """Return the decisions that made a plan, and why its neighbouring kernels are not one."""
    fuser = _ListeningFuser(plan.graph, plan.again)
    fuser.run()
    fused = Cost(len(plan.groups), sum(map(bytes_moved, plan.groups)), sum(map(operations, plan.groups)))
    boundaries = tuple(fuser.boundaries(plan.groups))
    return FusionReport(plan, tuple(fuser.attempts), boundaries, separate_cost(plan.graph), fused)


def separate_cost(graph: Graph) -> Cost:
    """Return the cost of one kernel for each operator that the user called; views cost nothing, and no memory."""
    producers = graph.producers
    home = {node: _operator(node) for node in graph.nodes}
    read: dict[tuple[object, ...], dict[Value, None]] = {}
    written: dict[tuple[object, ...], dict[Value, None]] = {}
    for node in graph.nodes:
        if node.op == "view":
            continue
        mine = home[node]
        read.setdefault(mine, {})
        for operand in node.operands:
            value = _in_memory(operand, producers)
            if value not in producers or home[producers[value]] != mine:
                read[mine][value] = None
                if value in producers:
                    written.setdefault(home[producers[value]], {})[value] = None
    for output in graph.outputs:
        value = _in_memory(output, producers)
        if value in producers:
            written.setdefault(home[producers[value]], {})[value] = None
    moved = sum(value.type.bytes for table in (read, written) for values in table.values() for value in values)
    return Cost(len(read), moved, sum(map(flops, graph.nodes)))


def _operator(node: Node) -> tuple[object, ...]:
    """Return what names the operator that a node is part of; nodes outside of any are operators themselves."""
    path = node.origin.composite
    depth = 3 if path[:1] == (_ADJOINT,) else 2
    return path[:depth] if len(path) >= depth else (node.ident,)


def _in_memory(value: Value, producers: Mapping[Value, Node]) -> Value:
    """Return the value that lies in memory where a view of it is read."""
    while value in producers and producers[value].op == "view":
        value = producers[value].operands[0]
    return value


def _cost(members: Iterable[Members]) -> Cost:
    each = list(members)
    moved = sum(value.type.bytes for one in each for value in (*one.inputs, *one.outputs))
    return Cost(len(each), moved, sum(flops(node) for one in each for node in one.nodes))


class _ListeningFuser(Regrouper):
    """A fuser that keeps what it tried.  attempts: in order, each once."""

    def __init__(self, graph: Graph, again: frozenset[int]) -> None:
        super().__init__(graph, again)
        self.attempts: list[Attempt] = []
        self._known: set[frozenset[Node]] = set()

    def _legal(self, owned: Sequence[Node]) -> bool:
        with listening() as refusals:
            found = form(self._members(owned))
        parts = self._parts(owned)
        key = frozenset(owned)
        if len(parts) > 1 and key not in self._known:
            self._known.add(key)
            refusal = decisive(refusals) if found is None else None
            kind = found.kind if found is not None else ""
            numbers = tuple(tuple(node.ident for node in part) for part in parts)
            before = _cost(self._members(part) for part in parts)
            self.attempts.append(Attempt(numbers, kind, refusal, before, _cost([self._members(owned)])))
        return found is not None

    def _parts(self, owned: Sequence[Node]) -> list[list[Node]]:
        """Return what nodes were before they were tried together: drafts, and nodes that are in none yet."""
        parts: dict[int, list[Node]] = {}
        for node in owned:
            draft = self.home.get(node)
            parts.setdefault(-1 - node.ident if draft is None else draft.number, []).append(node)
        return list(parts.values())

    # The end

    def boundaries(self, groups: Sequence[Group]) -> Iterator[Boundary]:
        """Yield every pair of a kernel and one that reads what it writes, with why they are two."""
        ordered = self._ordered()
        places = {draft.number: group for draft, group in zip(ordered, groups, strict=True)}
        for draft in ordered:
            for number in sorted(self._sources(draft.owned) - {draft.number}):
                yield self._boundary(self.drafts[number], draft, places)

    def _boundary(self, producer: Draft, consumer: Draft, places: Mapping[int, Group]) -> Boundary:
        made, reads = (self._members(each.owned) for each in (producer, consumer))
        joined = sorted([*producer.owned, *consumer.owned], key=self.place.__getitem__)
        whole = self._members(joined)
        values = tuple(value for value in made.outputs if value in {self._source(each) for each in reads.inputs})
        return Boundary(
            places[producer.number].ident, places[consumer.number].ident, values,
            self._refusal(producer, consumer, whole, places), _cost([made, reads]), _cost([whole]),
        )  # fmt: skip

    def _refusal(
        self, producer: Draft, consumer: Draft, whole: Members, places: Mapping[int, Group]
    ) -> Refusal:  # fmt: skip
        between = [
            n for n in self._sources(consumer.owned) - {producer.number, consumer.number}
            if producer.number in self._before(n)
        ]  # fmt: skip
        if between:
            owned = tuple(self.drafts[between[0]].owned)
            return Refusal("cycle", owned, f"kernel {places[between[0]].ident}")
        if (count := len(producer.owned) + len(consumer.owned)) > MOST_NODES:
            return Refusal("length", detail=f"{count} operators, and at most {MOST_NODES}")
        with listening() as refusals:
            found = form(whole)
        if found is None:
            return decisive(refusals)
        if not is_cheap_again(producer.owned, consumer.owned):
            return Refusal("repeated", tuple(producer.owned))
        results = {value for node in producer.owned for value in node.results}
        readers = [
            d for d in self.drafts.values() if d is not producer and results & set(self._members(d.owned).inputs)
        ]
        return Refusal("readers" if len(readers) > 1 or results & self.outputs else "order")

    def _before(self, number: int) -> set[int]:
        """Return the drafts that one needs, directly or not, as they are now."""
        seen: set[int] = set()
        stack = [number]
        while stack:
            for each in self._sources(self.drafts[stack.pop()].owned):
                if each not in seen:
                    seen.add(each)
                    stack.append(each)
        return seen

    def _source(self, value: Value) -> Value:
        """Return the array in memory that a value is read from, past values that are others in another shape."""
        while value in self.aliases:
            value = self.aliases[value]
        return value
