"""Rules that add and multiply in another order: exact over fractions, within their bound in floats."""

from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of
from support.rewriting import HALF_UNIT, SHORT_UNIT, check_rule, rewritings, rule_named
from tessera.core.base.dtypes import bf16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import window

EXTENT = st.integers(2, 4)
FEW = settings(max_examples=8, deadline=None)
MATMUL = ((0, 1), (1, 2))
X, Y = Argument(0, f32), Argument(1, f32)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def product(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, MATMUL, (0, 2))


@FEW
@given(EXTENT, EXTENT, EXTENT, EXTENT, st.booleans())
def test_chain_order(m: int, k: int, n: int, p: int, left: bool):
    def make(b: GraphBuilder, x: Value, y: Value, z: Value) -> Value:
        return product(b, product(b, x, y), z) if left else product(b, x, product(b, y, z))

    (after,) = check_rule("chain-order", graph_of(make, (f32, (m, k)), (f32, (k, n)), (f32, (n, p))), unit=HALF_UNIT)
    inner = after.nodes[0].result.type.shape
    assert inner == ((k, p) if left else (m, n))
    assert after.nodes[0].origin.parents == (0, 1)


@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_chain_order_of_scores_times_values(s: int, d: int, e: int):
    """(Q K^T) V is Q (K^T V): batches, too."""

    def make(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
        scores = b.contract(q, k, ((0, 1, 3), (0, 2, 3)), (0, 1, 2))
        return b.contract(scores, v, ((0, 1, 2), (0, 2, 3)), (1, 0, 3))

    found = check_rule("chain-order", graph_of(make, *((f32, (2, s, n)) for n in (d, d, e))), unit=HALF_UNIT, matches=1)
    assert found[0].nodes[0].result.type.shape in ((2, d, e), (2, e, d))


@FEW
@given(EXTENT, EXTENT, EXTENT, EXTENT)
def test_chain_order_with_a_rounding_between(m: int, k: int, n: int, p: int):
    def make(b: GraphBuilder, x: Value, y: Value, z: Value) -> Value:
        return product(b, b.cast(product(b, x, y), bf16), z)

    built = graph_of(make, (bf16, (m, k)), (bf16, (k, n)), (bf16, (n, p)))
    (after,) = check_rule("chain-order", built, unit=SHORT_UNIT, matches=1)
    assert ops(after) == ["contract", "map", "contract"]


def test_outer_products_are_not_chained():
    def make(b: GraphBuilder, x: Value, y: Value, z: Value) -> Value:
        return b.contract(b.contract(x, y, ((0,), (1,)), (0, 1)), z, ((0, 1), (2,)), (0, 1, 2))

    assert rewritings(rule_named("chain-order"), graph_of(make, (f32, (2,)), (f32, (3,)), (f32, (4,)))) == []


@FEW
@given(EXTENT, EXTENT, EXTENT, st.sampled_from(["mul", "div"]))
def test_scales_out_of_products(m: int, k: int, n: int, opcode: str):
    def make(b: GraphBuilder, x: Value, r: Value, w: Value) -> Value:
        scaled = b.map(apply("mul", apply(opcode, X, Y), Literal(0.375, f32)), [x, r], [(0, 1), (0,)], x.type.shape)
        return product(b, scaled, w)

    built = graph_of(make, (f32, (m, k)), (f32, (m,)), (f32, (k, n)))
    (after,) = check_rule("scales-out-of-products", built, unit=HALF_UNIT, matches=1)
    assert ops(after) == ["contract", "map"]
    assert after.nodes[0].operands == (after.inputs[0], after.inputs[2])


@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_scales_out_of_products_of_a_repeated_operand(m: int, k: int, n: int):
    """What is left has no axis of its own: the other operand is summed."""

    def make(b: GraphBuilder, r: Value, w: Value) -> Value:
        repeated = b.map(apply("mul", X, Literal(0.5, f32)), [r], [(0,)], (m, k))
        return product(b, repeated, w)

    found = check_rule("scales-out-of-products", graph_of(make, (f32, (m,)), (f32, (k, n))), unit=HALF_UNIT)
    assert ["reduce", "map"] in [ops(after) for after in found]


@FEW
@given(EXTENT, EXTENT)
def test_scales_out_of_sums(m: int, n: int):
    def make(b: GraphBuilder, x: Value, s: Value) -> Value:
        scaled = b.map(apply("div", apply("mul", X, Literal(3.0, f32)), Y), [x, s], [(0, 1), (0,)], (m, n))
        return b.reduce(scaled, (1,))

    (after,) = check_rule("scales-out-of-sums", graph_of(make, (f32, (m, n)), (f32, (m,))), unit=HALF_UNIT, matches=1)
    assert ops(after) == ["reduce", "map"]


@FEW
@given(EXTENT, EXTENT, EXTENT, st.sampled_from(["add", "sub"]))
def test_factor_sums(m: int, k: int, n: int, opcode: str):
    def make(b: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
        return b.binary(opcode, product(b, x, w), b.contract(x, v, ((0, 1), (2, 1)), (0, 2)))

    built = graph_of(make, (f32, (m, k)), (f32, (k, n)), (f32, (n, k)))
    (after,) = check_rule("factor-sums", built, unit=HALF_UNIT, matches=1)
    assert ops(after) == ["map", "contract"]


@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_factor_sums_with_a_common_right_operand(m: int, k: int, n: int):
    def make(b: GraphBuilder, x: Value, y: Value, w: Value) -> Value:
        return b.binary("add", product(b, x, w), product(b, y, w))

    built = graph_of(make, (f32, (m, k)), (f32, (m, k)), (f32, (k, n)))
    (after,) = check_rule("factor-sums", built, unit=HALF_UNIT, matches=1)
    assert ops(after) == ["map", "contract"]


@FEW
@given(EXTENT, EXTENT, EXTENT, EXTENT)
def test_concatenate_sums(m: int, k: int, n: int, p: int):
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        halves = [(b.view(x, each), b.view(w, other)) for each, other in zip(columns(x, k), rows(w, k), strict=True)]
        (a, c), (d, e) = halves
        return b.binary("add", product(b, a, c), product(b, d, e))

    def columns(x: Value, at: int):
        return window(x.type.shape, (0, 0), (1, 1), (m, at)), window(x.type.shape, (0, at), (1, 1), (m, p))

    def rows(w: Value, at: int):
        return window(w.type.shape, (0, 0), (1, 1), (at, n)), window(w.type.shape, (at, 0), (1, 1), (p, n))

    built = graph_of(make, (f32, (m, k + p)), (f32, (k + p, n)))
    (after,) = check_rule("concatenate-sums", built, unit=HALF_UNIT, matches=1)
    assert ops(after).count("contract") == 1


@FEW
@given(EXTENT, EXTENT, EXTENT, st.booleans())
def test_distribute(m: int, k: int, n: int, right: bool):
    def make(b: GraphBuilder, x: Value, mean: Value, w: Value) -> Value:
        centred = b.map(apply("sub", X, Y), [x, mean], [(0, 1), (0,)], x.type.shape)
        return b.contract(w, centred, ((1, 2), (0, 1)), (0, 2)) if right else product(b, centred, w)

    built = graph_of(make, (f32, (m, k)), (f32, (m,)), (f32, (k, n)))
    (after,) = check_rule("distribute", built, unit=HALF_UNIT, matches=1)
    assert ops(after) == ["contract", "contract", "map"]


@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_sum_lone_labels(m: int, k: int, n: int):
    def make(b: GraphBuilder, mean: Value, w: Value) -> Value:
        return b.contract(mean, w, ((0,), (1, 2)), (0, 2))

    (after,) = check_rule("sum-lone-labels", graph_of(make, (f32, (m,)), (f32, (k, n))), unit=HALF_UNIT, matches=1)
    assert ops(after) == ["reduce", "map"]


@FEW
@given(EXTENT, EXTENT, EXTENT, st.sampled_from(["sum", "max", "min"]))
def test_sums_of_sums(m: int, k: int, n: int, kind: str):
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.reduce(b.reduce(x, (1,), kind), (1,), kind)

    (after,) = check_rule("sums-of-sums", graph_of(make, (f32, (m, k, n))), unit=HALF_UNIT, matches=1)
    (node,) = after.nodes
    assert node.attributes["axes"] == (1, 2)


@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_sum_of_products(m: int, k: int, n: int):
    def make(b: GraphBuilder, p: Value, x: Value, w: Value) -> Value:
        return b.reduce(b.binary("mul", p, product(b, x, w)), (1,))

    built = graph_of(make, (f32, (m, n)), (f32, (m, k)), (f32, (k, n)))
    (after,) = check_rule("sum-of-products", built, unit=HALF_UNIT, matches=1)
    assert ops(after) == ["contract", "contract"]


@FEW
@given(EXTENT, EXTENT)
def test_sum_of_products_as_a_reduction(m: int, n: int):
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.contract(x, y, ((0, 1), (1, 0)), (0,))

    (after,) = check_rule("sum-of-products", graph_of(make, (f32, (m, n)), (f32, (n, m))), unit=HALF_UNIT, matches=1)
    assert ops(after) == ["map", "reduce"]
