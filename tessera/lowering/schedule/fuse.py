"""Partition a graph into kernels: greedily, in program order, by what is legal for each kind of kernel.

    before: contract, map (bias), map (gelu), reduce, map
    after:  [contract, map, map], [reduce, map]

Views, indices and constants cost nothing where they are used, so they may be members of several groups.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import count
from typing import Final

from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.index_maps import is_reshape
from tessera.core.schedule.plan import is_long
from tessera.lowering.schedule.axes import AxisClasses, pairs
from tessera.lowering.schedule.form import POINTWISE, Form, Members, made_of_indices
from tessera.lowering.schedule.free_nodes import by_element, is_factor, is_read_through, picks_number, spreads
from tessera.lowering.schedule.group_order import GroupOrder, NoKernel
from tessera.lowering.schedule.known_forms import KnownForms
from tessera.lowering.schedule.made_again import is_cheap_again
from tessera.lowering.schedule.separate_uses import is_scores

MOST_NODES: Final = 128
"""Of a group, but for the free ones: more take longer to compile than what they save by not passing through memory."""
MOST_PRODUCERS: Final = 12
"""Groups that are tried as one loop with the one they are for: attention and its backward pass have half as many."""


@dataclass(eq=False)
class Draft:
    """A group that grows.  owned: its nodes but for the free ones.

    maps: all are; rows: all are maps and reductions of short rows
    reads: what maps of such a group read element by element; axes: which axes are one in it
    """

    number: int
    owned: list[Node] = field(default_factory=list[Node])
    maps: bool = True
    rows: bool = True
    reads: set[Value] = field(default_factory=set[Value])
    axes: AxisClasses = field(default_factory=AxisClasses)

    def append(self, node: Node) -> None:
        """Add a node."""
        self.owned.append(node)
        self.maps = self.maps and node.op == "map"
        self.rows = self.rows and (node.op == "map" or (node.op == "reduce" and not is_long(node)))
        if self.rows:
            for one, other in pairs(node):
                self.axes.union(one, other)
            self.reads.update(node.operands if by_element(node) else ())

    def replace(self, owned: list[Node]) -> None:
        """Have other nodes, after which none is known to continue the group; see `Fuser._continues`."""
        self.owned, self.maps, self.rows = owned, False, False


@dataclass(frozen=True, slots=True)
class Fused:
    """One group as found: its members and how they are one kernel."""

    members: Members
    form: Form


@dataclass(frozen=True, slots=True)
class Partition:
    """The groups of a graph, each after those whose outputs it reads, and the values that need no kernel."""

    groups: tuple[Fused, ...]
    aliases: Mapping[Value, Value]


class Fuser:
    """Grows groups.

    again: nodes that every user may compute for itself, with those that cost nothing: `free`; home: the draft of each
    other node; copies: of views, those that there are
    """

    def __init__(self, graph: Graph, again: frozenset[int] = frozenset()) -> None:
        self.graph = graph
        self.again = frozenset(node for node in graph.nodes if node.ident in again)
        self.outputs = set(graph.outputs)
        self.producers = graph.producers
        self.place = {node: number for number, node in enumerate(graph.nodes)}
        self.known = KnownForms()
        self.drafts: dict[int, Draft] = {}
        self.order = GroupOrder()
        self._numbers = count()
        self.home: dict[Node, Draft] = {}
        indices: dict[Value, bool] = {}
        self.free: set[Node] = set()
        self.aliases: dict[Value, Value] = {}
        self.copies: dict[tuple[object, ...], Value] = {}
        self._known_members: dict[tuple[Node, ...], Members] = {}
        for node in graph.nodes:
            if node.results[0] in self.outputs:
                if self._is_alias(node) and not self._is_anothers(node.operands[0]):
                    self.aliases[node.result] = node.operands[0]
                continue
            if node.op == "map" and node not in self.again and is_factor(graph, node.result):
                continue
            if self._reshapes_input(node) and any(t.divisor != 1 for a in node.index_map.axes for t in a.terms):
                self.aliases[node.result] = node.operands[0]  # no block of it is a box of the array as it was
                continue
            if made_of_indices(node, indices) or picks_number(graph, node):
                indices[node.result] = True
                self.free.add(node)
            elif node in self.again or spreads(graph, node, self.free) or is_read_through(graph, node):
                self.free.add(node)

    def run(self) -> Partition:
        """Return the partition."""
        self.grow()
        self.absorb()
        return Partition(tuple(Fused(*self._checked(draft.owned)) for draft in self._ordered()), self.aliases)

    def grow(self) -> None:
        """Put every node that is not free into a group, and the groups that are one loop together."""
        for node in self.graph.nodes:
            if node not in self.free and node.results[0] not in self.aliases:
                self._place(node)
        self._absorb_producers()

    def absorb(self) -> None:
        """Join what is made element by element with what reads it; what cannot be read through is made first."""
        self._absorb_prologues()
        self._materialise_views()

    def _is_alias(self, node: Node) -> bool:
        """Return whether a node's result is what its operand is in memory, in another shape."""
        producer = self.producers.get(node.operands[0]) if node.op == "view" else None
        return producer is not None and producer not in self.free and _is_reshape(node)

    def _is_anothers(self, value: Value) -> bool:
        """Return whether the memory of a value is that of an output already: each output has its own."""
        while value in self.aliases:
            value = self.aliases[value]
        return value in self.outputs or value in self.aliases.values()

    def _reshapes_input(self, node: Node) -> bool:
        return node.op == "view" and node.operands[0] in self.graph.inputs and _is_reshape(node)

    # Growing

    def _place(self, node: Node) -> None:
        """Add a node to the group of an operand, the latest one first, or start a group."""
        sources = self._sources([node])
        scores = node.op == "contract" and is_scores(self.graph, node)
        for draft in sorted((self.drafts[n] for n in sources), key=lambda d: (not _reduces(d), -d.number)):
            others = sources - {draft.number}
            if (scores and _reduces(draft)) or self.order.needs(others, {draft.number}):
                continue
            if self._continues(draft, node) or self._legal([*draft.owned, node]):
                draft.append(node)
                self.order.add(draft.number, others)
                self.home[node] = draft
                return
        draft = self._start(node, sources)
        # What follows a product joins it only where that is a kernel: one whose factor has to be copied first is not.
        if node.op == "contract" and not self._legal([node]):
            self._materialise(draft)

    def _continues(self, draft: Draft, node: Node) -> bool:
        """Return whether a map reads what a group makes or reads already, along axes that are one in it: no new axis.

        Chains of thousands of operators are placed in linear time so; `_legal` looks at the whole group.
        """
        if not (draft.rows and by_element(node)) or len(draft.owned) >= MOST_NODES:
            return False
        for value in node.operands:
            producer = self.producers.get(value)
            if value not in draft.reads and (producer is None or self.home.get(producer) is not draft):
                return False
        first, *others = node.operands
        classes = [draft.axes.find((first, axis)) for axis in range(len(first.type.shape))]
        return all(draft.axes.find((value, axis)) == one for value in others for axis, one in enumerate(classes))

    def _start(self, node: Node, sources: set[int]) -> Draft:
        draft = self.home[node] = Draft(next(self._numbers))
        draft.append(node)
        self.drafts[draft.number] = draft
        self.order.start(draft.number, sources)
        return draft

    def _absorb_producers(self) -> None:
        """Move the groups that make a contraction's or a reduction's operands into its group, where it is one loop.

        All that only this group needs are tried together first: attention is legal as a whole, not by halves.
        """
        for draft in sorted(self.drafts.values(), key=lambda d: -d.number):
            if draft.number not in self.drafts or not any(node.op == "contract" for node in draft.owned):
                continue
            whole, hidden = self._only_for(draft, written=True), self._only_for(draft)
            chains = [whole, hidden, self._without_maps(hidden)]
            for chain in [each for number, each in enumerate(chains) if each not in chains[:number]]:
                if self._absorb(draft, chain):
                    break

    def _without_maps(self, chain: list[Draft]) -> list[Draft]:
        """Return the groups of a chain that reduce, and the maps after them: other maps are kernels before the loop."""
        reducing = {draft.number for draft in chain if _reduces(draft)}
        return [draft for draft in chain if draft.number in reducing or self.order.needs({draft.number}, reducing)]

    def _absorb(self, draft: Draft, chain: list[Draft]) -> bool:
        """Merge as many groups into one as make a kernel with it, the nearest first."""
        while chain:
            nodes = [node for each in chain for node in each.owned]
            joined = sorted([*draft.owned, *nodes], key=self.place.__getitem__)
            if any(n.op in ("contract", "reduce") for n in nodes) and self._may_loop(joined) and self._legal(joined):
                self._merge(draft, chain, joined)
                return True
            chain.pop()
        return False

    def _may_loop(self, owned: Sequence[Node]) -> bool:
        """Return whether a group has few enough products for one loop, those that it computes again included."""
        return sum(node.op == "contract" for node in self._members(owned).nodes) <= MOST_PRODUCERS

    def _only_for(self, draft: Draft, *, written: bool = False) -> list[Draft]:
        """Return the groups before one whose results no other kernel needs, the nearest first: as many as a loop has.

        written: also those whose results are outputs of the graph, such as the entropy of attention's weights
        """
        found, inside = list[Draft](), {draft.number}
        changed = True
        while changed and len(found) < MOST_PRODUCERS:
            changed = False
            for number in sorted({n for i in inside for n in self.order.sources(i)} - inside, reverse=True):
                results = {value for node in self.drafts[number].owned for value in node.results}
                users = self._readers(results) - {number}
                if users <= inside and (written or not results & self.outputs):
                    inside.add(number)
                    found.append(self.drafts[number])
                    changed = True
        return found

    def _merge(self, target: Draft, others: Sequence[Draft], joined: list[Node]) -> None:
        target.replace(joined)
        for other in others:
            self.home.update(dict.fromkeys(other.owned, target))
            del self.drafts[other.number]
        self.order.merge(target.number, [other.number for other in others])

    def _absorb_prologues(self) -> None:
        """Move groups of elements whose results one group alone reads into that group."""
        for draft in sorted(self.drafts.values(), key=lambda d: -d.number):
            if any(node.op not in POINTWISE for node in draft.owned):
                continue
            results = {value for node in draft.owned for value in node.results}
            if results & self.outputs:
                continue
            users = self._readers(results) - {draft.number}
            if len(users) != 1:
                continue
            target = self.drafts[next(iter(users))]
            others = self.order.sources(target.number) - {draft.number}
            if self.order.needs(others, {draft.number}):
                continue
            joined = sorted([*draft.owned, *target.owned], key=self.place.__getitem__)
            if is_cheap_again(draft.owned, target.owned) and self._legal(joined):
                target.replace(joined)
                self.home.update(dict.fromkeys(draft.owned, target))
                del self.drafts[draft.number]
                self.order.merge(target.number, [draft.number])

    def _materialise_views(self) -> None:
        """Give a kernel of its own to every free node that some group cannot read through, and one to equal ones."""
        changed = True
        while changed:
            changed = False
            for draft in list(self.drafts.values()):
                if not self._legal(draft.owned):
                    self._materialise(draft)
                    changed = True

    def _materialise(self, draft: Draft) -> None:
        """Give a kernel of its own to what a group cannot read through."""
        for node in self._unreadable(draft):
            self._set_free(without=[node])
            key = (node.op, node.operands, node.body, tuple(sorted(node.attributes.items())))
            if self._is_alias(node) or self._reshapes_input(node):
                self.aliases[node.result] = node.operands[0]
            elif key in self.copies:
                self.aliases[node.result] = self.copies[key]
            else:
                self.copies[key] = node.result
                self._start_or_join(node)
        self.order.replace(draft.number, self._sources(draft.owned))

    def _start_or_join(self, node: Node) -> None:
        """Start a group, unless one makes what a node needs and reads the node: that one writes it as well."""
        sources = self._sources([node])
        around = sources & self._readers(node.results)
        if not around:
            self._start(node, sources)
            return
        home = self.drafts[around.pop()]
        home.replace(sorted([*home.owned, node], key=self.place.__getitem__))
        self.order.add(home.number, sources)
        self.home[node] = home

    def _unreadable(self, draft: Draft) -> list[Node]:
        """Return the free nodes next to a group that keep it from being legal: views before indices."""
        members = self._members(draft.owned)
        free = [node for node in members.nodes if node not in draft.owned]
        if not free:
            raise NoKernel(f"no kernel for {[f'{node.op} g{node.ident}' for node in draft.owned]}")
        views, others = ([node for node in free if (node.op == "view") == is_view] for is_view in (True, False))
        # Of those that would do the smallest: pixels with zeros between them, not all windows of these.
        views.sort(key=lambda each: (each.result.type.size, -self.place[each]))
        for node in sorted((*views, *reversed(others)), key=lambda each: each not in self.again):
            self._set_free(without=[node])
            if self._legal(draft.owned):
                return [node]
            self._set_free([node])
        return (views or free)[-1:]

    # Looking around

    def _users(self, value: Value) -> set[Node]:
        """Return the nodes that read a value, also through free nodes."""
        found: set[Node] = set()
        for user in self.graph.users.get(value, ()):
            found |= self._users(user.result) if user in self.free else {user}
        return found

    def _set_free(self, more: Collection[Node] = (), without: Collection[Node] = ()) -> None:
        """Let groups compute nodes for themselves, or no more."""
        self.free.update(more)
        self.free.difference_update(without)
        self._known_members.clear()

    def _members(self, owned: Sequence[Node]) -> Members:
        """Return owned nodes with the free ones that they need, and what goes in and out."""
        key = tuple(owned)
        found = self._known_members.get(key)
        if found is None:
            found = self._known_members[key] = self._found_members(key)
        return found

    def _found_members(self, owned: Sequence[Node]) -> Members:
        nodes, stack = dict[Node, None](), list(owned)
        while stack:
            node = stack.pop()
            if node in nodes:
                continue
            nodes[node] = None
            for operand in node.operands:
                producer = self.producers.get(operand)
                if producer is not None and producer in self.free:
                    stack.append(producer)
        ordered = sorted(nodes, key=self.place.__getitem__)
        made = {value for node in ordered for value in node.results}
        inputs = dict.fromkeys(v for node in ordered for v in node.operands if v not in made)
        mine = set(owned)
        outputs = dict.fromkeys(
            value for node in ordered if node in mine for value in node.results
            if value in self.outputs or self._used_outside(value, mine)
        )  # fmt: skip
        return Members(tuple(ordered), tuple(inputs), tuple(outputs), self.again.intersection(ordered))

    def _used_outside(self, value: Value, mine: set[Node]) -> bool:
        """Return whether a node outside a group needs a value of it, also through views of it."""
        for user in self.graph.users.get(value, ()):
            if user in mine:
                continue
            if user not in self.free or self._used_outside(user.result, mine):
                return True
            # A free node computed from it inside this group alone: a view of what the group makes.
            if user.op == "view" and any(other in mine for other in self.graph.users.get(user.result, ())):
                return True
        return False

    def _sources(self, nodes: Iterable[Node]) -> set[int]:
        """Return the drafts whose results `nodes` read, also through free nodes."""
        found: set[int] = set()
        stack = [operand for node in nodes for operand in node.operands]
        while stack:
            producer = self.producers.get(stack.pop())
            if producer is None:
                continue
            if producer.results[0] in self.aliases:
                stack.append(self.aliases[producer.result])
            elif producer in self.free:
                stack += producer.operands
            elif producer in self.home:
                found.add(self.home[producer].number)
        return found

    def _readers(self, values: Iterable[Value]) -> set[int]:
        """Return the drafts that read one of these values, also through free nodes."""
        found, seen = set[int](), set(values)
        stack = list(seen)
        while stack:
            for user in self.graph.users.get(stack.pop(), ()):
                if user in self.home:
                    found.add(self.home[user].number)
                if user in self.free and user.result not in seen:
                    seen.add(user.result)
                    stack.append(user.result)
        return found

    def _legal(self, owned: Sequence[Node]) -> bool:
        if len(owned) > MOST_NODES:
            return False
        if not (members := self._members(owned)).outputs and self.again:  # all of it is computed again elsewhere
            return False
        return not self._reads_itself(members) and self.known.is_kernel(members)

    def _reads_itself(self, members: Members) -> bool:
        """Return whether a kernel would read what it writes, in another shape: it would read it too soon."""
        made = members.made
        for value in members.inputs:
            while value in self.aliases:
                value = self.aliases[value]  # noqa: PLW2901 - the value that lies in this memory
            if value in made:
                return True
        return False

    def _checked(self, owned: Sequence[Node]) -> tuple[Members, Form]:
        if not (members := self._members(owned)).outputs and self.again:
            raise NoKernel("a group that nothing needs: all of it is computed again elsewhere")
        return members, self.known.form(members)

    def _ordered(self) -> list[Draft]:
        """Return the drafts, each after those it reads; of several that are ready, the one begun first."""
        sorter = TopologicalSorter({number: self._sources(d.owned) - {number} for number, d in self.drafts.items()})
        sorter.prepare()  # raises where groups read each other: none is left out in silence
        ready, ordered = list[int](), list[Draft]()
        while sorter.is_active():
            for number in sorter.get_ready():
                heappush(ready, number)
            ordered.append(self.drafts[done := heappop(ready)])
            sorter.done(done)
        return ordered


def _is_reshape(view: Node) -> bool:
    return is_reshape(view.index_map, view.operands[0].type.shape)


def _reduces(draft: Draft) -> bool:
    return not draft.maps and any(node.op in ("contract", "reduce") for node in draft.owned)
