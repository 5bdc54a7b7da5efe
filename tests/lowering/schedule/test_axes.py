"""Axes of a group: which axes of its values are one."""

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.lowering.schedule.axes import AxisClasses, AxisSpace, axis_space, pairs

EXP = apply("exp", Argument(0, f32))


def space(graph: Graph) -> AxisSpace:
    found = axis_space(graph.nodes, values(graph))
    assert found is not None
    return found


def values(graph: Graph) -> list[Value]:
    return list(dict.fromkeys([*graph.outputs, *(node.result for node in graph.nodes), *graph.inputs]))


def test_classes_are_joined_over_several_steps():
    x, y, z = (Value(Tensor(f32, (2, 2))) for _ in range(3))
    classes = AxisClasses()
    classes.union((x, 0), (y, 1))
    classes.union((z, 0), (y, 1))
    assert classes.find((x, 0)) == classes.find((z, 0)) == classes.find((y, 1))
    assert classes.find((x, 1)) == (x, 1)


def test_a_map_of_a_transposed_operand():
    graph = graph_of(lambda b, x: b.map(EXP, [x], [(1, 0)], (4, 3)), (f32, (3, 4)))
    found = space(graph)
    assert found.extents == (4, 3)
    assert found.axes == {graph.outputs[0]: (0, 1), graph.inputs[0]: (1, 0)}


def test_a_reduction_keeps_its_other_axes():
    graph = graph_of(lambda b, x: b.reduce(x, (1,)), (f32, (3, 4, 5)))
    found = space(graph)
    assert found.extents == (3, 5, 4)  # those of the result first
    assert found.axes[graph.inputs[0]] == (0, 2, 1)


def test_a_contraction():
    graph = graph_of(
        lambda b, x, y: b.contract(x, y, ((0, 1, 2), (0, 3, 2)), (0, 1, 3)), (f32, (2, 3, 4)), (f32, (2, 5, 4))
    )
    found = space(graph)
    assert found.extents == (2, 3, 5, 4)
    assert [found.axes[value] for value in graph.inputs] == [(0, 1, 3), (0, 2, 3)]


def test_a_product_with_itself_has_two_axes_that_are_one():
    graph = graph_of(lambda b, x: b.contract(x, x, ((0, 1), (2, 1)), (0, 2)), (f32, (3, 4)))
    assert axis_space(graph.nodes, values(graph)) is None


def test_views_tie_nothing():
    graph = graph_of(lambda b, x: b.transpose(x, (1, 0)), (f32, (3, 4)))
    assert list(pairs(graph.nodes[0])) == []
    assert space(graph).extents == (4, 3, 3, 4)


def test_a_number_has_no_axes():
    graph = graph_of(lambda b, x: b.unary("exp", x), (f32, ()))
    assert space(graph) == AxisSpace((), dict.fromkeys((*graph.outputs, *graph.inputs), ()))
