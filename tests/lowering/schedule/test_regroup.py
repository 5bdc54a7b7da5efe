"""Nodes move between groups: maps to their readers, reductions of one array together, long rows into one loop."""

from support.gradients import graph_of
from support.graphs import check, close, normals, planned
from tessera.core.base.dtypes import f16, f32, i32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import CASCADE, PRODUCT, ROW_LIMIT, ROWS
from tessera.graphs.executable import Executable
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.lowering.schedule.regroup import looped_reductions
from tessera.lowering.schedule.separate_uses import separate_uses

LONG = ROW_LIMIT + 5


def product(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, ((0, 1), (1, 2)), (0, 2))


def test_a_map_of_what_is_written_anyway_goes_to_its_reader():
    def make(b: GraphBuilder, x: Value, w: Value, t: Value) -> tuple[Value, ...]:
        made = product(b, x, w)
        hit = b.binary("add", made, b.cast(b.reshape(t, (6, 1)), f32))
        return made, b.reduce(hit, (1,))

    graph = graph_of(make, (f32, (6, 300)), (f32, (300, 300)), (i64, (6,)))
    first, second = plan_graph(simplify(graph)).groups
    assert (first.kind, second.kind) == (PRODUCT, ROWS)
    assert first.outputs == (simplify(graph).outputs[0],)
    check(graph)


def test_reductions_of_one_array_read_it_once():
    def make(b: GraphBuilder, x: Value) -> Value:
        first = b.reduce(b.unary("abs", x), (1,))
        second = b.reduce(b.binary("mul", x, x), (1,))
        return b.binary("add", first, second)

    plan = planned(make, (f32, (5, 40)))
    assert [group.kind for group in plan.groups] == [ROWS]
    check(graph_of(make, (f32, (5, 40))))


def log_sum_exp(b: GraphBuilder, x: Value) -> Value:
    top = b.reduce(x, (1,), "max")
    grown = b.unary("exp", b.binary("sub", x, b.reshape(top, (x.type.shape[0], 1))))
    return b.binary("add", top, b.unary("log", b.reduce(grown, (1,))))


def test_a_long_row_is_one_loop():
    graph = graph_of(log_sum_exp, (f32, (3, LONG)))
    (group,) = Executable(graph).plan.groups
    assert group.kind == CASCADE
    close(graph, normals([value.type for value in graph.inputs]), 1e-5)


def test_long_sums_alone_keep_their_association():
    graph = graph_of(lambda b, x: b.reduce(x, (1,)), (f32, (3, LONG)))
    assert not looped_reductions(separate_uses(graph))
    both = simplify(graph_of(log_sum_exp, (f32, (3, LONG))))
    assert {node.op for node in looped_reductions(separate_uses(both))} == {"reduce"}


def test_maps_behind_what_is_read_through_a_view_are_its_epilogue():
    """A sum of many elements is a tree: the scale behind its last level is no kernel of its own."""
    graph = graph_of(lambda b, x: b.scaled(b.reduce(x, (0, 1)), 0.5), (f32, (256, 256)))
    last = Executable(graph).plan.groups[-1]
    assert last.kind == ROWS
    assert [node.op for node in last.members][-1] == "map"


def test_numbers_that_are_factors_lie_in_memory():
    def make(b: GraphBuilder, w: Value) -> Value:
        return b.cast(product(b, b.full(1.0, f16, (4, 8)), w), f16)

    first, second = planned(make, (f16, (8, 16))).groups
    assert [value.type.shape for value in first.outputs] == [(4, 8)]
    assert [value.type.dtype for value in second.outputs] == [f16]
    check(graph_of(make, (f16, (8, 16))))


def test_groups_that_read_one_array_are_one():
    """A quotient that is stored, and a sum of rows of the same array: neither needs the other."""

    def make(b: GraphBuilder, x: Value, y: Value) -> tuple[Value, ...]:
        scaled = b.binary("mul", x, b.unary("exp", x))
        return b.binary("add", scaled, y), b.reduce(b.unary("abs", x), (1,)), b.unary("neg", y)

    plan = planned(make, (f32, (5, 40)), (f32, (5, 40)))
    assert [(group.kind, len(group.outputs)) for group in plan.groups] == [(ROWS, 3)]
    check(graph_of(make, (f32, (5, 40)), (f32, (5, 40))))


def test_groups_that_share_less_than_they_read_stay_apart():
    def make(b: GraphBuilder, x: Value, y: Value, row: Value) -> tuple[Value, ...]:
        wide = b.broadcast(row, (1,), (5, 40))
        return b.binary("add", x, wide), b.binary("mul", y, wide)

    plan = planned(make, (f32, (5, 40)), (f32, (5, 40)), (f32, (40,)))
    assert len(plan.groups) == 2


def test_what_needs_the_other_stays_behind_it():
    """The column sums make a number that the second map reads beside the array of the first."""

    def make(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        columns = b.reduce(x, (0,))
        return b.unary("exp", x), b.binary("mul", x, b.reshape(columns, (1, 40)))

    check(graph_of(make, (f32, (50, 40))))


def test_a_group_that_joined_what_it_is_made_of_does_not_need_itself():
    def make(b: GraphBuilder, x: Value) -> Value:
        index = b.cast(x, i32)
        return b.add("scatter_add", [index, b.cast(index, f32)], None, "", axis=0, extent=1)

    first, second = planned(make, (f32, ())).groups
    assert [node.op for node in first.members] == ["map", "map"]
    assert [node.op for node in second.members] == ["scatter_add"]
    check(graph_of(make, (f32, ())))
