"""Partition a graph into kernels: greedily, in program order, by what is legal for each kind of kernel.

    before: contract, map (bias), map (gelu), reduce, map
    after:  [contract, map, map], [reduce, map]

Views, indices and constants cost nothing where they are used, so they may be members of several groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tessera.core.graph.expr import Apply, Argument
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.index_maps import is_reshape
from tessera.core.graph.infer import labels_of
from tessera.core.graph.rewrite import Rewriter
from tessera.lowering.schedule.form import POINTWISE, Form, Members, form, made_of_indices


@dataclass(eq=False)
class _Draft:
    """A group that grows.  owned: its nodes but for the free ones; before: the drafts it depends on."""

    number: int
    owned: list[Node]
    before: set[int] = field(default_factory=set[int])


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


def fuse(graph: Graph) -> Partition:
    """Return the groups of a graph."""
    return _Fuser(graph).run()


class _Fuser:
    """Grows groups.  free: nodes that every user may compute for itself; home: the draft of each other node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.outputs = set(graph.outputs)
        self.producers = graph.producers
        self.place = {node: number for number, node in enumerate(graph.nodes)}
        self.drafts: dict[int, _Draft] = {}
        self.home: dict[Node, _Draft] = {}
        indices: dict[Value, bool] = {}
        self.free: set[Node] = set()
        self.aliases: dict[Value, Value] = {}
        for node in graph.nodes:
            if node.results[0] in self.outputs:
                if self._is_alias(node) and not self._is_anothers(node.operands[0]):
                    self.aliases[node.result] = node.operands[0]
                continue
            if made_of_indices(node, indices):
                indices[node.result] = True
                self.free.add(node)
            elif node.op == "view" or self._converts_input(node):
                self.free.add(node)

    def run(self) -> Partition:
        for node in self.graph.nodes:
            if node not in self.free and node.results[0] not in self.aliases:
                self._place(node)
        self._absorb_producers()
        self._absorb_prologues()
        self._materialise_views()
        ordered = self._ordered()
        return Partition(tuple(Fused(*self._checked(draft.owned)) for draft in ordered), self.aliases)

    def _converts_input(self, node: Node) -> bool:
        """Return whether a node does nothing but convert what is an input: reading it is as cheap for every user."""
        if node.op != "map" or len(node.operands) != 1 or node.operands[0] not in self.graph.inputs:
            return False
        body = node.expr
        return isinstance(body, Apply) and body.opcode == "cast" and isinstance(body.operands[0], Argument)

    def _is_alias(self, node: Node) -> bool:
        """Return whether a node's result is what its operand is in memory, in another shape."""
        if node.op != "view" or node.operands[0] not in self.producers:
            return False
        if self.producers[node.operands[0]] in self.free:
            return False
        return is_reshape(node.index_map, node.operands[0].type.shape)

    def _is_anothers(self, value: Value) -> bool:
        """Return whether the memory of a value is that of an output already: each output has its own."""
        while value in self.aliases:
            value = self.aliases[value]
        return value in self.outputs or value in self.aliases.values()

    def _reshapes_input(self, node: Node) -> bool:
        if node.op != "view" or node.operands[0] not in self.graph.inputs:
            return False
        return is_reshape(node.index_map, node.operands[0].type.shape)

    # Growing

    def _place(self, node: Node) -> None:
        """Add a node to the group of an operand, the latest one first, or start a group."""
        sources = self._sources([node])
        for draft in sorted((self.drafts[n] for n in sources), key=lambda d: (not _reduces(d), -d.number)):
            others = sources - {draft.number}
            if any(draft.number in self._all_before(n) for n in others):
                continue
            if self._legal([*draft.owned, node]):
                draft.owned.append(node)
                draft.before |= others
                self.home[node] = draft
                return
        self._start([node], sources)

    def _start(self, nodes: list[Node], sources: set[int]) -> None:
        draft = _Draft(len(self.drafts) and max(self.drafts) + 1, nodes, set(sources))
        self.drafts[draft.number] = draft
        self.home.update(dict.fromkeys(nodes, draft))

    def _absorb_producers(self) -> None:
        """Move the groups that make a contraction's or a reduction's operands into its group, where it is one loop.

        All that only this group needs are tried together first: attention is legal as a whole, not by halves.
        """
        for draft in sorted(self.drafts.values(), key=lambda d: -d.number):
            if draft.number not in self.drafts or not any(node.op == "contract" for node in draft.owned):
                continue
            chain = self._only_for(draft)
            while chain:
                nodes = [node for each in chain for node in each.owned]
                joined = sorted([*draft.owned, *nodes], key=self.place.__getitem__)
                if any(n.op in ("contract", "reduce") for n in nodes) and self._legal(joined):
                    self._merge(draft, chain, joined)
                    break
                chain.pop()

    def _only_for(self, draft: _Draft) -> list[_Draft]:
        """Return the groups before one whose results nothing else needs, the nearest first."""
        found: list[_Draft] = []
        inside = {draft.number}
        changed = True
        while changed:
            changed = False
            for number in sorted({n for i in inside for n in self.drafts[i].before} - inside, reverse=True):
                results = {value for node in self.drafts[number].owned for value in node.results}
                users = {
                    other.number for other in self.drafts.values()
                    if other.number != number and results & set(self._members(other.owned).inputs)
                }  # fmt: skip
                if users <= inside and not results & self.outputs:
                    inside.add(number)
                    found.append(self.drafts[number])
                    changed = True
        return found

    def _merge(self, target: _Draft, others: Sequence[_Draft], joined: list[Node]) -> None:
        gone = {other.number for other in others}
        target.owned = joined
        target.before = (target.before | {n for other in others for n in other.before}) - gone
        for other in others:
            self.home.update(dict.fromkeys(other.owned, target))
            del self.drafts[other.number]
        for each in self.drafts.values():
            if each is not target and each.before & gone:
                each.before = (each.before - gone) | {target.number}

    def _absorb_prologues(self) -> None:
        """Move groups of elements whose results one group alone reads into that group."""
        for draft in sorted(self.drafts.values(), key=lambda d: -d.number):
            if any(node.op not in POINTWISE for node in draft.owned):
                continue
            results = {value for node in draft.owned for value in node.results}
            if results & self.outputs:
                continue
            users = {
                other.number for other in self.drafts.values()
                if other is not draft and results & set(self._members(other.owned).inputs)
            }  # fmt: skip
            if len(users) != 1:
                continue
            target = self.drafts[next(iter(users))]
            others = target.before - {draft.number}
            if any(draft.number in self._all_before(n) for n in others):
                continue
            joined = sorted([*draft.owned, *target.owned], key=self.place.__getitem__)
            if self._worthwhile(draft, target) and self._legal(joined):
                target.owned = joined
                target.before = others | draft.before
                self.home.update(dict.fromkeys(draft.owned, target))
                del self.drafts[draft.number]
                for other in self.drafts.values():
                    if draft.number in other.before:
                        other.before = (other.before - {draft.number}) | {target.number}

    def _worthwhile(self, draft: _Draft, target: _Draft) -> bool:
        """Do not compute a small tensor again for each of many elements, unless that is as cheap as reading it."""
        mine = max(node.result.type.size for node in draft.owned)
        theirs = max(node.result.type.size for node in target.owned)
        gathers = any(node.op in ("gather", "concat", "random") for node in draft.owned)
        return not (gathers and theirs > mine)

    def _materialise_views(self) -> None:
        """Give a kernel of its own to every free node that some group cannot read through, and one to equal ones."""
        copies: dict[tuple[object, ...], Value] = {}
        changed = True
        while changed:
            changed = False
            for draft in list(self.drafts.values()):
                if self._legal(draft.owned):
                    continue
                needed = self._unreadable(draft)
                for node in needed:
                    self.free.discard(node)
                    key = (node.op, node.operands, node.body, tuple(sorted(node.attributes.items())))
                    if self._is_alias(node) or self._reshapes_input(node):
                        self.aliases[node.result] = node.operands[0]
                    elif key in copies:
                        self.aliases[node.result] = copies[key]
                    else:
                        copies[key] = node.result
                        self._start([node], self._sources([node]))
                draft.before = self._sources(draft.owned) - {draft.number}
                changed = True

    def _unreadable(self, draft: _Draft) -> list[Node]:
        """Return the free nodes next to a group that keep it from being legal: views before indices."""
        members = self._members(draft.owned)
        free = [node for node in members.nodes if node not in draft.owned]
        views = [node for node in free if node.op == "view"] or free
        if not views:
            raise AssertionError(f"no kernel for {[f'{node.op} g{node.ident}' for node in draft.owned]}")
        for view in reversed(views):
            self.free.discard(view)
            if self._legal(draft.owned):
                return [view]
            self.free.add(view)
        return views[-1:]

    # Looking around

    def _members(self, owned: Sequence[Node]) -> Members:
        """Return owned nodes with the free ones that they need, and what goes in and out."""
        nodes: dict[Node, None] = {}
        stack = list(owned)
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
        return Members(tuple(ordered), tuple(inputs), tuple(outputs))

    def _used_outside(self, value: Value, mine: set[Node]) -> bool:
        """Return whether a node outside a group needs a value of it, also through views of it."""
        for user in self.graph.users.get(value, ()):
            if user in mine:
                continue
            if user not in self.free or self._used_outside(user.result, mine):
                return True
            # A free node computed from it inside this group alone: a view of what the group makes.
            if any(other in mine for other in self.graph.users.get(user.result, ())):
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

    def _all_before(self, number: int) -> set[int]:
        seen: set[int] = set()
        stack = [number]
        while stack:
            for each in self.drafts[stack.pop()].before:
                if each not in seen:
                    seen.add(each)
                    stack.append(each)
        return seen

    def _legal(self, owned: Sequence[Node]) -> bool:
        return form(self._members(owned)) is not None

    def _checked(self, owned: Sequence[Node]) -> tuple[Members, Form]:
        members = self._members(owned)
        found = form(members)
        assert found is not None
        return members, found

    def _ordered(self) -> list[_Draft]:
        """Return the drafts, each after those it reads; of several that are ready, the one begun first."""
        done: dict[int, _Draft] = {}
        left = dict(sorted(self.drafts.items()))
        while left:
            ready = next(n for n, d in left.items() if self._sources(d.owned) - {n} <= set(done))
            done[ready] = left.pop(ready)
        return list(done.values())


def _reduces(draft: _Draft) -> bool:
    return any(node.op in ("contract", "reduce") for node in draft.owned)


def separate_uses(graph: Graph) -> Graph:
    """Return the graph with a view of its own for every operand of a contraction that is used elsewhere too.

    Indices are made anew for each of their users: rows and columns of a mask may count the same.

    before: `contract(x, x)`, whose rows and columns both are the first axis of x
    after:  `contract(view(x), x)`
    """
    rewriter = Rewriter(graph)
    indices: dict[Value, bool] = {}
    for node in graph.nodes:
        indices[node.result] = made_of_indices(node, indices)
        operands = list(node.operands)
        repeated = (
            len(set(operands)) < len(operands) and node.op == "map" and len(set(labels_of(node.attributes["axes"]))) > 1
        )
        for place, operand in enumerate(node.operands):
            several = operands.count(operand) > 1  # the last one of equal operands may stay
            elsewhere = len(graph.users.get(operand, ())) > 1
            if indices.get(operand, False):
                if (several and repeated) or (graph.producers[operand].op == "iota" and (several or elsewhere)):
                    operands[place] = _again(operand, graph, rewriter, node)
            elif (repeated or node.op == "contract") and (several or elsewhere or operand in graph.outputs):
                operands[place] = rewriter.view_of(operand, node)
        rewriter.keep(node, operands)
    return rewriter.finish()


def _again(value: Value, graph: Graph, rewriter: Rewriter, user: Node) -> Value:
    """Compute what is made of indices once more, for one user alone."""
    maker = graph.producers[value]
    operands = [_again(operand, graph, rewriter, user) for operand in maker.operands]
    with rewriter.builder.within(rewriter.origin(user, maker), user.span):
        return rewriter.builder.add(maker.op, operands, maker.body, value.name, **maker.attributes)
