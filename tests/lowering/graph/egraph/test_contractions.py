"""Contractions by name: labels in other terms, conversions between, views as places."""

from support.gradients import graph_of
from tessera.core.base.dtypes import bf16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import broadcast, identity, transpose, window
from tessera.lowering.graph.egraph.contractions import (
    contract,
    contractions,
    contractions_in,
    extents_of,
    is_conversion,
    ordered,
    permuted,
    places_of,
    rounded_contractions,
    view,
    without_tile,
)
from tessera.lowering.graph.egraph.egraph import EGraph


def product(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, ((0, 1), (1, 2)), (2, 0), tile_shape=(16, 16, 16))


def of_product() -> EGraph:
    return EGraph(graph_of(product, (f32, (2, 3)), (f32, (3, 4))))


def test_labels_and_extents():
    egraph = of_product()
    ((number, each),) = contractions(egraph)
    assert (each.operands, each.labels, each.result) == ((0, 1), ((0, 1), (1, 2)), (2, 0))
    assert each.summed == (1,)
    assert each.plain
    assert extents_of(egraph, each) == {0: 2, 1: 3, 2: 4}
    assert each.node_class(egraph) == number == egraph.roots[0]
    assert contractions_in(egraph, number) == [each]


def test_labels_in_other_terms():
    ((_, each),) = contractions(of_product())
    placed = each.of_result((1, 0), 2)
    assert (placed.labels, placed.result) == (((0, 2), (2, 1)), (1, 0))
    assert each.placed({1: 5}, 7).labels == ((7, 5), (5, 8))


def test_a_contraction_is_built_as_it_was():
    egraph = of_product()
    ((number, each),) = contractions(egraph)
    assert contract(egraph, each.operands, each.labels, each.result, each.options) == number
    assert dict(without_tile(each))["tile_shape"] == ()
    assert ordered(egraph, (1, 0), ((1, 2), (0, 1))) == ((0, 1), ((0, 1), (1, 2)))


def test_a_conversion_between():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        made = b.cast(product(b, x, w), bf16)
        return b.map(Argument(0, bf16), [made], [(1, 0)], (2, 4))

    egraph = EGraph(graph_of(make, (bf16, (2, 3)), (bf16, (3, 4))))
    (middle,) = [node for _, node in egraph.nodes("map") if is_conversion(node)]
    ((found, dtype),) = rounded_contractions(
        egraph, egraph.add("map", middle.kids, middle.body, dict(middle.attributes))
    )
    assert (found.result, dtype) == ((2, 0), bf16)


def test_views():
    egraph = of_product()
    turned = permuted(egraph, 0, (1, 0))
    assert egraph.type_of(turned).shape == (3, 2)
    assert permuted(egraph, 0, (0, 1)) == view(egraph, 0, identity((2, 3))) == 0


def test_places_of_views():
    assert places_of(transpose((2, 3), (1, 0)), (2, 3)) == (1, 0)
    assert places_of(broadcast((3,), (1,), (2, 3)), (3,)) == (1,)
    assert places_of(window((2, 3), (0, 0), (1, 1), (2, 2)), (2, 3)) is None
    assert places_of(window((2, 3), (0, 1), (1, 1), (2, 3)), (2, 3)) is None
