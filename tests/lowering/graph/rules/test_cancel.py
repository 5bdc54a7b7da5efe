"""Rules that leave out what is undone: exact over fractions; in floats within the roundings that they leave out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of
from support.graphs import assert_same_bits, normals
from support.rewriting import HALF_UNIT, check_rule, rewritings, rule_named
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Value
from tessera.runtime.interpret.graph import evaluate

EXTENT = st.integers(2, 4)
FEW = settings(max_examples=8, deadline=None)
X, Y = Argument(0, f32), Argument(1, f32)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def rows(b: GraphBuilder, opcode: str, x: Value, s: Value) -> Value:
    return b.map(apply(opcode, X, Y), [x, s], [(0, 1), (0,)], x.type.shape)


@FEW
@given(EXTENT, EXTENT, st.sampled_from(["max", "min"]), st.sampled_from(["add", "sub"]))
def test_shift_extremes(m: int, n: int, kind: str, opcode: str):
    def make(b: GraphBuilder, x: Value, s: Value) -> Value:
        return b.reduce(rows(b, opcode, x, s), (1,), kind)

    built = graph_of(make, (f32, (m, n)), (f32, (m,)))
    (after,) = check_rule("shift-extremes", built, unit=HALF_UNIT, matches=1)
    assert ops(after) == ["reduce", "map"]
    # Rounding is monotone: finite numbers keep their bits.
    inputs = normals([value.type for value in built.inputs], 3)
    assert_same_bits(evaluate(after, inputs)[0], evaluate(built, inputs)[0])


def test_an_extreme_of_what_is_taken_away_from_a_row_stays():
    def make(b: GraphBuilder, x: Value, s: Value) -> Value:
        return b.reduce(b.map(apply("sub", Y, X), [x, s], [(0, 1), (0,)], x.type.shape), (1,), "max")

    assert rewritings(rule_named("shift-extremes"), graph_of(make, (f32, (3, 4)), (f32, (3,)))) == []


@FEW
@given(EXTENT, EXTENT)
def test_cancel_sums(m: int, n: int):
    """Softmax does not see a shift: (x + s) - (m + s)."""

    def make(b: GraphBuilder, x: Value, top: Value, s: Value) -> Value:
        return rows(b, "sub", rows(b, "add", x, s), b.binary("add", top, s))

    built = graph_of(make, (f32, (m, n)), (f32, (m,)), (f32, (m,)))
    (after,) = check_rule("cancel-sums", built, unit=HALF_UNIT, matches=1)
    assert ops(after) == ["map"]
    assert after.nodes[0].operands == after.inputs[:2]


@FEW
@given(EXTENT, EXTENT)
def test_cancel_quotients(m: int, n: int):
    def make(b: GraphBuilder, x: Value, s: Value) -> Value:
        return b.unary("neg", rows(b, "div", rows(b, "mul", x, s), s))

    built = graph_of(make, (f32, (m, n)), (f32, (m,)))
    for after in check_rule("cancel-quotients", built, unit=HALF_UNIT):
        assert ops(after)[-1] == "map"
        assert after.inputs[1] not in [value for node in after.nodes for value in node.operands]


@pytest.mark.parametrize("pair", [("exp", "log"), ("log", "exp"), ("exp2", "log2"), ("log2", "exp2")])
def test_inverse_functions(pair: tuple[str, str]):
    outer, inner = pair

    def make(b: GraphBuilder, x: Value) -> Value:
        return b.unary("neg", b.unary(outer, b.unary(inner, b.unary("abs", x))))

    built = graph_of(make, (f32, (3, 4)))
    (after,) = rewritings(rule_named("inverse-functions"), built)
    assert len(after.nodes) == 2
    x = normals([value.type for value in built.inputs])
    np.testing.assert_allclose(evaluate(after, x)[0], evaluate(built, x)[0], rtol=1e-5)


def test_functions_that_are_no_inverses_stay():
    built = graph_of(lambda b, x: b.unary("exp", b.unary("log2", x)), (f32, (3,)))
    assert rewritings(rule_named("inverse-functions"), built) == []
