"""Normalized rows before products: exact over fractions, and no further from f64 whatever the mean is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of
from support.rewriting import HALF_UNIT, SHORT_UNIT, check_rule, rewritings, rule_named
from tessera.core.base.dtypes import DType, bf16, f16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Value
from tessera.lowering.graph.rules.table import permitted
from tessera.runtime.interpret.graph import evaluate

EXTENT = st.integers(2, 4)
FEW = settings(max_examples=8, deadline=None)
X, Y = Argument(0, f32), Argument(1, f32)
SHIFTED, GAINED = "rounded-sums-out-of-products", "gained-sums-out-of-products"
ROWS, COLUMNS = [(0, 1), (0,)], [(0, 1), (1,)]


def normalized(
    m: int, k: int, n: int, *, gain: bool, bias: bool, dtype: DType = bf16, raw: DType | None = None, turned: bool = False
) -> Graph:  # fmt: skip
    """Rows less m, times r, times g, plus b, rounded to `dtype`, before a product: statistics are inputs."""

    def make(b: GraphBuilder, x: Value, w: Value, *more: Value) -> Value:
        shift, scale, *rest = more
        wide = x if x.type.dtype == f32 else b.cast(x, f32)
        made = b.map(apply("sub", X, Y), [wide, shift], ROWS, (m, k))
        made = b.map(apply("mul", X, Y), [made, scale], ROWS, (m, k))
        if gain:
            made = b.map(apply("mul", X, Y), [made, b.cast(rest[0], f32)], COLUMNS, (m, k))
        if bias:
            made = b.map(apply("add", X, Y), [made, b.cast(rest[-1], f32)], COLUMNS, (m, k))
        short = b.cast(made, dtype)
        return (
            b.contract(w, short, ((1, 2), (0, 1)), (0, 2)) if turned else b.contract(short, w, ((0, 1), (1, 2)), (0, 2))
        )

    along = [(dtype, (k,))] * (gain + bias)
    return graph_of(make, (raw or dtype, (m, k)), (dtype, (k, n)), (f32, (m,)), (f32, (m,)), *along)  # type: ignore[arg-type]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_rounded_sums_out_of_products(bias: bool, turned: bool, m: int, k: int, n: int):
    built = normalized(m + n, k, n, gain=False, bias=bias, turned=turned)
    (after,) = check_rule(SHIFTED, built, unit=SHORT_UNIT, matches=1)
    (product,) = [node for node in after.nodes if node.op == "contract"]
    assert set(product.operands) == set(after.inputs[:2])  # both as they were given
    assert sum(node.op == "reduce" for node in after.nodes) == 1 + bias


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [f16, bf16])
@FEW
@given(EXTENT, EXTENT, EXTENT)
def test_gained_sums_out_of_products(dtype: DType, bias: bool, m: int, k: int, n: int):
    built = normalized(m + n, k, n, gain=True, bias=bias, dtype=dtype)
    (after,) = check_rule(GAINED, built, unit=SHORT_UNIT, matches=1)
    (product,) = [node for node in after.nodes if node.op == "contract"]
    weights = product.operands[1]
    assert product.operands[0] is after.inputs[0]
    assert weights.type.dtype == dtype  # rounded, and what is summed of it is summed after that
    (shift,) = [n for n in after.nodes if n.op == "reduce" and after.producers[n.operands[0]].operands == (weights,)]
    assert shift.result.type.shape == (n,)


def test_a_gain_alone():
    """A root mean square has no shift: the raw rows times the weights with the gain, and the scale behind."""

    def make(b: GraphBuilder, x: Value, w: Value, r: Value, g: Value) -> Value:
        scaled = b.map(apply("mul", X, Y), [b.cast(x, f32), r], ROWS, x.type.shape)
        whole = b.map(apply("mul", X, Y), [scaled, b.cast(g, f32)], COLUMNS, x.type.shape)
        return b.contract(b.cast(whole, f16), w, ((0, 1), (1, 2)), (0, 2))

    built = graph_of(make, (f16, (5, 3)), (f16, (3, 4)), (f32, (5,)), (f16, (3,)))  # type: ignore[arg-type]
    (after,) = check_rule(GAINED, built, unit=SHORT_UNIT, matches=1)
    assert sorted(node.op for node in after.nodes) == ["contract", "map", "map", "map"]
    assert rewritings(rule_named(SHIFTED), built) == []


def test_where_rows_stay_normalized():
    """Larger weights, rows that would be rounded with their mean, and a scale alone."""
    assert rewritings(rule_named(GAINED), normalized(2, 3, 4, gain=True, bias=False)) == []
    assert rewritings(rule_named(SHIFTED), normalized(2, 3, 4, gain=False, bias=False)) == []
    assert rewritings(rule_named(SHIFTED), normalized(8, 3, 4, gain=False, bias=False, raw=f32)) == []

    def scaled(b: GraphBuilder, x: Value, w: Value) -> Value:
        made = b.elementwise(apply("mul", X, Literal(3.0, f32)), [b.cast(x, f32)])
        return b.contract(b.cast(made, bf16), w, ((0, 1), (1, 2)), (0, 2))

    assert rewritings(rule_named(SHIFTED), graph_of(scaled, (bf16, (5, 3)), (bf16, (3, 2)))) == []


def test_all_that_it_needs_is_permitted():
    names = {rule.name for rule in permitted({"fold", "widen"})}
    assert not names & {SHIFTED, GAINED}
    assert SHIFTED in {rule.name for rule in permitted({"reassociate", "widen"})}
    assert GAINED in {rule.name for rule in permitted({"reassociate", "widen", "fold"})}


@pytest.mark.parametrize("ratio", [0.1, 10.0, 100.0])
@pytest.mark.parametrize("dtype", [f16, bf16])
@pytest.mark.parametrize("gain", [False, True])
def test_the_mean_does_no_harm(dtype: DType, ratio: float, gain: bool):
    """Means a hundred times the deviation: no further from f64 than the product of normalized rows."""
    m, k, n = 64, 192, 24
    built = normalized(m, k, n, gain=gain, bias=gain, dtype=dtype)
    (after,) = rewritings(rule_named(GAINED if gain else SHIFTED), built)
    rng = np.random.default_rng(3)
    x = (ratio + rng.standard_normal((m, k))).astype(dtype.numpy)
    wide = x.astype(np.float64)
    mean, scale = wide.mean(1), 1 / wide.std(1)
    given = [x, (rng.standard_normal((k, n)) / k**0.5).astype(dtype.numpy), mean.astype(np.float32),
             scale.astype(np.float32)]  # fmt: skip
    exact = (wide - mean[:, None]) * scale[:, None]
    if gain:
        given += [(1 + 0.3 * rng.standard_normal(k)).astype(dtype.numpy), rng.standard_normal(k).astype(dtype.numpy)]
        exact = exact * given[4].astype(np.float64) + given[5].astype(np.float64)
    wanted = exact @ given[1].astype(np.float64)
    errors = [np.linalg.norm(evaluate(each, given)[0] - wanted) / np.linalg.norm(wanted) for each in (built, after)]
    assert errors[1] <= 1.05 * errors[0]
    assert errors[1] < (2e-3 if dtype == bf16 else 3e-4)


def test_f32_is_centred_first():
    """Differences of f32 are not distributed where one term is a statistic of the other; of other things they are."""

    def centred(b: GraphBuilder, x: Value, w: Value) -> Value:
        mean = b.elementwise(apply("mul", X, Literal(0.25, f32)), [b.reduce(x, (1,))])
        return b.contract(b.map(apply("sub", X, Y), [x, mean], ROWS, x.type.shape), w, ((0, 1), (1, 2)), (0, 2))

    def shifted(b: GraphBuilder, x: Value, w: Value, shift: Value) -> Value:
        return b.contract(b.map(apply("sub", X, Y), [x, shift], ROWS, x.type.shape), w, ((0, 1), (1, 2)), (0, 2))

    assert rewritings(rule_named("distribute"), graph_of(centred, (f32, (3, 4)), (f32, (4, 2)))) == []
    check_rule("distribute", graph_of(shifted, (f32, (3, 4)), (f32, (4, 2)), (f32, (3,))), unit=HALF_UNIT, matches=1)
