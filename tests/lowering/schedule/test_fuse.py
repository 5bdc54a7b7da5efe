"""Partitions of graphs: what is fused, what is not, and what needs no kernel."""

import pytest

from support.gradients import Make, graph_of, softmax
from support.graphs import planned
from tessera.core.base.dtypes import DType, f16, f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import window
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule import fuse as grouping
from tessera.lowering.schedule import known_forms
from tessera.lowering.schedule.form import Form, Members, form
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.lowering.schedule.regroup import fuse


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


def test_long_rows_of_maps_are_placed_in_linear_time(monkeypatch: pytest.MonkeyPatch):
    """The nodes that are looked at as members of groups, for maps after a mean: all were, for each of them."""
    looked_at: list[int] = []

    def counting(members: Members) -> Form | None:
        looked_at[-1] += len(members.nodes)
        return form(members)

    monkeypatch.setattr(grouping, "MOST_NODES", 1000)
    monkeypatch.setattr(known_forms, "form", counting)
    monkeypatch.setattr(known_forms, "_KNOWN", {})
    for length in (100, 200, 400):

        def make(b: GraphBuilder, v: Value, length: int = length) -> Value:
            v = centered(b, v)
            for _ in range(length):
                v = b.binary("mul", b.unary("sin", v), v)
            return centered(b, v)

        looked_at.append(0)
        assert kernels(make, x(7, 33)) == [("rows", 2 * length + 6)]
    assert looked_at[2] < 2.5 * looked_at[1] < 2.5 * 2.5 * looked_at[0]


def test_kernels_have_a_bounded_number_of_nodes():
    def make(b: GraphBuilder, v: Value) -> Value:
        for _ in range(300):
            v = b.unary("sin", v)
        return v

    assert kernels(make, x(7, 33)) == [("maps", 128), ("maps", 128), ("maps", 44)]


def centered(b: GraphBuilder, v: Value) -> Value:
    mean = b.map(apply("mul", Argument(0, f32), Literal(1 / 33, f32)), [b.reduce(v, (1,))], [(0,)], v.type.shape[:1])
    return b.map(apply("sub", Argument(0, f32), Argument(1, f32)), [v, mean], [(0, 1), (0,)], v.type.shape)


def test_a_map_of_a_value_and_its_transpose_is_a_kernel_of_its_own():
    """Both are made in one group, along axes that are two there."""

    def make(b: GraphBuilder, v: Value) -> tuple[Value, ...]:
        first = centered(b, v)
        turned = b.map(apply("neg", Argument(0, f32)), [first], [(1, 0)], (33, 33))
        return first, turned, b.binary("add", first, turned)

    assert kernels(make, x(33, 33)) == [("rows", 4), ("maps", 1)]


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


def test_a_kernel_does_not_read_what_it_writes_in_another_shape():
    def make(b: GraphBuilder, v: Value, w: Value) -> tuple[Value, Value]:
        made = b.contract(v, w, ((0, 2), (0, 2)), (0,))
        column = b.reshape(made, (2, 1))
        return b.view(column, window((2, 1), (0, -1), (1, 1), (2, 3))), column

    plan = plan_graph(graph_of(make, x(2, 3), x(2, 3)))
    assert [group.kind for group in plan.groups] == ["product", "elements"]
    for group in plan.groups:
        made = {value for node in group.members for value in node.results}
        assert not made & {plan.aliases.get(value, value) for value in group.inputs}


def weighted_twice(b: GraphBuilder, q: Value, k: Value, v: Value, w: Value) -> tuple[Value, ...]:
    """Two sums over rows and one over columns, of one exponential of a product."""
    weights = b.unary("exp", b.contract(q, k, ((0, 2), (1, 2)), (0, 1)))
    return (
        b.contract(weights, v, ((0, 1), (0, 2)), (1, 2)), b.contract(weights, w, ((0, 1), (0, 2)), (1, 2)),
        b.contract(weights, k, ((0, 1), (1, 2)), (0, 2)),
    )  # fmt: skip


def test_what_kernels_compute_again_joins_their_loops():
    graph = simplify(graph_of(weighted_twice, x(40, 8), x(50, 8), x(40, 5), x(40, 6)))
    wide = frozenset(node.ident for node in graph.nodes if node.result.type.shape == (40, 50))
    plan = plan_graph(graph, wide)
    assert [[value.type.shape for value in group.outputs] for group in plan.groups] == [[(50, 5), (50, 6)], [(40, 8)]]
    assert plan.again == wide
    assert any((40, 50) in {value.type.shape for value in group.outputs} for group in plan_graph(graph).groups)


def test_what_no_kernel_can_compute_again_is_stored():
    """The second product needs whole rows of the first, which its loop does not have."""

    def make(b: GraphBuilder, v: Value, w: Value, u: Value) -> tuple[Value, ...]:
        first = linear(b, v, w)
        return linear(b, b.binary("mul", first, first), u), b.reduce(first, (0, 1))

    graph = simplify(graph_of(make, x(40, 300), x(300, 50), x(50, 5)))
    again = frozenset(node.ident for node in graph.nodes if node.result.type.shape == (40, 50))
    plan = plan_graph(graph, again)
    assert any((40, 50) in {value.type.shape for value in group.outputs} for group in plan.groups)


def test_a_map_moves_to_the_sum_that_alone_needs_it():
    """Attention's result is stored in 16 bits anyway: its products with another array are not, in 32."""

    def make(b: GraphBuilder, q: Value, k: Value, v: Value, u: Value) -> tuple[Value, ...]:
        weights = b.unary("exp", b.contract(q, k, ((0, 2), (1, 2)), (0, 1)))
        out = b.cast(b.contract(b.cast(weights, f16), v, ((0, 1), (1, 2)), (0, 2)), f16)
        total = b.reduce(b.binary("mul", b.cast(out, f32), b.cast(u, f32)), (1,))
        return out, total, b.contract(b.cast(weights, f16), u, ((0, 1), (0, 2)), (1, 2))

    half = f16, (40, 8)
    graph = simplify(graph_of(make, half, (f16, (50, 8)), (f16, (50, 8)), half))
    wide = frozenset(node.ident for node in graph.nodes if node.result.type.shape == (40, 50))
    written = [value.type for group in plan_graph(graph, wide).groups for value in group.outputs]
    assert sorted(map(str, written)) == ["f16[40, 8]", "f32[40]", "f32[50, 8]"]


def test_reductions_that_meet_are_one_kernel_in_any_order():
    """Two sums of one array, and then their product: each began a group of its own."""

    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        return b.binary("mul", b.reduce(v, (1,)), b.reduce(b.binary("mul", v, w), (1,)))

    assert kernels(make, x(3, 40), x(3, 40)) == [("rows", 4)]


def test_scores_that_are_only_summed_stay_in_their_loop():
    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        scores = linear(b, v, w)
        return b.binary("add", b.reduce(b.unary("exp", scores), (1,)), b.reduce(scores, (1,), "max"))

    assert [kind for kind, _ in kernels(make, x(30, 4), x(4, 50))] == ["cascade"]


def test_a_product_that_two_kernels_read_is_made_once():
    def make(b: GraphBuilder, v: Value, w: Value) -> tuple[Value, Value]:
        scores = linear(b, v, w)
        return b.reduce(scores, (1,)), b.reduce(scores, (0,))

    assert sum(kind == "product" for kind, _ in kernels(make, x(30, 4), x(4, 50))) == 1


def test_squares_are_made_where_they_are_summed():
    """The product writes one array, and not its squares too."""

    def make(b: GraphBuilder, v: Value, w: Value) -> tuple[Value, Value]:
        y = linear(b, v, w)
        return y, b.reduce(b.binary("mul", y, y), (0, 1))

    plan = plan_graph(simplify(graph_of(make, x(3, 4), x(4, 5))))
    assert [len(group.outputs) for group in plan.groups] == [1, 1]


def test_normalized_queries_are_a_kernel_and_attention_is_one():
    """The product of scores is left to the loop that reduces it, not to the norm of its operand."""

    def make(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
        squares = b.reduce(b.binary("mul", q, q), (1,))
        body = apply("mul", Argument(0, f32), Argument(1, f32))
        unit = b.map(body, [q, b.unary("rsqrt", squares)], [(0, 1), (0,)], (9, 4))
        weights = b.unary("exp", b.contract(unit, k, ((0, 1), (2, 1)), (0, 2)))
        quotient = apply("div", Argument(0, f32), Argument(1, f32))
        return b.map(quotient, [linear(b, weights, v), b.reduce(weights, (1,))], [(0, 1), (0,)], (9, 4))

    assert [kind for kind, _ in kernels(make, x(9, 4), x(11, 4), x(11, 4))] == ["rows", "cascade"]


def test_what_a_group_computes_and_a_collective_needs_is_written_by_the_group():
    def make(b: GraphBuilder, v: Value, w: Value) -> tuple[Value, ...]:
        wide = b.cast(b.cast(b.contract(v, w, ((0,), (0, 1)), (1,)), f16), f32)
        gathered = b.add("collective", [wide], None, "", kind="all_gather", axes=("tp",), parts=2, join=0)
        return b.binary("mul", wide, wide), b.unary("exp", gathered)

    assert kernels(make, x(17), x(17, 11)) == [("product", 4), ("call", 1), ("maps", 1)]
