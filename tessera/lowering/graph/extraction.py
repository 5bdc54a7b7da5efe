"""Extraction: choose a node of every class that is needed, so that the graph costs least on the reference machine.

Shared values count once.  A first choice goes bottom up with sets of classes; since no single user pays for a value
that pays only when several share it (one product in the place of three), steepest descent then asks of each class what
the graph would cost if it were paid for already, and of each node what it would cost without it.  Whole graphs are
compared by `reference_costs.price`.  Ties are broken by a hash of what is computed, never by a number.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.lowering.graph.egraph import EGraph, ENode
from tessera.lowering.graph.reference_costs import Price, node_price, price

ROUNDS: Final = 12
"""Most improvements of a choice; each makes the graph cheaper."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A graph out of the e-graph.

    choice: the node of each needed class; order: these classes, each after those that it is made of
    """

    choice: Mapping[int, ENode]
    order: tuple[int, ...]
    price: Price

    def rules(self, egraph: EGraph) -> tuple[str, ...]:
        """Return the rules that made nodes of it, sorted."""
        found = {egraph.reasons[self.choice[number]].rule for number in self.order}
        return tuple(sorted(found - {""}))


@dataclass(frozen=True, slots=True)
class _Best:
    """The best known way to make a class.

    key: its price and what breaks ties; mask: the classes that it needs; paid: those that its users pay for
    """

    key: tuple[int, int, bytes]
    mask: int
    paid: int
    node: ENode


class Extractor:
    """Chooses the cheapest graph of an e-graph.

    original: what the graph was; tried: every choice that was priced, by the rules that made it
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
        self.tried: dict[tuple[str, ...], Selection] = {}
        self.original = self._noted({number: egraph.members[number][0] for number in self.order})

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

    def run(self) -> Selection:
        """Return the best choice that descent finds."""
        best = self.original
        free: frozenset[int] = frozenset()
        banned: frozenset[ENode] = frozenset()
        start = self._selected(free, banned)
        if start is not None and start.price < best.price:
            best = start
        for _ in range(ROUNDS):
            found = self._step(best, free, banned)
            if found is None:
                break
            best, free, banned = found
        return best

    def _step(
        self, best: Selection, free: frozenset[int], banned: frozenset[ENode]
    ) -> tuple[Selection, frozenset[int], frozenset[ENode]] | None:
        """Return the move that saves most, with the selection after it."""
        picked: tuple[Selection, frozenset[int], frozenset[ENode]] | None = None
        for more_free, more_banned in self._moves(best, free, banned):
            found = self._selected(more_free, more_banned)
            if found is not None and found.price < (picked[0] if picked else best).price:
                picked = found, more_free, more_banned
        return picked

    def _moves(
        self, best: Selection, free: frozenset[int], banned: frozenset[ENode]
    ) -> list[tuple[frozenset[int], frozenset[ENode]]]:
        """Return what to try: classes that rules made as if paid for, and nodes that they made left out."""
        egraph, moves = self.egraph, list[tuple[frozenset[int], frozenset[ENode]]]()
        for number in self.order:
            first = egraph.members[number][0]
            made = egraph.reasons[first].rule
            if made and number not in best.choice and number not in free and len(self.users[number]) > 1:
                moves.append((free | {number}, banned))
        for number in best.order:
            node = best.choice[number]
            if egraph.reasons[node].rule and len(egraph.members[number]) > 1:
                moves.append((free, banned | {node}))
        return moves

    def forced(self, node: ENode, number: int) -> Selection | None:
        """Return the best choice in which a class is made by one of its nodes, None where there is none."""
        others = frozenset(each for each in self.egraph.members[number] if each != node)
        found = self._selected(frozenset({number}), others)
        return found if found is not None and found.choice.get(number) == node else None

    def _selected(self, free: Collection[int], banned: Collection[ENode]) -> Selection | None:
        """Return the choice bottom up, where classes in `free` cost nothing and nodes in `banned` are not there."""
        best = self._bottom_up(free, banned)
        if any(root not in best for root in self.roots):
            return None
        return self._noted({number: found.node for number, found in best.items()})

    def _noted(self, nodes: Mapping[int, ENode]) -> Selection:
        """Price a choice, and keep it if it is the best one that its rules make."""
        order = _needed(self.roots, nodes)
        selection = Selection(nodes, order, price(self.egraph, order, nodes, self.roots))
        selection = Selection({number: nodes[number] for number in order}, order, selection.price)
        rules = selection.rules(self.egraph)
        known = self.tried.get(rules)
        if known is None or selection.price < known.price:
            self.tried[rules] = selection
        return selection

    def _bottom_up(self, free: Collection[int], banned: Collection[ENode]) -> dict[int, _Best]:
        """Return the best way to make each class, again and again until operands get no cheaper."""
        best: dict[int, _Best] = {}
        own: dict[int, int] = {}
        waiting = set(self.order)
        while waiting:
            now, waiting = sorted(waiting), set[int]()
            for place, number in enumerate(now):
                if self._improve(number, best, own, free, banned):
                    later = set(now[place + 1 :])
                    waiting |= {user for user in self.users[number] if user not in later}
        return best

    def _improve(
        self, number: int, best: dict[int, _Best], own: dict[int, int], free: Collection[int], banned: Collection[ENode]
    ) -> bool:
        """Look for a better node of a class; return whether there is one."""
        changed = False
        for node in self.egraph.members[number]:
            masks = None if node in banned else _masks(number, node, best)
            if masks is None:
                continue
            mask, below = masks
            mine, known = self.prices[node], best.get(number)
            total = mine + _total(below, own)
            if known is not None and total > known.key[0]:
                continue
            key = (total, int(self.made[node]), self._digest(node, best))
            if known is None or key < known.key:
                best[number] = _Best(key, mask, 0 if number in free else below | 1 << number, node)
                own[number] = mine
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


def _total(mask: int, own: Mapping[int, int]) -> int:
    total = 0
    while mask:
        low = mask & -mask
        total += own[low.bit_length() - 1]
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
