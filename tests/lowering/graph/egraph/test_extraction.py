"""Extraction: shared values, ties, forced and left-out nodes; compared with every choice of small e-graphs."""

from collections.abc import Iterator
from itertools import product as every

from support.gradients import graph_of
from tessera.core.base.dtypes import bf16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Value
from tessera.lowering.graph.egraph.egraph import EGraph, ENode
from tessera.lowering.graph.egraph.extraction import Extractor
from tessera.lowering.graph.egraph.reference_costs import Price, price
from tessera.lowering.graph.rewrite import saturate
from tessera.lowering.graph.rules.table import permitted


def multiplied(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, ((0, 1), (1, 2)), (0, 2))


def saturated(built: Graph, *allowed: str) -> EGraph:
    return saturate(built, permitted(allowed)).egraph


def siblings() -> Graph:
    def make(b: GraphBuilder, x: Value, *weights: Value) -> Value:
        q, k, v = (multiplied(b, x, w) for w in weights)
        return multiplied(b, b.unary("exp", b.contract(q, k, ((0, 1), (2, 1)), (0, 2))), v)

    return graph_of(make, (f32, (64, 32)), *[(f32, (32, 16))] * 3)  # type: ignore[arg-type]


def chain() -> Graph:
    def make(b: GraphBuilder, x: Value, y: Value, z: Value) -> Value:
        return multiplied(b, multiplied(b, x, y), z)

    return graph_of(make, (f32, (64, 96)), (f32, (96, 80)), (f32, (80, 4)))


def orders(egraph: EGraph) -> Iterator[Price]:
    """Every acyclic choice, priced."""
    classes = egraph.classes
    roots = [egraph.find(root) for root in egraph.roots]
    for chosen in every(*(egraph.members[number] for number in classes)):
        choice = dict(zip(classes, chosen, strict=True))
        order = order_of(choice, roots)
        if order is not None:
            yield price(egraph, order, choice, roots)


def order_of(choice: dict[int, ENode], roots: list[int]) -> list[int] | None:
    done: list[int] = []

    def visit(number: int, above: frozenset[int]) -> bool:
        if number in above:
            return False
        if number in done:
            return True
        if not all(visit(kid, above | {number}) for kid in choice[number].kids):
            return False
        done.append(number)
        return True

    return done if all(visit(root, frozenset()) for root in roots) else None


def test_the_cheapest_of_all_choices_is_found():
    for built, allowed in ((siblings(), ()), (chain(), ("reassociate",))):
        egraph = saturated(built, *allowed)
        assert Extractor(egraph).run().price == min(orders(egraph))


def test_a_value_that_pays_when_several_share_it():
    """No single product is cheaper as a part of the merged one."""
    egraph = saturated(siblings())
    extractor = Extractor(egraph)
    assert extractor.original.rules(egraph) == ()
    found = extractor.run()
    assert found.rules(egraph) == ("merge-siblings",)
    assert found.price < extractor.original.price
    assert {rule for rule, _ in found.applied(egraph)} == {"merge-siblings"}


def test_without_rules_the_graph_stays():
    egraph = EGraph(chain())
    extractor = Extractor(egraph)
    assert extractor.run() == extractor.original
    assert [extractor.original.choice[n].op for n in extractor.original.order].count("contract") == 2


def test_steps_are_left_out():
    egraph = saturated(siblings())
    extractor = Extractor(egraph)
    found = extractor.run()
    left = extractor.without(found.applied(egraph))
    assert left is not None
    assert left.price == extractor.original.price


def test_nodes_are_forced():
    egraph = saturated(chain(), "reassociate")
    (root,) = map(egraph.find, egraph.roots)
    extractor = Extractor(egraph)
    prices = {found.price for node in egraph.members[root] if (found := extractor.forced(node, root)) is not None}
    assert prices == {extractor.original.price, extractor.run().price}


def test_what_was_tried_is_kept():
    egraph = saturated(chain(), "reassociate")
    extractor = Extractor(egraph)
    found = extractor.run()
    assert found in extractor.tried.values()
    assert extractor.original in extractor.tried.values()


def test_a_value_is_left_out_for_all_of_its_users():
    """Either product alone would leave the scaled rows in memory for the other: both do without them."""

    def make(b: GraphBuilder, x: Value, r: Value, *weights: Value) -> Value:
        body = apply("mul", Argument(0, f32), Argument(1, f32))
        scaled = b.cast(b.map(body, [b.cast(x, f32), r], [(0, 1), (0,)], x.type.shape), bf16)
        return b.binary("mul", *(multiplied(b, scaled, w) for w in weights))

    shapes = [(bf16, (4096, 512)), (f32, (4096,)), (bf16, (512, 1024)), (bf16, (512, 1024))]
    egraph = saturated(graph_of(make, *shapes), "widen", "reassociate")  # type: ignore[arg-type]
    chosen = Extractor(egraph).run()
    assert "rounded-scales-out-of-products" in chosen.rules(egraph)
    products = [node for node in chosen.choice.values() if node.op == "contract"]
    assert {node.kids[0] for node in products} == {0}  # the rows as they were given
