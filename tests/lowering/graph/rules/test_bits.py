"""Rules that change no bit, before and after: over fractions, and bit for bit in floats."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of
from support.rewriting import check_rule, rewritings, rule_named
from tessera.core.base.dtypes import DType, bf16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import window

EXTENT = st.integers(2, 4)
FEW = settings(max_examples=8, deadline=None)
MATMUL = ((0, 1), (1, 2))


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@FEW
@given(EXTENT, EXTENT, EXTENT, EXTENT, st.sampled_from([f32, bf16]))
def test_merge_siblings(m: int, k: int, n: int, p: int, dtype: DType):
    def make(b: GraphBuilder, x: Value, w: Value, v: Value) -> tuple[Value, ...]:
        return b.contract(x, w, MATMUL, (0, 2)), b.contract(x, v, ((0, 1), (2, 1)), (2, 0))

    built = graph_of(make, (dtype, (m, k)), (dtype, (k, n)), (dtype, (p, k)))
    for after in check_rule("merge-siblings", built, matches=2):
        (product,) = [node for node in after.nodes if node.op == "contract" and node.origin.rule]
        assert product.result.type.shape == (m, n + p)
        assert product.origin.parents == (0, 1)


@FEW
@given(EXTENT, EXTENT, st.lists(st.tuples(st.integers(0, 1), st.booleans()), min_size=3, max_size=5, unique=True))
def test_merge_siblings_of_arrays_and_their_transposes(m: int, n: int, factors: list[tuple[int, bool]]):
    """An array and its transpose are two factors: x @ w, x @ w.T, x @ v."""

    def make(b: GraphBuilder, x: Value, w: Value, v: Value) -> tuple[Value, ...]:
        return tuple(
            b.contract(x, (w, v)[which], ((0, 1), (2, 1) if turned else (1, 2)), (0, 2)) for which, turned in factors
        )

    built = graph_of(make, (f32, (m, n)), (f32, (n, n)), (f32, (n, n)))
    if len({which for which, _ in factors}) > 1:
        for after in check_rule("merge-siblings", built, matches=len(factors)):
            assert (m, n * len(factors)) in [node.result.type.shape for node in after.nodes]


@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_merge_siblings_with_batches_and_a_common_right_operand(m: int, k: int, n: int):
    def make(b: GraphBuilder, x: Value, y: Value, w: Value) -> tuple[Value, ...]:
        labels = ((3, 0, 1), (3, 1, 2))
        return b.contract(x, w, labels, (3, 0, 2)), b.contract(y, w, labels, (3, 0, 2))

    built = graph_of(make, (f32, (2, m, k)), (f32, (2, n, k)), (f32, (2, k, 3)))
    for after in check_rule("merge-siblings", built, matches=2):
        assert (2, m + n, 3) in [node.result.type.shape for node in after.nodes]


def test_products_of_each_other_are_not_merged():
    def make(b: GraphBuilder, x: Value) -> Value:
        once = b.contract(x, x, MATMUL, (0, 2))
        return b.contract(x, once, MATMUL, (0, 2))

    built = graph_of(make, (f32, (3, 3)))
    for after in rewritings(rule_named("merge-siblings"), built):
        assert ops(after).count("concat") == 0


def test_products_of_other_options_are_not_merged():
    def make(b: GraphBuilder, x: Value, w: Value, v: Value) -> tuple[Value, ...]:
        return b.contract(x, w, MATMUL, (0, 2)), b.contract(x, v, MATMUL, (0, 2), exact=True)

    built = graph_of(make, (f32, (3, 4)), (f32, (4, 5)), (f32, (4, 5)))
    assert rewritings(rule_named("merge-siblings"), built) == []


@FEW
@given(EXTENT, EXTENT, st.integers(0, 2), st.integers(1, 2))
def test_join_views(m: int, n: int, start: int, step: int):
    def make(b: GraphBuilder, x: Value) -> Value:
        parts = [b.view(x, window(x.type.shape, (0, at), (1, step), (3, size)))
                 for at, size in ((start, m), (start + step * m, n))]  # fmt: skip
        return b.concat(parts, 1)

    (after,) = check_rule("join-views", graph_of(make, (f32, (3, start + step * (m + n)))), matches=1)
    assert ops(after) == ["view"]


def test_views_that_are_not_neighbours_stay():
    def make(b: GraphBuilder, x: Value) -> Value:
        parts = [b.view(x, window(x.type.shape, (at,), (1,), (3,))) for at in (0, 4)]
        return b.concat(parts, 0)

    assert rewritings(rule_named("join-views"), graph_of(make, (f32, (9,)))) == []


@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_absorb_transposes(m: int, k: int, n: int):
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        made = b.contract(b.transpose(x, (1, 0)), w, MATMUL, (0, 2))
        return b.transpose(made, (1, 0))

    found = check_rule("absorb-transposes", graph_of(make, (f32, (k, m)), (f32, (k, n))), matches=2)
    assert [ops(after) for after in found] == [["contract", "view"], ["view", "contract"]]


def test_a_part_of_a_product_is_no_transposition():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        made = b.contract(x, w, MATMUL, (0, 2))
        return b.view(made, window(made.type.shape, (0, 0), (1, 1), (2, 2)))

    assert rewritings(rule_named("absorb-transposes"), graph_of(make, (f32, (3, 4)), (f32, (4, 5)))) == []


@pytest.mark.parametrize("place", range(5))
def test_identities(place: int):
    x = Argument(0, f32)
    bodies = [
        apply("mul", x, Literal(1.0, f32)),
        apply("mul", Literal(1.0, f32), x),
        apply("div", x, Literal(1.0, f32)),
        apply("sub", x, Literal(0.0, f32)),
        apply("neg", apply("neg", x)),
    ]
    built = graph_of(lambda b, v: b.unary("neg", b.elementwise(bodies[place], [v])), (f32, (3, 2)))
    (after,) = check_rule("identities", built, matches=1)
    assert len(after.nodes) == 1


def test_what_is_no_identity():
    x = Argument(0, f32)
    for body in (apply("add", x, Literal(0.0, f32)), apply("sub", x, Literal(-0.0, f32))):  # -0.0 + 0.0 is 0.0
        built = graph_of(lambda b, v, e=body: b.elementwise(e, [v]), (f32, (3,)))  # type: ignore[misc]
        assert rewritings(rule_named("identities"), built) == []


@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_convert_before_viewing(m: int, k: int, n: int):
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        made = b.contract(x, w, MATMUL, (0, 2))
        part = b.view(made, window(made.type.shape, (0, 1), (1, 1), (m, n - 1)))
        return b.map(cast_expr(Argument(0, f32), bf16), [part], [(1, 0)], (n - 1, m))

    (after,) = check_rule("convert-before-viewing", graph_of(make, (bf16, (m, k)), (bf16, (k, n))), matches=1)
    assert ops(after) == ["contract", "map", "view", "view"]


def test_compose_conversions():
    built = graph_of(lambda b, x: b.cast(b.cast(b.cast(x, f32), bf16), f32), (bf16, (5,)))
    (after,) = check_rule("compose-conversions", built, matches=1)
    assert len(after.nodes) == 1
