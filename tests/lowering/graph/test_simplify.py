"""Each rule of the simplifier, before and after; and that simplified graphs compute the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings

from support.gradients import graph_of, reals
from support.graphs import assert_same_bits, graphs, normals, small_integers
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import identity, reshape, transpose, window
from tessera.core.graph.isolated import is_isolated, isolated
from tessera.core.graph.verify import verify
from tessera.graphs.executable import Executable
from tessera.kernels.options import Options
from tessera.lowering.graph.simplify import simplify
from tessera.runtime.interpret.graph import evaluate


def same_bits(built: Graph) -> Graph:
    """Simplify, and compare on normal floats: rules keep every bit."""
    found = simplify(built)
    verify(found)
    for arrays in (normals([v.type for v in built.inputs]), small_integers([v.type for v in built.inputs])):
        for one, other in zip(evaluate(found, arrays), evaluate(built, arrays), strict=True):
            assert_same_bits(one, other)
    return found


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_every_output_is_an_array_of_its_own():
    """A reduction of one element is its operand, and equal ones are one, but not where both are returned."""

    def make(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        column = b.view(x, reshape((5,), (5, 1)))
        return b.reduce(column, (1,)), b.reduce(column, (1,), "max"), b.full(2.0, f32, (3, 1)), b.full(2.0, f32, (3, 1))

    built = graph_of(make, (f32, (5,)))
    found = same_bits(built)
    assert len({*found.inputs, *found.outputs}) == 5
    x = np.arange(5, dtype=np.float32)
    arrays = [x, *Executable(built, Options(target="interpret"))(x)]
    assert not any(np.shares_memory(a, b) for n, a in enumerate(arrays) for b in arrays[:n])


@pytest.mark.parametrize("dtype", [f32, bf16, f64, i32], ids=str)
def test_factors_that_are_one_everywhere(dtype: DType):
    """The derivative of a sum of products: an array of ones that is converted and multiplied with."""

    def make(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        wide = f32 if dtype == bf16 else dtype
        ones = b.cast(b.full(1.0 if dtype.is_float else 1, wide, (5, 3)), dtype)
        product = b.binary("mul", b.cast(x, wide), b.cast(ones, wide))
        return b.unary("neg", b.cast(product, dtype)), b.binary("add", x, ones)

    found = same_bits(graph_of(make, (dtype, (5, 3))))
    assert ops(found) == ["map", "map"]
    assert [node.operands for node in found.nodes] == [found.inputs, found.inputs]


def test_factors_of_other_numbers_stay():
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.binary("mul", x, b.full(2.0, f32, (5, 3)))

    assert ops(same_bits(graph_of(make, (f32, (5, 3))))) == ["map", "map"]


def test_views_of_views_are_one_view():
    def make(b: GraphBuilder, x: Value) -> Value:
        part = b.view(x, window((8, 9), (1, 2), (1, 3), (6, 2)))
        return b.unary("exp", b.view(b.transpose(part, (1, 0)), window((2, 6), (0, 5), (1, -1), (2, 6))))

    found = same_bits(graph_of(make, (f32, (8, 9))))
    assert ops(found) == ["view", "map"]
    assert found.nodes[0].index_map.permutation is None


def test_a_view_that_changes_nothing():
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.unary("exp", b.transpose(b.transpose(x, (1, 0)), (1, 0)))

    found = same_bits(graph_of(make, (f32, (3, 4))))
    assert ops(found) == ["map"]
    assert found.nodes[0].operands == found.inputs


def test_transpositions_become_axes_of_maps():
    found = same_bits(
        graph_of(lambda b, x, y: b.binary("sub", b.transpose(x, (1, 0)), y), (f32, (3, 4)), (f32, (4, 3)))
    )
    (node,) = found.nodes
    assert node.attributes["axes"] == ((1, 0), (0, 1))


def test_repetitions_become_axes_of_maps():
    found = same_bits(
        graph_of(lambda b, x, y: b.binary("mul", b.broadcast(x, (1,), (3, 4)), y), (f32, (4,)), (f32, (3, 4)))
    )
    (node,) = found.nodes
    assert node.attributes["axes"] == ((1,), (0, 1))


def test_transpositions_become_labels_of_contractions():
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.contract(x, b.transpose(y, (1, 0)), ((0, 1), (1, 2)), (0, 2))

    found = same_bits(graph_of(make, (f32, (3, 4)), (f32, (5, 4))))
    (node,) = found.nodes
    assert node.attributes["labels"] == ((0, 1), (2, 1))


def test_a_repeated_axis_that_is_summed_counts():
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.contract(b.broadcast(x, (0,), (3, 4)), y, ((0, 1), (1, 2)), (0, 2))

    assert ops(same_bits(graph_of(make, (f32, (3,)), (f32, (4, 5))))) == ["view", "contract"]


def test_reductions_of_transpositions():
    found = same_bits(graph_of(lambda b, x: b.reduce(b.transpose(x, (1, 0, 2)), (0,)), (f32, (3, 4, 5))))
    (node,) = found.nodes
    assert node.attributes["axes"] == (1,)


def test_the_order_in_which_axes_are_summed_counts():
    """Row-major order of the transposed axes is another order of the numbers."""
    built = graph_of(lambda b, x: b.reduce(b.transpose(x, (0, 2, 1)), (1, 2)), (f32, (3, 4, 5)))
    assert ops(same_bits(built)) == ["view", "reduce"]


def test_equal_nodes_are_computed_once():
    def make(b: GraphBuilder, x: Value) -> Value:
        one, other = (b.unary("exp", b.transpose(x, (1, 0))) for _ in range(2))
        return b.binary("add", one, b.scaled(other, 2.0))

    assert ops(same_bits(graph_of(make, (f32, (3, 4))))) == ["map"] * 3


def test_zeros_of_two_signs_are_not_equal_nodes():
    def make(b: GraphBuilder, x: Value) -> tuple[Value, Value]:
        return b.unary("neg", b.scaled(x, 0.0)), b.unary("neg", b.scaled(x, -0.0))

    assert len(same_bits(graph_of(make, (f32, (3,)))).nodes) == 4


def test_two_outputs_that_are_equal_are_both_made():
    found = same_bits(graph_of(lambda b, x: (b.unary("exp", x), b.unary("exp", x)), (f32, (3,))))
    assert len(set(found.outputs)) == 2


def test_conversions_to_the_type_that_is_there():
    def make(b: GraphBuilder, x: Value) -> Value:
        same = b.elementwise(Argument(0, f32), [x])
        return b.unary("exp", same)

    assert len(same_bits(graph_of(make, (f32, (3,)))).nodes) == 1


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_roundings_stay(dtype: DType):
    found = same_bits(graph_of(lambda b, x: b.unary("exp", b.cast(b.cast(x, dtype), f32)), (f32, (50,))))
    assert len(found.nodes) == 3


def test_dead_nodes():
    def make(b: GraphBuilder, x: Value) -> Value:
        b.unary("sin", x)
        return b.unary("exp", x)

    assert len(same_bits(graph_of(make, (f32, (3,)))).nodes) == 1


def test_axes_of_extent_1_are_put_back_by_a_view():
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.unary("exp", b.binary("add", x, b.reshape(y, (4, 1))))

    found = same_bits(graph_of(make, (f32, (1, 1, 4, 1)), (f32, (4,))))
    maps = [node for node in found.nodes if node.op == "map"]
    assert [node.result.type.shape for node in maps] == [(4,), (4,)]


def test_joined_heads_turn_the_product_that_makes_them():
    def make(b: GraphBuilder, p: Value, v: Value) -> Value:
        heads = b.contract(p, v, ((0, 1, 2), (0, 2, 3)), (0, 1, 3))
        return b.copy(b.reshape(b.transpose(heads, (1, 0, 2)), (5, 4 * 8)))

    found = same_bits(graph_of(make, (f32, (4, 5, 6)), (f32, (4, 6, 8))))
    contract, *rest = found.nodes
    assert contract.attributes["result"] == (1, 0, 3)
    assert [node.body for node in rest] == [reshape((5, 4, 8), (5, 32))]


def test_a_turned_output_is_a_map():
    found = same_bits(graph_of(lambda b, x: b.transpose(x, (1, 0)), (f32, (3, 4))))
    (node,) = found.nodes
    assert (node.op, node.attributes["axes"]) == ("map", ((1, 0),))


def test_an_output_that_is_an_input_stays_a_copy():
    found = same_bits(graph_of(lambda b, x: (b.copy(x), x), (f32, (3, 4))))
    (node,) = found.nodes
    assert node.index_map == identity((3, 4))
    assert found.outputs[1] is found.inputs[0]


@pytest.mark.parametrize("dtype", [f32, f64, f16, i32])
def test_products_that_sum_nothing_are_maps(dtype: DType):
    built = graph_of(lambda b, x, y: b.contract(x, y, ((0, 2), (2, 1)), (2, 1, 0)), (dtype, (3, 4)), (dtype, (4, 5)))
    found = same_bits(built)
    assert ops(found) == ["map"]
    (zero,) = evaluate(found, [np.zeros((3, 4), dtype.numpy), -np.ones((4, 5), dtype.numpy)])
    assert not np.signbit(zero).any()


@pytest.mark.parametrize(
    ("labels", "result", "shapes"),
    [
        (((0,), (1,)), (0, 1), ((5,), (6,))),
        (((0,), (0,)), (0,), ((5,), (5,))),
        (((0, 1), (0, 2)), (2, 0, 1), ((3, 5), (3, 6))),
        (((0, 1), (0,)), (1, 0), ((3, 5), (3,))),
        (((), ()), (), ((), ())),
        (((0,), (1, 2)), (0, 1, 2), ((2,), (3, 4))),
    ],
)
def test_products_of_rounded_operands_that_sum_nothing_sum_one(
    labels: tuple[tuple[int, ...], ...], result: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]
):
    built = graph_of(
        lambda b, x, y: b.contract(x, y, labels, result, compute="tf32"), *((f32, each) for each in shapes)
    )
    assert "contract" in ops(same_bits(built))
    given = normals([each.type for each in built.inputs])
    for found, wanted in zip(Executable(built)(*given), evaluate(built, given), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [f32, f64, i32, boolean])
def test_reductions_of_nothing_are_numbers(dtype: DType, kind: str):
    if (dtype, kind) != (boolean, "sum"):
        found = same_bits(graph_of(lambda b, x: b.reduce(x, (1,), kind), (dtype, (3, 0))))
        assert isinstance(found.nodes[0].body, Literal)


@pytest.mark.parametrize(("rows", "inner"), [(3, 0), (0, 4), (0, 0)])
def test_products_of_nothing_are_zeros(rows: int, inner: int):
    found = same_bits(
        graph_of(lambda b, x, y: b.contract(x, y, ((0, 1), (1, 2)), (0, 2)), (f32, (rows, inner)), (f32, (inner, 2)))
    )
    assert [(node.op, node.operands) for node in found.nodes] == [("map", ())]


def test_every_new_node_knows_what_it_is_made_of():
    built = graph_of(lambda b, x, y: b.binary("sub", b.transpose(x, (1, 0)), y), (f32, (3, 4)), (f32, (4, 3)))
    (node,) = simplify(built).nodes
    assert (node.origin.rule, node.origin.parents) == ("simplify", (1,))
    assert node.ident > max(each.ident for each in built.nodes)


def test_padding_stays_outside():
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.unary("exp", b.view(b.view(x, window((8,), (2,), (1,), (4,))), window((4,), (-1,), (1,), (6,))))

    assert ops(same_bits(graph_of(make, (f32, (8,))))) == ["view", "view", "map"]
    assert transpose((2, 3), (1, 0)).permutation == (1, 0)


@settings(max_examples=40)
@given(graphs())
def test_random_graphs(built: Graph):
    same_bits(built)


@settings(max_examples=40)
@given(graphs())
def test_simplified_graphs_are_simple(built: Graph):
    """One pass reaches the fixed point, but for nodes that it makes of outputs."""
    once = simplify(built)
    assert len(simplify(once).nodes) <= len(once.nodes)


def test_an_axis_of_one_element_is_not_reduced():
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.reshape(b.reduce(b.reshape(x, (1, 2, 1)), (0, 2), "min"), (2, 1))

    assert ops(same_bits(graph_of(make, (f32, (2,))))) == ["view"]


def test_marks_of_sums_stay_where_axes_of_extent_1_go():
    def make(b: GraphBuilder, v: Value, w: Value) -> tuple[Value, Value]:
        total = b.add("reduce", (v,), None, "", **isolated({"axes": (2,), "kind": "sum"}))
        b.contract(v, w, ((0, 1, 2), (0, 1, 3)), (2, 3))
        return total, b.add("contract", (v, w), None, "", **isolated(b.nodes[-1].attributes))

    made = simplify(graph_of(make, reals(1, 3, 4), reals(1, 3, 5)))
    sums = [node for node in made.nodes if node.op in ("contract", "reduce")]
    assert [len(node.operands[0].type.shape) for node in sums] == [2, 2]
    assert all(map(is_isolated, sums))


def test_products_that_underflow_keep_their_sign():
    built = graph_of(lambda b, x, y: b.contract(x, y, ((0, 2), (2, 1)), (0, 1)), (f32, (1, 1)), (f32, (1, 1)))
    arrays = [np.full((1, 1), value, np.float32) for value in (1e-30, -1e-30)]
    (found,), (wanted,) = (evaluate(each, arrays) for each in (simplify(built), built))
    assert np.signbit(wanted)
    assert_same_bits(found, wanted)


def test_what_is_joined_has_no_axes_of_extent_1_either():
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.concat([b.unary("exp", x), y], 2)

    found = same_bits(graph_of(make, (f32, (1, 3, 4)), (f32, (1, 3, 5))))
    (joined,) = [node for node in found.nodes if node.op == "concat"]
    assert joined.result.type.shape == (3, 9)


@pytest.mark.parametrize(("short", "left"), [(f16, ["map"]), (bf16, ["map"])])
def test_a_float_that_is_widened_and_shortened_again_is_that_float(short: DType, left: list[str]):
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.unary("neg", b.cast(b.cast(x, f32), short))

    found = same_bits(graph_of(make, (short, (4, 5))))
    assert ops(found) == left
    assert found.nodes[0].operands == found.inputs


def test_conversions_that_lose_something_stay():
    def make(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        return b.unary("neg", b.cast(b.cast(x, f16), f32)), b.unary("neg", b.cast(b.cast(x, f64), f16))

    found = same_bits(graph_of(make, (f32, (4, 5))))
    assert ops(found).count("map") == 6
