"""Rules that leave roundings out: the exact result is the same, and floats come no further from it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of
from support.graphs import normals
from support.rewriting import SHORT_UNIT, check_rule, rewritings, rule_named
from tessera.core.base.dtypes import DType, bf16, f16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Value
from tessera.runtime.interpret.graph import evaluate

EXTENT = st.integers(2, 4)
FEW = settings(max_examples=8, deadline=None)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@FEW
@given(EXTENT, EXTENT)
def test_keep_wide(m: int, n: int):
    def make(b: GraphBuilder, x: Value, r: Value) -> Value:
        body = cast_expr(apply("mul", Argument(0, f32), Argument(1, f32)), bf16)
        short = b.map(body, [x, r], [(0, 1), (0,)], x.type.shape)
        wide = cast_expr(Argument(0, bf16), f32)
        return b.map(apply("add", wide, wide), [short], [(1, 0)], (n, m))

    (after,) = check_rule("keep-wide", graph_of(make, (f32, (m, n)), (f32, (m,))), unit=SHORT_UNIT, matches=1)
    (node,) = after.nodes
    assert node.attributes["axes"] == ((1, 0), (1,))


def test_keeping_wide_is_closer():
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.unary("exp", b.cast(b.cast(b.unary("sin", x), f16), f32))

    built = graph_of(make, (f32, (500,)))
    after = rewritings(rule_named("keep-wide"), built)[0]
    x = normals([value.type for value in built.inputs])
    wanted = np.exp(np.sin(x[0].astype(np.float64)))
    errors = [float(np.abs(evaluate(each, x)[0] - wanted).max()) for each in (after, built)]
    assert errors[0] < errors[1] / 100


def test_what_is_used_as_it_was_rounded_stays():
    def make(b: GraphBuilder, x: Value) -> Value:
        short = b.cast(x, bf16)
        return b.map(Argument(0, bf16), [short], [(0,)], x.type.shape)

    assert rewritings(rule_named("keep-wide"), graph_of(make, (f32, (3,)))) == []


@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_rounded_scales_out_of_products(m: int, k: int, n: int):
    """Rows of bf16 are not rounded any more: their scale is applied to the sums."""

    def make(b: GraphBuilder, x: Value, r: Value, w: Value) -> Value:
        body = cast_expr(apply("mul", cast_expr(Argument(0, bf16), f32), Argument(1, f32)), bf16)
        scaled = b.map(body, [x, r], [(0, 1), (0,)], x.type.shape)
        return b.contract(scaled, w, ((0, 1), (1, 2)), (0, 2))

    built = graph_of(make, (bf16, (m, k)), (f32, (m,)), (bf16, (k, n)))
    (after,) = check_rule("rounded-scales-out-of-products", built, unit=SHORT_UNIT, matches=1)
    assert ops(after) == ["contract", "map"]
    assert after.nodes[0].operands == (after.inputs[0], after.inputs[2])


@pytest.mark.parametrize(("raw", "stored", "moves"), [(f16, f16, True), (f32, f16, False), (f32, bf16, True)])
def test_rows_stay_in_the_range_of_their_type(raw: DType, stored: DType, moves: bool):
    """Raw rows of f32 may be beyond f16, which their scale brings them into; bf16 has the exponents of f32."""

    def make(b: GraphBuilder, x: Value, r: Value, w: Value) -> Value:
        wide = x if raw == f32 else b.cast(x, f32)
        scaled = b.map(apply("mul", Argument(0, f32), Argument(1, f32)), [wide, r], [(0, 1), (0,)], x.type.shape)
        return b.contract(b.cast(scaled, stored), w, ((0, 1), (1, 2)), (0, 2))

    built = graph_of(make, (raw, (3, 4)), (f32, (3,)), (stored, (4, 2)))
    assert bool(rewritings(rule_named("rounded-scales-out-of-products"), built)) == moves
