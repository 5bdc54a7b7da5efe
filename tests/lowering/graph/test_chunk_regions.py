"""Regions that can be computed in slices: what is in them, what is added up, and what has none."""

from collections.abc import Callable

import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import window
from tessera.lowering.graph.chunk_regions import ChunkRegion, find_region, ties

ROWS, WIDE, NARROW = 12, 40, 5
X, W = (f32, (ROWS, NARROW)), (f32, (WIDE, NARROW))


def logits(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, ((0, 2), (1, 2)), (0, 1))


def along_rows(b: GraphBuilder, opcode: str, wide: Value, rows: Value) -> Value:
    return b.binary(opcode, wide, b.reshape(rows, (ROWS, 1)))


def region_of(graph: Graph) -> ChunkRegion | None:
    seed = next(node.result for node in graph.nodes if node.op == "contract")
    return find_region(graph, seed)


def softmax_and_sums(b: GraphBuilder, x: Value, w: Value) -> tuple[Value, ...]:
    weights = b.unary("exp", logits(b, x, w))
    shares = along_rows(b, "div", weights, b.reduce(weights, (1,)))
    first = b.contract(shares, x, ((0, 1), (0, 2)), (1, 2))
    return first, b.contract(shares, w, ((0, 1), (1, 2)), (0, 2)), b.reduce(shares, (0,))


def test_sums_over_the_axis_end_a_region():
    graph = graph_of(softmax_and_sums, X, W)
    region = region_of(graph)
    assert region is not None
    assert set(region.nodes) == set(graph.nodes)
    assert region.extent == ROWS
    assert region.stacked == (graph.inputs[0],)
    assert region.constants == (graph.inputs[1],)
    first, second, third = graph.outputs
    assert [node.result for node in region.sums] == [first, third]
    assert region.returned == (first, second, third)
    assert region.along[second] == 0


def test_indices_are_made_in_every_slice():
    def make(b: GraphBuilder, x: Value, w: Value, t: Value) -> Value:
        del t
        scaled = b.binary("mul", logits(b, x, w), b.cast(b.iota(WIDE), f32))
        return b.reduce(scaled, (1,))

    graph = graph_of(make, X, W, (i64, (ROWS,)))
    region = region_of(graph)
    assert region is not None
    assert {node.op for node in region.indices} == {"iota", "map"}
    assert region.constants == (graph.inputs[1],)


def test_an_axis_whose_sum_is_needed_inside_is_not_the_one():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        made = logits(b, x, w)
        return b.reduce(b.binary("div", made, b.reduce(made, (0,))), (1,))

    region = region_of(graph_of(make, X, W))
    assert region is not None
    assert region.extent == WIDE


def returned_whole(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.unary("exp", logits(b, x, w))


def of_two_axes(b: GraphBuilder, x: Value, w: Value) -> Value:
    del w
    return b.reduce(b.contract(x, x, ((0, 2), (1, 2)), (0, 1)), (1,))


def behind_another_axis(b: GraphBuilder, x: Value, w: Value) -> Value:
    turned = b.contract(w, x, ((1, 2), (0, 2)), (1, 0))
    return b.reduce(turned, (0, 1), "max")


@pytest.mark.parametrize("make", [returned_whole, of_two_axes, behind_another_axis])
def test_no_region(make: Callable[[GraphBuilder, Value, Value], Value]):
    assert region_of(graph_of(make, X, W)) is None


def test_what_is_hardly_wider_than_its_operands_is_no_region():
    graph = graph_of(softmax_and_sums, (f32, (ROWS, NARROW)), (f32, (4 * NARROW - 1, NARROW)))
    assert region_of(graph) is None


def test_ties_of_moves():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        joined = b.concat((x, b.transpose(w, (1, 0))), 0)
        return b.view(joined, window((6, 3), (3, 0), (1, 1), (3, 3)))

    graph = graph_of(make, (f32, (2, 3)), (f32, (3, 4)))
    turned, joined, half = graph.nodes
    assert set(ties(turned)) == {((turned.result, 1), (graph.inputs[1], 0)), ((turned.result, 0), (graph.inputs[1], 1))}
    assert {one for one, _ in ties(joined)} == {(joined.result, 1)}
    assert {one for one, _ in ties(half)} == {(half.result, 1)}
