"""An e-graph: many equal graphs at once, in which rewrite rules add and never take away.

    before: {%t = contract(%A, %B)} {%y = contract(%t, %x)}
    after:  {%t = contract(%A, %B)} {%y = contract(%t, %x), contract(%A, %u)} {%u = contract(%B, %x)}

Equal values are one class, and a class holds the nodes that compute it, whose operands are classes.  Nodes are
hash-consed, unions keep the older class, and rebuilding merges the classes of nodes that have become equal
(congruence), after Willsey and others, "egg: fast and extensible equality saturation", POPL 2021.  Nothing depends on
hash seeds: classes are numbered as they come, and every table keeps its order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tessera.core.base.source import NOWHERE, Span
from tessera.core.graph.expr import Expr
from tessera.core.graph.graph import Graph, Node, Routine, Tensor, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.infer import infer, labels_of, numbers
from tessera.core.program.program import Attribute

EBody: TypeAlias = Expr | IndexMap | None
INPUT: Final = "input"
RESULT: Final = "result"
"""A result of a node that rules do not look into: operands are its own, attributes say which it is."""


@dataclass(frozen=True, slots=True)
class ENode:
    """One way to compute a class.  kids: the classes of its operands; attributes: sorted by name."""

    op: str
    kids: tuple[int, ...] = ()
    attributes: tuple[tuple[str, Attribute], ...] = ()
    body: EBody = None
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.kids, self.attributes, self.body)))

    def __hash__(self) -> int:
        return self._hash  # kept: nodes are keys of every table

    def attribute(self, name: str) -> Attribute:
        """Return an attribute.  Raises KeyError."""
        return dict(self.attributes)[name]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node is there.

    rule: that made it, "" for nodes of the graph; parents: the numbers of the graph's nodes that it was made of
    node: of the graph itself; span: the place in the user's text
    """

    rule: str = ""
    parents: tuple[int, ...] = ()
    node: Node | None = None
    span: Span = NOWHERE


class EGraph:
    """The e-graph of a graph.

    members: the nodes of each class, the oldest first; types: of each class; reasons: why each node is there
    values: the class of each value of the graph
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.members: dict[int, list[ENode]] = {}
        self.types: dict[int, Tensor] = {}
        self.reasons: dict[ENode, Reason] = {}
        self.values: dict[Value, int] = {}
        self.reason = Reason()
        self._leaders: list[int] = []
        self._classes: dict[ENode, int] = {}
        self._users: dict[int, list[tuple[ENode, int]]] = {}
        self._pending: list[int] = []
        for number, value in enumerate(graph.inputs):
            self.values[value] = self._new(ENode(INPUT, (), (("number", number),)), value.type)
        for node in graph.nodes:
            self._read(node)
        self.roots = tuple(self.values[value] for value in graph.outputs)

    def _read(self, node: Node) -> None:
        """Take a node of the graph over."""
        kids = tuple(self.values[operand] for operand in node.operands)
        self.reason = Reason("", (node.ident,), node, node.span)
        body = node.body
        if len(node.results) != 1 or isinstance(body, Routine | tuple) or node.op == "collective":
            for place, value in enumerate(node.results):
                held = ENode(RESULT, kids, (("node", node.ident), ("place", place)))
                self.values[value] = self._new(held, value.type)
            return
        self.values[node.result] = self.add(node.op, kids, body, node.attributes)

    def find(self, number: int) -> int:
        """Return the class that a class is part of by now."""
        leaders = self._leaders
        while leaders[number] != number:
            leaders[number] = leaders[leaders[number]]
            number = leaders[number]
        return number

    @property
    def classes(self) -> list[int]:
        """Every class, the oldest first."""
        return sorted(self.members)

    @property
    def size(self) -> int:
        """Nodes."""
        return len(self._classes)

    def nodes(self, op: str) -> Iterable[tuple[int, ENode]]:
        """Yield the nodes of one operation, each with its class, in order."""
        for number in self.classes:
            for node in self.members[number]:
                if node.op == op:
                    yield number, node

    def having(self, number: int, op: str) -> list[ENode]:
        """Return the nodes of one operation in a class."""
        return [node for node in self.members[self.find(number)] if node.op == op]

    def type_of(self, number: int) -> Tensor:
        """Return the type of a class."""
        return self.types[self.find(number)]

    def add(self, op: str, kids: Sequence[int], body: EBody, attributes: Mapping[str, Attribute]) -> int:
        """Return the class of a node, a new one where there is no such node yet."""
        if op == "contract":
            attributes = canonical_labels(attributes)
        node = ENode(op, tuple(self.find(kid) for kid in kids), tuple(sorted(attributes.items(), key=_name)), body)
        found = self._classes.get(node)
        if found is not None:
            return self.find(found)
        return self._new(node, infer(op, [self.types[kid] for kid in node.kids], attributes, body))

    def _new(self, node: ENode, kind: Tensor) -> int:
        number = len(self._leaders)
        self._leaders.append(number)
        self._classes[node] = number
        self.members[number] = [node]
        self.types[number] = kind
        self.reasons.setdefault(node, self.reason)
        self._users[number] = []
        for kid in dict.fromkeys(node.kids):
            self._users[kid].append((node, number))
        return number

    def union(self, first: int, second: int) -> bool:
        """Make two classes one; return whether they were two.  They must have one type."""
        older, younger = sorted((self.find(first), self.find(second)))
        if older == younger:
            return False
        assert self.types[older] == self.types[younger], f"{self.types[older]} is not {self.types[younger]}"
        self._leaders[younger] = older
        self.members[older] += self.members.pop(younger)
        self._users[older] += self._users.pop(younger)
        del self.types[younger]
        self._pending.append(older)
        return True

    def rebuild(self) -> None:
        """Restore congruence: nodes that unions have made equal share a class."""
        while self._pending:
            todo = sorted({self.find(number) for number in self._pending})
            self._pending = []
            for number in todo:
                self._repair(self.find(number))
        for number, nodes in self.members.items():
            self.members[number] = list(dict.fromkeys(map(self._canonical, nodes)))

    def _repair(self, number: int) -> None:
        seen: dict[ENode, int] = {}
        users, self._users[number] = self._users[number], []
        for node, user in users:
            self._classes.pop(node, None)
            now = self._canonical(node)
            self.reasons.setdefault(now, self.reasons[node])
            owner = self.find(user)
            other = self._classes.get(now)
            if other is not None and self.find(other) != owner:
                self.union(owner, other)
                owner = self.find(owner)
            self._classes[now] = seen[now] = owner
        self._users[self.find(number)] += [(node, self.find(owner)) for node, owner in seen.items()]

    def _canonical(self, node: ENode) -> ENode:
        kids = tuple(self.find(kid) for kid in node.kids)
        return node if kids == node.kids else ENode(node.op, kids, node.attributes, node.body)


def canonical_labels(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Number the labels of a contraction as they come, so that equal contractions are equal nodes."""
    found: dict[int, int] = {}
    labels = tuple(
        tuple(found.setdefault(label, len(found)) for label in mine) for mine in labels_of(attributes["labels"])
    )
    return {**attributes, "labels": labels, "result": tuple(found[label] for label in numbers(attributes["result"]))}


def _name(item: tuple[str, Attribute]) -> str:
    return item[0]
