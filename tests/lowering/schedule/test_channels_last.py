"""Products of windows read copies in which their steps lie side by side."""

import pytest

from support.gradients import graph_of
from support.graphs import check
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.lowering.schedule.channels_last import COPY, channels_last
from tessera.lowering.schedule.plan_graph import plan_graph


def convolution(channels: int, *, first: bool) -> Graph:
    """One row of 9 pixels, padded; [batch, pixel, channel], or the channels before the pixels."""
    pixels, channel = Affine(-1, (Term(1), Term(2))), Affine(0, (Term(3),))
    index = (Affine(0, (Term(0),)), *((channel, pixels) if first else (pixels, channel)))
    shape = (2, channels, 9) if first else (2, 9, channels)
    taps = (4, channels, 3) if first else (4, 3, channels)
    labels = (4, 3, 2) if first else (4, 2, 3)

    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        seen = b.view(x, IndexMap((2, 9, 3, channels), index, True))
        return b.contract(w, seen, (labels, (0, 1, 2, 3)), (0, 4, 1))

    return graph_of(make, (f32, shape), (f32, taps))


def copies(graph: Graph) -> list[tuple[int, ...]]:
    return [node.result.type.shape for node in channels_last(graph).nodes if node.origin.rule == COPY]


def test_images_and_filters_are_copied():
    graph = convolution(16, first=True)
    assert sorted(copies(graph)) == [(2, 9, 16), (4, 3, 16)]
    assert [group.kind for group in plan_graph(graph).groups] == ["maps", "maps", "product"]


@pytest.mark.parametrize(("channels", "first"), [(16, False), (3, True)])
def test_what_lies_so_already_or_is_packed_is_not(channels: int, first: bool):
    assert not copies(convolution(channels, first=first))


def test_columns_that_lie_side_by_side_are_not_copied():
    """The gradient by the images: filters [filter, tap, channel] are summed over the first axis."""

    def make(b: GraphBuilder, y: Value, w: Value) -> Value:
        index = (Affine(0, (Term(0),)), Affine(1, (Term(1), Term(2, -1))), Affine(0, (Term(3),)))
        return b.contract(b.view(y, IndexMap((2, 9, 3, 16), index, True)), w, ((0, 1, 2, 3), (3, 2, 4)), (0, 1, 4))

    assert not copies(graph_of(make, (f32, (2, 9, 16)), (f32, (16, 3, 8))))


def test_products_without_windows_are_as_they_were():
    graph = graph_of(lambda b, x, w: b.contract(x, w, ((0, 1), (0, 2)), (1, 2)), (f32, (32, 5)), (f32, (32, 6)))
    assert channels_last(graph).nodes == graph.nodes


@pytest.mark.parametrize("first", [True, False])
def test_the_result_is_that_of_the_graph(first: bool):
    check(convolution(16, first=first))
