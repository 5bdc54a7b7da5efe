"""Which nodes cost nothing where they are used: numbers of inputs, views, conversions, masks of far smaller arrays."""

from support.gradients import graph_of
from tessera.core.base.dtypes import bf16, f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Value
from tessera.lowering.schedule.free_nodes import is_factor, is_read_through, picks_number, spreads


def last(graph: Graph):
    return graph.nodes[-1]


def test_one_number_of_an_input_is_free():
    one = graph_of(lambda b, x: b.reshape(x, ()), (f32, (1,)))
    assert picks_number(one, last(one))
    more = graph_of(lambda b, x: b.reshape(x, (4,)), (f32, (2, 2)))
    assert not picks_number(more, last(more))


def test_views_and_conversions_of_inputs_are_read_through():
    turned = graph_of(lambda b, x: b.transpose(x, (1, 0)), (f32, (2, 3)))
    assert is_read_through(turned, last(turned))
    wide = graph_of(lambda b, x: b.cast(x, f32), (bf16, (8,)))
    assert is_read_through(wide, last(wide))
    computed = graph_of(lambda b, x: b.cast(b.unary("exp", x), bf16), (f32, (8,)))
    assert not is_read_through(computed, last(computed))  # f32 is what would have to be kept
    grown = graph_of(lambda b, x: b.unary("exp", x), (f32, (8,)))
    assert not is_read_through(grown, last(grown))


def compared(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.elementwise(apply("cmp", Argument(0, i64), Argument(1, i64), predicate="eq"), (x, y))


def test_masks_of_far_smaller_arrays_are_made_again():
    mask = graph_of(compared, (i64, (64, 1)), (i64, (1, 64)))
    assert spreads(mask, last(mask), ())
    even = graph_of(compared, (i64, (64, 64)), (i64, (64, 64)))
    assert not spreads(even, last(even), ())


def test_factors_are_found_through_views():
    built = graph_of(
        lambda b, x, w: b.contract(b.transpose(b.unary("exp", x), (1, 0)), w, ((0, 1), (1, 2)), (0, 2)),
        (f32, (3, 4)), (f32, (3, 5)),
    )  # fmt: skip
    grown = next(node for node in built.nodes if node.op == "map")
    assert is_factor(built, grown.result)
    assert not is_factor(built, built.outputs[0])
