"""Partitions of graphs: what is fused, what is not, and what needs no kernel."""

from support.gradients import Make, graph_of, softmax
from support.graphs import planned
from tessera.core.base.dtypes import DType, f16, f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import window
from tessera.core.graph.verify import verify
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule.fuse import fuse, separate_uses
from tessera.lowering.schedule.plan_graph import plan_graph


def kernels(make: Make, *inputs: tuple[DType, tuple[int, ...]]) -> list[tuple[str, int]]:
    """The kind of each kernel, and how many nodes it computes but for views and indices."""
    plan = plan_graph(simplify(graph_of(make, *inputs)))
    free = ("view", "iota")
    return [(group.kind, sum(node.op not in free for node in group.members)) for group in plan.groups]


def x(*shape: int) -> tuple[DType, tuple[int, ...]]:
    return f32, shape


def linear(b: GraphBuilder, v: Value, w: Value) -> Value:
    return b.contract(v, w, ((0, 1), (1, 2)), (0, 2))


def test_a_chain_of_maps_is_one_kernel():
    assert kernels(lambda b, v: b.unary("cos", b.unary("sin", b.unary("exp", v))), x(3, 4)) == [("maps", 3)]


def test_an_epilogue_belongs_to_its_product():
    def make(b: GraphBuilder, v: Value, w: Value, bias: Value) -> Value:
        return b.cast(b.unary("tanh", b.binary("add", linear(b, v, w), bias)), f16)

    assert kernels(make, x(3, 4), x(4, 5), x(5)) == [("product", 4)]


def test_a_softmax_is_one_kernel():
    assert kernels(softmax, x(3, 40)) == [("rows", 5)]


def test_a_prologue_belongs_to_its_rows():
    assert kernels(lambda b, v: b.reduce(b.unary("exp", v), (1,)), x(3, 4)) == [("rows", 2)]


def test_what_is_made_of_the_operands_of_a_product_is_a_kernel_of_its_own():
    assert kernels(lambda b, v, w: linear(b, b.unary("exp", v), w), x(3, 4), x(4, 5)) == [("maps", 1), ("product", 1)]


def test_reductions_along_different_axes_are_two_kernels():
    found = kernels(lambda b, v: b.reduce(b.unary("exp", b.reduce(v, (1,))), (0,)), x(3, 4))
    assert found == [("rows", 2), ("rows", 1)]


def test_a_short_product_is_computed_inside_the_next_one():
    found = kernels(lambda b, v, w: linear(b, linear(b, v, w), w), x(4, 4), x(4, 4))
    assert found == [("cascade", 2)]


def test_a_group_never_waits_for_itself():
    """The last map needs the sum, which needs the first map: it is no part of that one."""

    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        e = b.unary("exp", v)
        return b.binary("sub", e, linear(b, e, w))

    found = kernels(make, x(4, 4), x(4, 4))
    assert found == [("maps", 1), ("product", 2)]


def test_groups_come_after_what_they_read():
    def make(b: GraphBuilder, v: Value, w: Value) -> tuple[Value, Value]:
        e = b.unary("exp", v)
        total = b.reduce(linear(b, e, w), (0,))
        return b.binary("mul", total, b.reduce(e, (0,))), total

    plan = plan_graph(graph_of(make, x(4, 4), x(4, 4)))
    known = set(plan.graph.inputs)
    for group in plan.groups:
        assert set(group.inputs) <= known | set(plan.aliases)
        known |= set(group.outputs)


def test_views_are_read_through():
    def make(b: GraphBuilder, v: Value) -> Value:
        return b.unary("exp", b.view(v, window((8, 9), (1, 2), (1, 1), (6, 5))))

    assert kernels(make, x(8, 9)) == [("maps", 1)]


def test_a_view_that_tiles_cannot_read_is_a_kernel():
    def make(b: GraphBuilder, v: Value) -> Value:
        return b.reduce(b.view(v, window((8, 9), (0, 0), (1, 2), (8, 5))), (1,))

    assert kernels(make, x(8, 9)) == [("elements", 0), ("rows", 1)]


def test_outputs_have_memory_of_their_own():
    def make(b: GraphBuilder, v: Value) -> tuple[Value, Value]:
        e = b.unary("exp", v)
        return e, b.reshape(e, (12,))

    plan = planned(make, x(3, 4))
    assert len(plan.groups) == 2
    assert plan.aliases == {}


def test_copies_of_inputs_are_kernels():
    plan = planned(lambda b, v: (b.copy(v), b.reshape(v, (12,)), v), x(3, 4))
    assert [group.kind for group in plan.groups] == ["maps", "elements"]  # as one row, by quotients and remainders
    assert not plan.aliases


def test_indices_cost_nothing():
    def make(b: GraphBuilder, v: Value) -> Value:
        return b.binary("add", v, b.cast(b.iota(4), f32))

    assert kernels(make, x(3, 4)) == [("maps", 2)]


def test_indices_that_a_kernel_reads_from_memory():
    """A sum by index reads its indices: they are computed first."""

    def make(b: GraphBuilder, v: Value) -> Value:
        return b.scatter_add(b.iota(3), v, 5)

    found = planned(make, x(3, 4))
    assert [group.kind for group in found.groups] == ["maps", "scatter"]


def test_maps_of_gathered_elements():
    def make(b: GraphBuilder, table: Value, index: Value, v: Value) -> Value:
        return b.binary("add", b.gather(table, index), v)

    assert kernels(make, x(9), (i64, (5,)), x(5)) == [("elements", 2)]


def separated(make: Make, *inputs: tuple[DType, tuple[int, ...]]) -> Graph:
    found = separate_uses(graph_of(make, *inputs))
    verify(found)
    return found


def test_operands_of_a_product_with_itself_are_two_values():
    found = separated(lambda b, v: b.contract(v, v, ((0, 1), (2, 1)), (0, 2)), x(3, 4))
    assert [node.op for node in found.nodes] == ["view", "contract"]
    assert len(set(found.nodes[-1].operands)) == 2


def test_one_operand_along_two_sets_of_axes_is_two_values():
    def body(b: GraphBuilder, v: Value) -> Value:
        sum_of_two = apply("add", Argument(0, f32), Argument(1, f32))
        return b.map(sum_of_two, [v, v], [(0,), (1,)], (4, 4))

    found = separated(body, x(4))
    assert [node.op for node in found.nodes] == ["view", "map"]


def test_operands_of_their_own_stay():
    found = separated(linear, x(3, 4), x(4, 5))
    assert [node.op for node in found.nodes] == ["contract"]


def test_fusing_is_deterministic():
    built = simplify(graph_of(softmax, x(3, 40)))
    assert [len(g.members.nodes) for g in fuse(built).groups] == [len(g.members.nodes) for g in fuse(built).groups]


def test_the_latest_producer_takes_a_node_that_reads_several():
    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        return b.binary("add", b.reduce(v, (1,)), b.reduce(linear(b, v, w), (1,)))

    found = fuse(simplify(graph_of(make, x(3, 4), x(4, 5))))
    assert [fused.form.kind for fused in found.groups] == ["rows", "cascade"]


def test_two_products_share_a_copy_of_what_neither_can_read():
    def make(b: GraphBuilder, v: Value, left: Value, right: Value) -> tuple[Value, Value]:
        rows = b.reshape(b.transpose(v, (1, 0, 2)), (5, 4 * 8))
        return linear(b, rows, left), linear(b, rows, right)

    groups = planned(make, x(4, 5, 8), x(32, 6), x(32, 7)).groups
    assert [group.kind for group in groups] == ["elements", "product", "product"]
    assert groups[0].outputs[0].type.shape == (5, 32)
