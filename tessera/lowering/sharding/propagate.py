"""Propagate placements through a graph: each node, in order, is cut as costs least, of what its operands suggest.

    h = x[8, 64] w[64, 256@tp]     h: [8, 256@tp], nothing moves
    y = h[8, 256@tp] v[256@tp, 64] y: [8, 64]{sum: tp}, joined by one all_reduce where it is used

The costs are those of moving bytes between devices, of memory and of products, on a reference mesh with 8 devices along
each axis: a choice depends on shapes and placements alone, never on how many devices there are, since it says in which
order sums are added.  So a mesh of one device has the bits of one of eight.
"""

from collections.abc import Mapping, Sequence
from math import prod

from tessera.core.errors.catalog import AmbiguousSharding
from tessera.core.graph.bodies import WITH_BODIES
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.infer import labels_of
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.lowering.sharding.assign import Assignment, assignments
from tessera.lowering.sharding.bodies import choose_bodies
from tessera.lowering.sharding.costs import picoseconds, reference_extent
from tessera.lowering.sharding.factors import factors_of
from tessera.lowering.sharding.hints import hints_of
from tessera.lowering.sharding.placements import joined, text
from tessera.lowering.sharding.sharded_graph import Choice, ShardedGraph
from tessera.lowering.sharding.steps import Step, steps_between


class Propagator:
    """Chooses node by node.  Nodes that are equal but for their values, as those of layers are, are cut alike.

    told: values that lie as the user says, and views of them, each with the value that the user placed
    hints: how users of values would have them
    """

    def __init__(
        self, mesh: Mesh, given: Mapping[Value, Placement], hints: Mapping[Value, Placement], *, told: bool
    ) -> None:
        self.mesh, self.given, self.hints = mesh, given, hints
        self.placements: dict[Value, Placement] = {}
        self.told: dict[Value, Value] = {value: value for value in given} if told else {}
        self.choices: dict[Node, Choice] = {}
        self._known: dict[tuple[object, ...], tuple[int, Assignment, tuple[tuple[int, Assignment], ...]]] = {}

    def visit(self, node: Node) -> None:
        """Choose how a node is cut, and place its results."""
        if node.op in WITH_BODIES:
            self._visit_bodies(node)
            return
        wanted = tuple(self.given.get(value) for value in node.results)
        body = node.body if node.op == "view" else None
        key = (
            node.op, tuple(sorted(node.attributes.items())), body, tuple(value.type for value in node.operands),
            tuple(node.operands.index(value) for value in node.operands),
            tuple(self.placements[value] for value in node.operands), tuple(value.type for value in node.results),
            wanted, self._placed_alike(node), self.hints.get(node.results[0]) if node.op == "scatter_add" else None,
        )  # fmt: skip
        if key not in self._known:
            self._known[key] = self._chosen(node)
        cost, assignment, others = self._known[key]
        self.choices[node] = Choice(node, assignment, cost, others)
        for value, made, pinned in zip(node.results, assignment.results, wanted, strict=True):
            self.placements[value] = pinned or made
        if node.op == "view" and node.operands[0] in self.told:
            self.told[node.result] = self.told[node.operands[0]]

    def _visit_bodies(self, node: Node) -> None:
        found = choose_bodies(
            node, [self.placements[value] for value in node.operands],
            lambda body, given: _propagated(body, self.mesh, given, told=False),
        )  # fmt: skip
        self.choices[node] = Choice(node, found.assignment, found.cost, (), found.bodies)
        for value, made in zip(node.results, found.assignment.results, strict=True):
            self.placements[value] = self.given.get(value, made)

    def _placed_alike(self, node: Node) -> tuple[int, ...]:
        """Return a number for each operand: equal ones were placed by the user in one value, -1 in none."""
        roots = [self.told.get(value) for value in node.operands]
        return tuple(-1 if root is None else roots.index(root) for root in roots)

    def _chosen(self, node: Node) -> tuple[int, Assignment, tuple[tuple[int, Assignment], ...]]:
        factors = factors_of(node)
        sides = [(dims, self.placements[value]) for dims, value in zip(factors.operands, node.operands, strict=True)]
        sides += [
            (dims, self.given[value])
            for dims, value in zip(factors.results, node.results, strict=True) if value in self.given
        ]  # fmt: skip
        if node.op == "scatter_add" and node.result in self.hints and node.result not in self.given:
            sides.append((factors.results[0], self.hints[node.result]))
        priced = [(self._cost(node, each), each) for each in assignments(factors, sides, self.mesh)]
        priced.sort(key=lambda each: (each[0], -len(each[1].parts)))
        (cost, best), *others = priced
        self._refuse_ties(node, cost, best, others)
        return cost, best, tuple(others)

    def _refuse_ties(self, node: Node, cost: int, best: Assignment, others: Sequence[tuple[int, Assignment]]) -> None:
        for price, other in others:
            moved = (*self._steps(node, best), *self._steps(node, other))
            roots = {self.told.get(value) for value, _ in moved}
            told = None not in roots and len(roots) > 1
            if price == cost and told and self._moves(node, best) and self._moves(node, other):
                first, second = (_in_words(node, each) for each in (best, other))
                raise AmbiguousSharding(
                    f"{node.op} can be cut in two ways that cost the same: {first}, or {second}",
                    node.span, hint="say which: give its result, or one of its operands, a placement",
                )  # fmt: skip

    def _moves(self, node: Node, assignment: Assignment) -> bool:
        return any(step.moved(value.type, reference_extent) for value, step in self._steps(node, assignment))

    def _steps(self, node: Node, assignment: Assignment) -> list[tuple[Value, Step]]:
        """Return the collectives that bring a node's operands to the placements that an assignment needs."""
        found = dict.fromkeys(zip(node.operands, assignment.operands, strict=True))
        return [(value, step) for value, wanted in found for step in steps_between(self.placements[value], wanted)]

    def _cost(self, node: Node, assignment: Assignment) -> int:
        """Return the picoseconds of a node and of what moves: its operands to it, partial sums behind it.

        Latencies are left out: a small graph is cut as a large one.
        """
        sent = sum(step.moved(value.type, reference_extent) for value, step in self._steps(node, assignment))
        for value, made in zip(node.results, assignment.results, strict=True):
            wanted = self.given.get(value, joined(made))
            sent += sum(step.moved(value.type, reference_extent) for step in steps_between(made, wanted))
        local = sum(
            value.type.bytes // reference_extent(placement.axes)
            for values, side in ((node.operands, assignment.operands), (node.results, assignment.results))
            for value, placement in zip(values, side, strict=True)
        )
        products = _products(node) // reference_extent(assignment.parts)
        return picoseconds(sent=sent, local=local, products=products)


def propagate(
    graph: Graph, mesh: Mesh, given: Mapping[Value, Placement], outputs: Sequence[Placement | None] = ()
) -> ShardedGraph:
    """Return the graph with placements of all values.

    given: of inputs, and of other values where the user says so; inputs that it lacks are on every device
    outputs: what the outputs are to have; None: as they are made, without partial sums
    Raises AmbiguousSharding where two ways to cut a node cost the same, and move values that the user placed apart.
    Of others, such as of `x + x.T`, the first is taken, which leaves the first operand where it is.
    """
    return _propagated(graph, mesh, given, outputs, told=True)


def _propagated(
    graph: Graph, mesh: Mesh, given: Mapping[Value, Placement], outputs: Sequence[Placement | None] = (), *, told: bool
) -> ShardedGraph:
    """Return the graph with placements of all values.  told: whether what is given is what the user said."""
    found = Propagator(mesh, given, hints_of(graph, given, outputs), told=told)
    for value in graph.inputs:
        found.placements[value] = given.get(value, Placement.replicated(len(value.type.shape)))
    for node in graph.nodes:
        found.visit(node)
    wanted = tuple(outputs) or (None,) * len(graph.outputs)
    ends = tuple(each or joined(found.placements[value]) for value, each in zip(graph.outputs, wanted, strict=True))
    return ShardedGraph(graph, mesh, found.placements, found.choices, ends)


def _in_words(node: Node, assignment: Assignment) -> str:
    operands = ", ".join(text(v.type, each) for each, v in zip(assignment.operands, node.operands, strict=True))
    results = ", ".join(text(v.type, each) for each, v in zip(assignment.results, node.results, strict=True))
    return f"({operands}) -> {results}"


def _products(node: Node) -> int:
    """Return the operations of a contraction."""
    if node.op != "contract":
        return 0
    extents = {
        label: size
        for labels, operand in zip(labels_of(node.attributes["labels"]), node.operands, strict=True)
        for label, size in zip(labels, operand.type.shape, strict=True)
    }
    return 2 * prod(extents.values())
