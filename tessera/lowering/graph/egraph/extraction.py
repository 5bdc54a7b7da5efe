"""Extraction: choose a node of every class that is needed, so that the graph costs least on the reference machine.

Shared values count once.  A first choice goes bottom up with sets of classes; since no single user pays for a value
that pays only when several share it (one product in the place of three), descent then asks of each class what the
graph would cost if it were paid for already, and of each node what it would cost without it.  Whole graphs are
compared by `reference_costs.price`.  Ties are broken by a hash of what is computed, never by a number.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tessera.lowering.graph.egraph.egraph import EGraph, ENode
from tessera.lowering.graph.egraph.reference_costs import Price, node_price, price

Step: TypeAlias = tuple[str, tuple[int, ...]]
"""A rule, and the numbers of the graph's nodes that it was applied to."""
TRIALS: Final = 160
"""Most graphs that are priced."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A graph out of the e-graph.

    choice: the node of each needed class; order: these classes, each after those that it is made of
    """

    choice: Mapping[int, ENode]
    order: tuple[int, ...]
    price: Price

    def applied(self, egraph: EGraph) -> frozenset[Step]:
        """Return the rules that made nodes of it, each with the graph's nodes that it was applied to."""
        reasons = (egraph.reasons[self.choice[number]] for number in self.order)
        return frozenset((reason.rule, reason.parents) for reason in reasons if reason.rule)

    def rules(self, egraph: EGraph) -> tuple[str, ...]:
        """Return the rules that made nodes of it, sorted."""
        found = {egraph.reasons[self.choice[number]].rule for number in self.order}
        return tuple(sorted(found - {""}))


@dataclass(frozen=True, slots=True)
class _Best:
    """The best known way to make a class.

    key: its price with all that it needs, and what breaks ties; mask: the classes that it needs
    paid: those that its users pay for; price: of the node alone
    """

    key: tuple[int, int, bytes]
    mask: int
    paid: int
    node: ENode
    price: int


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """How every class is made best.

    free: classes as if they were paid for; banned: nodes as if they were not there
    """

    free: frozenset[int]
    banned: frozenset[ENode]
    best: dict[int, _Best]


class Extractor:
    """Chooses the cheapest graph of an e-graph.

    original: what the graph was; tried: the best choice of those that were priced, by what rules were applied to
    seen: all of them
    """

    def __init__(self, egraph: EGraph) -> None:
        self.egraph = egraph
        self.roots = tuple(map(egraph.find, egraph.roots))
        self.order = self._reachable()
        nodes = [(number, node) for number in self.order for node in egraph.members[number]]
        self.prices = {node: node_price(egraph, node, number) for number, node in nodes}
        self.made = {node: bool(egraph.reasons[node].rule) for _, node in nodes}
        self.texts = {node: repr((node.op, node.attributes, node.body)).encode() for _, node in nodes}
        self.users: dict[int, set[int]] = {number: set() for number in self.order}
        for number, node in nodes:
            for kid in node.kids:
                self.users[kid].add(number)
        self.tried: dict[frozenset[Step], Selection] = {}
        self.seen: dict[tuple[tuple[int, ENode], ...], Selection] = {}
        self.original = self._noted({number: egraph.members[number][0] for number in self.order})
        self.start = self._bottom_up(frozenset(), frozenset(), {}, set(self.order))

    def _reachable(self) -> list[int]:
        """Return the classes that some choice needs."""
        found, stack = set(self.roots), list(self.roots)
        while stack:
            for node in self.egraph.members[stack.pop()]:
                for kid in node.kids:
                    if kid not in found:
                        found.add(kid)
                        stack.append(kid)
        return sorted(found)

    def run(self, start: "_State | None" = None, most: int = TRIALS) -> Selection:
        """Return the best choice that descent finds, in passes over everything that could be chosen otherwise."""
        best, state = self.original, start or self.start
        found = self._selected(state)
        if found is not None and found.price < best.price:
            best = found
        trials = improved = 1
        while improved and trials < most:
            improved = 0
            for moved in self._next_states(best, state):
                found = self._selected(moved)
                trials += 1
                if found is not None and found.price < best.price:
                    best, state, improved = found, moved, 1
                if trials >= most:
                    break
        return best

    def _next_states(self, best: Selection, state: "_State") -> Iterator["_State"]:
        """Yield what to try: classes that rules made as if paid for, nodes that they made left out, values left out.

        What several products need pays until none of them does: it is left out for all of them at once.
        """
        for number in self.order:
            made = self.made[self.egraph.members[number][0]]
            if made and number not in best.choice and number not in state.free and len(self.users[number]) > 1:
                yield self._moved(state, number)
        for number in best.order:
            if self.made[best.choice[number]] and len(self.egraph.members[number]) > 1:
                yield self._moved(state, number, best.choice[number])
        for number in self._avoidable(best):
            yield self._moved(state, number, *self.egraph.members[number])

    def _avoidable(self, best: Selection) -> Iterator[int]:
        """Yield the operands of products that are computed for these alone, and that each could do without."""
        members = self.egraph.members
        users: dict[int, list[int]] = {}
        for user in best.order:
            for kid in best.choice[user].kids:
                users.setdefault(kid, []).append(user)
        for number, mine in users.items():
            for_products = best.choice[number].op == "map" and all(best.choice[user].op == "contract" for user in mine)
            if for_products and all(any(number not in node.kids for node in members[user]) for user in mine):
                yield number

    def _moved(self, state: "_State", number: int, *nodes: ENode) -> "_State":
        """Return a state in which a class is paid for, or lacks nodes; only what needs that class is looked at."""
        free = state.free if nodes else state.free | {number}
        banned = state.banned | set(nodes)
        gone, kept = 0, state.best
        lost = 1 << number
        while lost & ~gone:
            gone |= lost
            lost = sum(1 << each for each, found in kept.items() if found.mask & gone)
            kept = {each: found for each, found in kept.items() if not found.mask & gone}
        waiting = {*(each for each in self.order if each not in kept), *self.users[number]}
        return self._bottom_up(free, banned, kept, waiting)

    def forced(self, node: ENode, number: int) -> Selection | None:
        """Return the best choice in which a class is made by one of its nodes, None where there is none."""
        others = frozenset(each for each in self.egraph.members[number] if each != node)
        found = self._selected(self._bottom_up(frozenset({number}), others, {}, set(self.order)))
        return found if found is not None and found.choice.get(number) == node else None

    def without(self, steps: frozenset[Step]) -> Selection | None:
        """Return the choice that descent finds without the nodes that some steps made."""
        reasons = self.egraph.reasons
        banned = frozenset(node for node in self.made if (reasons[node].rule, reasons[node].parents) in steps)
        start = self._bottom_up(frozenset(), banned, {}, set(self.order))
        return self.run(start, TRIALS // 8)

    def _selected(self, state: "_State") -> Selection | None:
        """Return the choice of a state."""
        best = state.best
        if any(root not in best for root in self.roots):
            return None
        return self._noted({number: found.node for number, found in best.items()})

    def _noted(self, nodes: Mapping[int, ENode]) -> Selection:
        """Price a choice, and keep it if it is the best one that its rules make."""
        order = _needed(self.roots, nodes)
        choice = {number: nodes[number] for number in order}
        key = tuple(choice.items())
        known = self.seen.get(key)
        if known is not None:
            return known
        selection = self.seen[key] = Selection(choice, order, price(self.egraph, order, nodes, self.roots))
        applied = selection.applied(self.egraph)
        known = self.tried.get(applied)
        if known is None or selection.price < known.price:
            self.tried[applied] = selection
        return selection

    def _bottom_up(
        self, free: frozenset[int], banned: frozenset[ENode], best: dict[int, "_Best"], waiting: set[int]
    ) -> "_State":
        """Find the best way to make each class that waits, again and again until operands get no cheaper."""
        state = _State(free, banned, best)
        while waiting:
            now, waiting = sorted(waiting), set[int]()
            for place, number in enumerate(now):
                if self._improve(number, state):
                    following = set(now[place + 1 :])
                    waiting |= {user for user in self.users[number] if user not in following}
        return state

    def _improve(self, number: int, state: "_State") -> bool:
        """Look for a better node of a class; return whether there is one."""
        best, changed = state.best, False
        for node in self.egraph.members[number]:
            masks = None if node in state.banned else _masks(number, node, best)
            if masks is None:
                continue
            mask, below = masks
            known = best.get(number)
            mine = self.prices[node]
            total = mine + _total(below, best)
            if known is not None and total > known.key[0]:
                continue
            key = (total, int(self.made[node]), self._digest(node, best))
            if known is None or key < known.key:
                paid = 0 if number in state.free else below | 1 << number if mine else below
                best[number] = _Best(key, mask, paid, node, mine)
                changed = True
        return changed

    def _digest(self, node: ENode, best: Mapping[int, _Best]) -> bytes:
        """Return a hash of what a node computes, whatever the numbers of its classes are."""
        made = hashlib.blake2b(self.texts[node], digest_size=12)
        for kid in node.kids:
            made.update(best[kid].key[2])
        return made.digest()


def _masks(number: int, node: ENode, best: Mapping[int, _Best]) -> tuple[int, int] | None:
    """Return the classes that a node needs and those that it pays for, None where it would need its own class."""
    mask, paid = 1 << number, 0
    for kid in node.kids:
        found = best.get(kid)
        if found is None or found.mask >> number & 1:
            return None
        mask |= found.mask
        paid |= found.paid
    return mask, paid


def _total(mask: int, best: Mapping[int, _Best]) -> int:
    """Return what a set of classes costs, each made as is best."""
    total = 0
    while mask:
        low = mask & -mask
        total += best[low.bit_length() - 1].price
        mask ^= low
    return total


def _needed(roots: Sequence[int], nodes: Mapping[int, ENode]) -> tuple[int, ...]:
    """Return the classes that a choice needs, operands first, in the order in which the roots reach them."""
    done: dict[int, None] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        number, ready = stack.pop()
        if number in done:
            continue
        if ready:
            done[number] = None
        else:
            stack.append((number, True))
            stack += [(kid, False) for kid in reversed(nodes[number].kids)]
    return tuple(done)
