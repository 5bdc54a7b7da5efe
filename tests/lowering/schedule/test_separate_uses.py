"""Users get values of their own: along other axes, and what long rows are reduced from; others share them."""

from support.gradients import Make, graph_of
from support.graphs import close, normals
from tessera.core.base.dtypes import DType, f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.verify import verify
from tessera.core.schedule.plan import CASCADE, MAPS, ROW_LIMIT
from tessera.graphs.executable import Executable
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule.separate_uses import mapped, separate_uses

LONG = ROW_LIMIT + 77


def softmax(b: GraphBuilder, x: Value) -> Value:
    top = b.reshape(b.reduce(x, (1,), "max"), (x.type.shape[0], 1))
    grown = b.unary("exp", b.binary("sub", x, top))
    return b.binary("div", grown, b.reshape(b.reduce(grown, (1,)), (x.type.shape[0], 1)))


def test_short_rows_are_as_they_were():
    graph = simplify(graph_of(softmax, (f32, (3, 40))))
    assert separate_uses(graph).nodes == graph.nodes


def test_long_rows_keep_no_elements():
    graph = simplify(graph_of(softmax, (f32, (3, LONG))))
    separate = separate_uses(graph)
    again = [node for node in separate.nodes if node.origin.rule == "recompute"]
    assert len(again) == 2  # the difference and its exponential
    (quotient,) = (node for node in separate.nodes if node.result in separate.outputs)
    assert again[-1].result in quotient.operands


def test_a_long_softmax_is_a_loop_and_a_map():
    graph = graph_of(softmax, (f32, (3, LONG)))
    loop, elements = Executable(graph).plan.groups
    assert loop.kind == CASCADE
    assert [value.type.shape for value in loop.outputs] == [(3,), (3,)]
    assert elements.kind == MAPS
    close(graph, normals([value.type for value in graph.inputs]), 1e-5)


def x(*shape: int) -> tuple[DType, tuple[int, ...]]:
    return f32, shape


def linear(b: GraphBuilder, v: Value, w: Value) -> Value:
    return b.contract(v, w, ((0, 1), (1, 2)), (0, 2))


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


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_weights_that_are_summed_and_multiplied_have_no_view():
    def make(b: GraphBuilder, s: Value, v: Value) -> tuple[Value, Value]:
        p = b.unary("exp", s)
        return linear(b, p, v), b.reduce(p, (1,))

    assert ops(separated(make, x(3, 4), x(4, 5))) == ["map", "contract", "reduce"]


def test_a_factor_that_meets_the_product_again_has_a_view():
    def make(b: GraphBuilder, s: Value, w: Value) -> Value:
        h = b.unary("exp", s)
        return b.binary("add", linear(b, h, w), h)

    assert ops(separated(make, x(3, 4), x(4, 4))) == ["map", "view", "contract", "map"]


def test_inputs_that_are_multiplied_and_reduced_have_a_view():
    """They are read from memory, once along each use's axes."""

    def make(b: GraphBuilder, s: Value, v: Value) -> tuple[Value, Value]:
        return linear(b, s, v), b.reduce(s, (1,))

    assert ops(separated(make, x(3, 4), x(4, 5))) == ["view", "contract", "reduce"]


def test_one_array_along_rows_and_then_along_columns_has_a_view_for_columns():
    body = apply("add", Argument(0, f32), Argument(1, f32))

    def make(b: GraphBuilder, s: Value, c: Value) -> Value:
        rows = b.map(body, [s, c], [(0, 1), (0,)], (4, 4))
        return b.map(body, [rows, c], [(0, 1), (1,)], (4, 4))

    found = separated(make, x(4, 4), x(4))
    assert ops(found) == ["map", "view", "map"]
    assert found.nodes[0].operands[1] is found.inputs[1]


def test_one_array_along_the_same_axes_twice_has_none():
    body = apply("add", Argument(0, f32), Argument(1, f32))

    def make(b: GraphBuilder, s: Value, c: Value) -> Value:
        rows = b.map(body, [s, c], [(0, 1), (0,)], (4, 4))
        return b.map(body, [rows, c], [(0, 1), (0,)], (4, 4))

    assert ops(separated(make, x(4, 4), x(4))) == ["map", "map"]


def test_equal_conditions_on_rows_and_columns_are_made_for_each():
    both = apply("and", *(apply("cmp", Argument(n, f32), Argument(n, f32), predicate="lt") for n in range(2)))

    def make(b: GraphBuilder, v: Value) -> tuple[Value, Value]:
        near = b.unary("neg", b.cast(b.iota(4), f32))
        return b.map(both, [near, near], [(0,), (1,)], (4, 4)), v

    found = separated(make, x(1))
    assert ops(found) == ["iota", "map", "map", "iota", "map", "map", "map"]
    one, other = found.nodes[-1].operands
    assert one is not other


def test_what_maps_make_of_a_value():
    graph = graph_of(lambda b, v, w: b.unary("exp", linear(b, b.unary("neg", v), w)), x(3, 4), x(4, 5))
    negated, product, made = (node.result for node in graph.nodes)
    assert mapped(graph, graph.inputs[0]) == {graph.inputs[0], negated}
    assert mapped(graph, product) == {product, made}


def test_rows_and_columns_of_a_mask():
    def make(b: GraphBuilder) -> Value:
        i = b.iota(6)
        below = apply("cmp", Argument(0, i64), Argument(1, i64), predicate="le")
        return b.map(below, (i, i), ((0,), (1,)), (6, 6))

    made = separate_uses(graph_of(make))
    assert [node.op for node in made.nodes].count("iota") == 2


def test_what_every_user_computes_needs_no_view():
    def make(b: GraphBuilder, x: Value, w: Value) -> tuple[Value, ...]:
        y = b.unary("exp", x)
        return b.contract(y, w, ((0, 1), (1, 2)), (0, 2)), b.contract(y, x, ((0, 1), (2, 1)), (0, 2))

    graph = graph_of(make, (f32, (4, 5)), (f32, (5, 3)))
    exponential = graph.nodes[0]
    users = [node for node in separate_uses(graph, frozenset({exponential.ident})).nodes if node.op == "contract"]
    assert all(exponential.result in node.operands for node in users)
    assert sum(exponential.result in node.operands for node in separate_uses(graph).nodes if node.op == "contract") < 2


def test_numbers_are_made_anew_for_a_product():
    def make(b: GraphBuilder, x: Value) -> Value:
        ones = b.full(1.0, f32, (4, 5))
        return b.binary("add", b.contract(ones, x, ((0, 1), (2, 1)), (0, 2)), b.reduce(ones, (0, 1)))

    made = separate_uses(graph_of(make, (f32, (4, 5))))
    assert [node.op for node in made.nodes].count("map") == 3
