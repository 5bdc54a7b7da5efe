"""Rewrite a graph by algebra: saturate an e-graph with the permitted rules, and take the cheapest graph out of it.

    before: %q = contract(%x, %wq); %k = contract(%x, %wk); %v = contract(%x, %wv)
    after:  %w = concat(%wq, %wk, %wv); %t = contract(%x, %w); %q, %k, %v = views of %t

Rules run in the order of their names, limits count nodes and rounds and never seconds, and prices are those of one
reference machine: a graph and its permissions have one result, on every target.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.graph.graph import Graph, Node, Origin, Value
from tessera.core.graph.rewrite import Rewriter
from tessera.lowering.graph.egraph.egraph import INPUT, RESULT, EGraph, ENode, Reason
from tessera.lowering.graph.egraph.extraction import Extractor, Selection
from tessera.lowering.graph.egraph.reference_costs import Price, sum_of
from tessera.lowering.graph.rules.rule import RewriteRule, RuleMatch
from tessera.lowering.graph.rules.table import permitted
from tessera.lowering.graph.segments import Joiner, Key, segments

RULE: Final = "rewrite"
NODES: Final = 3000
"""Most nodes of an e-graph before rules stop."""
CANDIDATES: Final = 5
"""Graphs that are handed on, beside the one that was given, to be compared by their plans."""
OF_PARTS: Final = 2
"""The same of graphs that are cut: plans of long graphs take longer."""
ROUNDS: Final = 8
"""How many times every rule is tried."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A rule that added to the e-graph.

    parents: the numbers of the graph's nodes that it was applied to
    """

    rule: str
    parents: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Saturated:
    """An e-graph after the rules.

    applied: what they did; limit: why they stopped early, "" where they did not
    """

    egraph: EGraph
    applied: tuple[Applied, ...]
    limit: str


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """The graphs that rules make of one.

    candidates: graphs, the cheapest first, the last one as it was given
    before, after: prices of the last and the first one on the reference machine; rules: that made the first one
    """

    candidates: tuple[Graph, ...]
    before: Price
    after: Price
    rules: tuple[str, ...]
    limit: str = ""

    @property
    def graph(self) -> Graph:
        """The cheapest graph; the one that was given where none is cheaper."""
        return self.candidates[0]


def rewrite(
    graph: Graph, allowed: Collection[str] = (), rules: Sequence[RewriteRule] | None = None, *, on_mesh: bool = False
) -> Rewritten:
    """Return the cheapest graph that the permitted rules make of a graph.

    allowed: classes of rules beyond those that keep every bit; rules: in the place of these
    on_mesh: whether a mesh cuts the graph that they make
    """
    used = permitted(allowed, on_mesh=on_mesh) if rules is None else rules
    parts = segments(graph)
    known: dict[Key, tuple[Graph, Rewritten]] = {}
    for part in parts:
        if part.key not in known:
            known[part.key] = part.graph, _rewritten(part.graph, used)
    if len(parts) == 1:
        return known[parts[0].key][1]
    each = [known[part.key][1] for part in parts]
    candidates: list[Graph] = []
    for place in range(min(OF_PARTS, max(len(made.candidates) for made in each) - 1)):
        joiner = Joiner(graph)
        for part in parts:
            model, made = known[part.key]
            joiner.add(part.graph, model, made.candidates[min(place, len(made.candidates) - 1)])
        candidates.append(joiner.finish())
    names = tuple(sorted({name for made in each for name in made.rules}))
    before, after = sum_of([made.before for made in each]), sum_of([made.after for made in each])
    limit = next((made.limit for made in each if made.limit), "")
    return Rewritten((*candidates, graph), before, after, names, limit)


def _rewritten(graph: Graph, rules: Sequence[RewriteRule]) -> Rewritten:
    """Rewrite a graph that is not cut."""
    saturated = saturate(graph, rules)
    extractor = Extractor(saturated.egraph)
    chosen = extractor.run() if saturated.applied else extractor.original
    best = candidates_of(extractor, chosen)
    made = [to_graph(saturated.egraph, each) for each in best]
    names = chosen.rules(saturated.egraph)
    return Rewritten((*made, graph), extractor.original.price, chosen.price, names, saturated.limit)


def candidates_of(extractor: Extractor, chosen: Selection) -> list[Selection]:
    """Return choices that are cheaper than the graph as it was: the chosen one, and that without some of its steps.

    The planner may have a kernel for a graph that a step takes away from it: attention, for one.
    """
    before, egraph = extractor.original.price, extractor.egraph
    steps = sorted(chosen.applied(egraph))
    rules = [frozenset(step for step in steps if step[0] == rule) for rule in chosen.rules(egraph)]
    left_out = dict.fromkeys([*rules, *(frozenset({step}) for step in steps)])
    others = [extractor.without(each) for each in list(left_out)[: CANDIDATES - 1]]
    found = {each.applied(egraph): each for each in (chosen, *others) if each is not None and each.price < before}
    return list(found.values())[:CANDIDATES]


def saturate(graph: Graph, rules: Sequence[RewriteRule], nodes: int = NODES, rounds: int = ROUNDS) -> Saturated:
    """Apply rules to the e-graph of a graph until they add nothing, or a limit is reached."""
    egraph = EGraph(graph)
    ordered = sorted(rules, key=lambda rule: rule.name)
    applied: dict[Applied, None] = {}
    for _ in range(rounds):
        found = [(rule, match) for rule in ordered for match in list(rule.find(egraph))]
        changed = False
        for rule, match in found:
            if egraph.size > nodes:
                egraph.rebuild()
                return Saturated(egraph, tuple(applied), f"stopped at {nodes} nodes")
            if apply_match(egraph, rule, match):
                changed = True
                applied[Applied(rule.name, egraph.reason.parents)] = None
        egraph.rebuild()
        if not changed:
            return Saturated(egraph, tuple(applied), "")
    return Saturated(egraph, tuple(applied), f"stopped after {rounds} rounds")


def apply_match(egraph: EGraph, rule: RewriteRule, match: RuleMatch) -> bool:
    """Add what a match makes; return whether that says anything new."""
    reasons = [egraph.reasons[node] for node in match.nodes]
    parents = tuple(sorted({parent for reason in reasons for parent in reason.parents}))
    egraph.reason = Reason(rule.name, parents, None, reasons[0].span)
    size = egraph.size
    return egraph.union(match.number, match.build()) or egraph.size > size


def to_graph(egraph: EGraph, selection: Selection) -> Graph:
    """Return a chosen graph: nodes of the old graph keep their numbers, new ones name their rule and its operands."""
    reasons = [egraph.reasons[selection.choice[number]] for number in selection.order]
    kept = {reason.node for reason in reasons if reason.node is not None}
    if not any(reason.rule for reason in reasons) and kept >= set(egraph.graph.nodes):
        return egraph.graph
    return _Writer(egraph, selection).run()


class _Writer:
    """Writes a graph.

    values: of each class that is made already; names: the user's, of classes; held: nodes of several results
    """

    def __init__(self, egraph: EGraph, selection: Selection) -> None:
        self.egraph, self.selection = egraph, selection
        self.rewriter = Rewriter(egraph.graph, RULE)
        self.values: dict[int, Value] = {}
        self.names: dict[int, str] = {}
        for value, number in egraph.values.items():
            self.names.setdefault(egraph.find(number), value.name)
        self.nodes: Mapping[int, Node] = {node.ident: node for node in egraph.graph.nodes}
        self.held: set[int] = set()

    def run(self) -> Graph:
        egraph, builder = self.egraph, self.rewriter.builder
        for number in self.selection.order:
            self.values[number] = self._written(number, self.selection.choice[number])
        outputs: list[Value] = []
        for old, root in zip(egraph.graph.outputs, egraph.roots, strict=True):
            value = self.values[egraph.find(root)]
            if value in outputs or value in egraph.graph.inputs:  # every output is an array of its own
                with builder.within(Origin(RULE), old.span):
                    value = builder.copy(value)
            outputs.append(value)
        return replace(egraph.graph, nodes=tuple(builder.nodes), outputs=tuple(outputs))

    def _written(self, number: int, node: ENode) -> Value:
        operands = [self.values[self.egraph.find(kid)] for kid in node.kids]
        if node.op == INPUT:
            return self.egraph.graph.inputs[_integer(node, "number")]
        if node.op == RESULT:
            held = self.nodes[_integer(node, "node")]
            if held.ident not in self.held:
                self.held.add(held.ident)
                self.rewriter.keep(held, operands)
            return held.results[_integer(node, "place")]
        reason = self.egraph.reasons[node]
        if reason.node is not None:
            self.rewriter.keep(reason.node, operands)
            return reason.node.result
        composite = self.nodes[reason.parents[0]].origin.composite if reason.parents else ()
        with self.rewriter.builder.within(Origin(reason.rule, reason.parents, composite), reason.span):
            name = self.names.get(number, "")
            return self.rewriter.builder.add(node.op, operands, node.body, name, **dict(node.attributes))


def _integer(node: ENode, name: str) -> int:
    value = node.attribute(name)
    assert isinstance(value, int)
    return value
