"""Move nodes between the groups that were grown, so that kernels read and write less.

    before: [contract, map bf16, map erf, map exp], [contract, map], [max], [sum]
    after:  [contract, map bf16], [contract, map erf, map exp, map], [max, sum]

Maps of what a product writes anyway go to their reader, or are made again there where that moves fewer bytes.
Reductions read one array once; those of a long row are one loop, where they use each other.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from tessera.core.graph.graph import Graph, Node, Value
from tessera.lowering.schedule.form import form
from tessera.lowering.schedule.free_nodes import is_factor
from tessera.lowering.schedule.fuse import MOST_PRODUCERS, Draft, Fuser, Partition
from tessera.lowering.schedule.group_order import GroupOrder
from tessera.lowering.schedule.made_again import made_again


def fuse(graph: Graph, again: frozenset[int] = frozenset()) -> Partition:
    """Return the groups of a graph.  again: numbers of nodes that every group may compute for itself."""
    return Regrouper(graph, again).run()


def looped_reductions(graph: Graph) -> frozenset[Node]:
    """Return the reductions of cascades, which loop over blocks of their axis, so have any length.

    A long sum alone is no cascade: it has an association of its own.
    """
    fuser = Regrouper(graph)
    fuser.grow()
    reducing = [draft.owned for draft in fuser.drafts.values() if any(node.op == "reduce" for node in draft.owned)]
    loops = [owned for owned in reducing if fuser.is_cascade(owned)]
    return frozenset(node for owned in loops for node in owned if node.op == "reduce")


class Regrouper(Fuser):
    """Grows groups, and moves nodes between them."""

    def grow(self) -> None:
        """Grow groups, then let each node be where it costs least."""
        super().grow()
        self._join_loops()
        self._sink_maps()
        self._push_maps()
        self._make_again()
        self._absorb_rows()
        self._absorb_products()

    def absorb(self) -> None:
        """Join what is made element by element with what reads it, and with what it is made of."""
        super().absorb()
        # Nodes have moved, and views are kernels now.
        self.order = GroupOrder({number: self._sources(draft.owned) for number, draft in self.drafts.items()})
        self._absorb_epilogues()
        self._join_readers()

    def is_cascade(self, owned: Sequence[Node]) -> bool:
        """Return whether nodes are one loop whose reductions use each other, or are weighed by what others find."""
        found = form(self._members(owned))
        return found is not None and found.cascade is not None and bool(found.cascade.cascade.anchors)

    def _join_loops(self) -> None:
        """Put groups that compute the same products again into one, where they are one loop with several sums."""
        for number in sorted(self.drafts) if self.again else ():
            for other in sorted(each for each in self.drafts if each > number):
                one, two = self.drafts.get(number), self.drafts.get(other)
                if one is None or two is None or not self._products_again(one) & self._products_again(two):
                    continue
                if self._between(number, other) or self._between(other, number):
                    continue
                joined = sorted([*one.owned, *two.owned], key=self.place.__getitem__)
                if self._legal(joined):
                    self._merge(one, [two], joined)

    def _sink_maps(self) -> None:
        """Move maps at the end of a group into the one that alone needs them, where less is written and read then."""
        for draft in self.drafts.values() if self.again else ():
            for node in reversed(draft.owned[1:]):
                users = [user for user in self.graph.users.get(node.results[0], ()) if user not in self.free]
                drafts = {self.home[user].number for user in users if user in self.home}
                if node.op != "map" or node.result in self.outputs or len(drafts) != 1 or draft.number in drafts:
                    continue
                target = self.drafts[drafts.pop()]
                moved = self._only_parts(node, draft)
                left = [each for each in draft.owned if each not in moved]
                joined = sorted([*target.owned, *moved], key=self.place.__getitem__)
                before = self._traffic(draft.owned) + self._traffic(target.owned)
                if self._traffic(left) + self._traffic(joined) < before and self._legal(left) and self._legal(joined):
                    draft.owned, target.owned = left, joined
                    self.order.add(target.number, self._sources(moved))
                    self.home.update(dict.fromkeys(moved, target))
                    break

    def _only_parts(self, node: Node, draft: Draft) -> set[Node]:
        """Return a map with those of its group that are made for it alone."""
        found = {node}
        for each in reversed(draft.owned):
            users = self.graph.users.get(each.results[0], ())
            if each.op == "map" and users and found.issuperset(users) and each.result not in self.outputs:
                found.add(each)
        return found

    def _traffic(self, owned: Sequence[Node]) -> int:
        """Return the bytes that a group reads and writes."""
        members = self._members(owned)
        return sum(value.type.bytes for value in (*members.inputs, *members.outputs))

    def _between(self, first: int, last: int) -> bool:
        """Return whether another group needs one, and is needed by the other."""
        return self.order.needs(self.order.all_before(last) - {first}, {first})

    def _products_again(self, draft: Draft) -> set[Node]:
        return {node for node in self._members(draft.owned).nodes if node in self.again and node.op == "contract"}

    def _push_maps(self) -> None:
        """Move maps of what a product writes anyway to the group that reads them: it reads one array less."""
        for draft in [each for each in self.drafts.values() if any(node.op == "contract" for node in each.owned)]:
            for node in reversed([node for node in draft.owned if node.op == "map"]):
                rest = [each for each in draft.owned if each is not node]
                made, written = set(self._members(rest).made), set(self._members(draft.owned).outputs)
                users = {self.home[user].number for user in self._users(node.result) if user in self.home}
                if node.result in self.outputs or len(users) != 1 or draft.number in users:
                    continue
                (target,) = (self.drafts[number] for number in users)
                needed = set(self._members([node]).inputs) & made
                joined = sorted([node, *target.owned], key=self.place.__getitem__)
                if needed <= written and any(n.op == "reduce" for n in target.owned) and self._legal(joined):
                    draft.owned, target.owned = rest, joined
                    self.home[node] = target
                    self.order.replace(draft.number, self._sources(rest))
                    self.order.replace(target.number, self._sources(joined))

    def _make_again(self) -> None:
        """Let readers of a product's epilogue compute what costs more to write and to read."""
        for draft in [each for each in self.drafts.values() if any(node.op == "contract" for node in each.owned)]:
            members = self._members(draft.owned)
            wanted = [value for value in members.outputs if self._may_be_made_again(value)]
            again = made_again(members, draft.owned, wanted)
            if not again:
                continue
            readers = {self.home[user].number for node in again for user in self._users(node.result)}
            touched = {draft.number, *readers}
            before = {number: self.drafts[number].owned for number in touched}
            self._set_free(again)
            draft.owned = [node for node in draft.owned if node not in again]
            if all(self._legal(self.drafts[number].owned) for number in touched):
                for number in touched:
                    self.order.replace(number, self._sources(self.drafts[number].owned))
            else:
                self._set_free(without=again)
                draft.owned = before[draft.number]

    def _may_be_made_again(self, value: Value) -> bool:
        """Return whether readers of a map's result read each element once: no factor of a product, and no loop."""
        if self.producers[value].op != "map" or value in self.outputs or is_factor(self.graph, value):
            return False
        users = self._users(value)
        return all(user in self.home and _loops(self.home[user]) < 2 for user in users)

    def _absorb_rows(self) -> None:
        """Join reductions of one array: short rows are read once, long ones in one loop, where they are a cascade."""
        for draft in sorted(self.drafts.values(), key=lambda d: -d.number):
            if draft.number not in self.drafts or not any(node.op == "reduce" for node in draft.owned):
                continue
            if any(node.op == "contract" for node in draft.owned):
                continue
            chain = [self.drafts[number] for number in self._nearest_before(draft.number)]
            chain = [each for each in chain if all(node.op in ("map", "reduce") for node in each.owned)]
            while chain:
                inside = {draft.number, *(each.number for each in chain)}
                if not any(n.op == "reduce" for each in chain for n in each.owned) or self._is_between(inside):
                    chain.pop()
                    continue
                joined = sorted([*draft.owned, *(n for each in chain for n in each.owned)], key=self.place.__getitem__)
                if self._saves(draft, chain, joined):
                    self._merge(draft, chain, joined)
                    break
                chain.pop()

    def _nearest_before(self, number: int) -> list[int]:
        """Return the groups that one needs, the nearest first: as many as are tried as one loop with it."""
        nearest_first: list[int] = []
        seen = {number}
        waiting = [-source for source in self.order.sources(number)]
        heapify(waiting)
        while waiting and len(nearest_first) < MOST_PRODUCERS:
            nearest = -heappop(waiting)
            if nearest not in seen:
                seen.add(nearest)
                nearest_first.append(nearest)
                for source in self.order.sources(nearest) - seen:
                    heappush(waiting, -source)
        return nearest_first

    def _absorb_products(self) -> None:
        """Join a product with the reductions that alone read it, in one loop: the logits of a loss are not stored."""
        for draft in sorted(self.drafts.values(), key=lambda d: -d.number):
            if any(node.op == "contract" for node in draft.owned) or not _loops(draft):
                continue
            for number in sorted(self.order.sources(draft.number), reverse=True):
                producer = self.drafts[number]
                results = {value for node in producer.owned for value in node.results}
                alone = self._readers(results) - {number} == {draft.number} and not results & self.outputs
                joined = sorted([*producer.owned, *draft.owned], key=self.place.__getitem__)
                if alone and any(n.op == "contract" for n in producer.owned) and self._saves(draft, [producer], joined):
                    self._merge(draft, [producer], joined)
                    break

    def _saves(self, draft: Draft, chain: Sequence[Draft], joined: Sequence[Node]) -> bool:
        """Return whether groups are one that reads and writes less."""
        if self._is_between({draft.number, *(each.number for each in chain)}) or not self._legal(joined):
            return False
        parts = [self._members(each.owned) for each in (draft, *chain)]
        whole = self._members(joined)
        moved = sum(value.type.bytes for each in parts for value in (*each.inputs, *each.outputs))
        return sum(value.type.bytes for value in (*whole.inputs, *whole.outputs)) < moved

    def _is_between(self, inside: set[int]) -> bool:
        """Return whether another group needs one of several, and is needed by one."""
        others = {n for number in inside for n in self.order.sources(number)} - inside
        return self.order.needs(others, inside)

    def _absorb_epilogues(self) -> None:
        """Move maps into the group of an operand: what it could not read through has a kernel of its own by now."""
        for draft in sorted(self.drafts.values(), key=lambda d: d.number):
            if any(node.op != "map" for node in draft.owned):
                continue
            for source in sorted((self.drafts[n] for n in self.order.sources(draft.number)), key=lambda d: -d.number):
                joined = sorted([*source.owned, *draft.owned], key=self.place.__getitem__)
                others = self.order.sources(draft.number) - {source.number}
                if not self.order.needs(others, {source.number}) and self._legal(joined):
                    self._merge(source, [draft], joined)
                    break

    def _join_readers(self) -> None:
        """Join groups of elements and of rows whose largest array is the same one and that do not need each other."""
        readers: dict[Value, list[int]] = {}
        for draft in sorted(self.drafts.values(), key=lambda d: d.number):
            for value in () if _multiplies(draft) else self._largest_inputs(draft):
                readers.setdefault(value, []).append(draft.number)
        for number in sorted({number for each in readers.values() for number in each}):
            if number in self.drafts:
                self._join_readers_of(self.drafts[number], readers)

    def _join_readers_of(self, draft: Draft, readers: Mapping[Value, Sequence[int]]) -> None:
        """Join a group with later ones, in their order; what it reads then has further readers."""
        last, values, waiting = draft.number, set[Value](), list[int]()
        while True:
            for value in self._largest_inputs(draft) - values:
                values.add(value)
                for number in readers.get(value, ()):
                    heappush(waiting, number)
            while waiting and (waiting[0] <= last or waiting[0] not in self.drafts):
                heappop(waiting)
            if not waiting:
                return
            last = heappop(waiting)
            self._join_reader(draft, self.drafts[last])

    def _largest_inputs(self, draft: Draft) -> set[Value]:
        """Return the arrays that a group reads of which none is larger."""
        inputs = self._members(draft.owned).inputs
        most = max((value.type.bytes for value in inputs), default=0)
        return {value for value in inputs if value.type.bytes == most}

    def _join_reader(self, draft: Draft, other: Draft) -> None:
        joined = sorted([*draft.owned, *other.owned], key=self.place.__getitem__)
        before = self._traffic(draft.owned) + self._traffic(other.owned)
        one, two = draft.number, other.number
        dependent = self.order.needs([two], {one}) or self.order.needs([one], {two})
        if not dependent and self._traffic(joined) < before and self._legal(joined):
            self._merge(draft, [other], joined)


def _multiplies(draft: Draft) -> bool:
    return any(node.op == "contract" for node in draft.owned)


def _loops(draft: Draft) -> int:
    return sum(node.op in ("contract", "reduce") for node in draft.owned)
