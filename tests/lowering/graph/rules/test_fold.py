"""Rules that round a scale into an operand: exact over fractions, within their bound in floats."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of
from support.rewriting import HALF_UNIT, SHORT_UNIT, check_rule, rewritings, rule_named
from tessera.core.base.dtypes import DType, bf16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Value

EXTENT = st.integers(2, 4)
FEW = settings(max_examples=8, deadline=None)
MATMUL = ((0, 1), (1, 2))
UNITS = {f32: HALF_UNIT, bf16: SHORT_UNIT}


def gained(dtype: DType, m: int, k: int, n: int) -> Graph:
    """A product of rows with a gain, rounded to `dtype` as operators do."""
    x, g = (cast_expr(Argument(n, dtype), f32) for n in (0, 1))

    def make(b: GraphBuilder, rows: Value, gain: Value, w: Value) -> Value:
        body = cast_expr(apply("mul", x, g), dtype)
        return b.contract(b.map(body, [rows, gain], [(0, 1), (1,)], (m, k)), w, MATMUL, (0, 2))

    return graph_of(make, (dtype, (m, k)), (dtype, (k,)), (dtype, (k, n)))


@pytest.mark.parametrize("dtype", [f32, bf16])
@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_gains_across_products(dtype: DType, m: int, k: int, n: int):
    (after,) = check_rule("gains-across-products", gained(dtype, m + n, k, n), unit=UNITS[dtype], matches=1)
    assert [node.op for node in after.nodes] == ["map", "contract"]
    assert after.nodes[0].result.type.shape == (k, n)
    assert after.nodes[0].result.type.dtype == dtype


def test_gains_stay_beside_larger_operands():
    assert rewritings(rule_named("gains-across-products"), gained(f32, 2, 3, 4)) == []


@FEW
@given(EXTENT, EXTENT, st.sampled_from([f32, bf16]))
def test_scales_into_operands(k: int, n: int, dtype: DType):
    m = n + k

    def make(b: GraphBuilder, x: Value, w: Value, s: Value) -> Value:
        made = b.contract(x, w, MATMUL, (0, 2))
        body = apply("mul", apply("mul", Argument(0, f32), Argument(1, f32)), Literal(0.375, f32))
        return b.map(body, [made, s], [(1, 0), (0,)], (n, m))

    built = graph_of(make, (dtype, (m, k)), (dtype, (k, n)), (f32, (n,)))
    for after in check_rule("scales-into-operands", built, unit=UNITS[dtype]):
        assert [node.op for node in after.nodes] == ["map", "contract"]
        assert after.nodes[1].result.type.shape == (n, m)


def test_a_sign_is_no_scale():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        return b.unary("neg", b.contract(x, w, MATMUL, (0, 2)))

    assert rewritings(rule_named("scales-into-operands"), graph_of(make, (f32, (4, 2)), (f32, (2, 4)))) == []
