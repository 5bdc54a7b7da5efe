"""Maps as sums of products that were rounded once: what is read, and what is none."""

import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import bf16, f16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply, cast
from tessera.core.graph.graph import Value
from tessera.lowering.graph.egraph.affine_forms import MOST_TERMS, AffineTerm, RoundedSum, rounded_sum_of
from tessera.lowering.graph.egraph.egraph import EGraph
from tessera.lowering.graph.egraph.scalar_forms import ScalarFactor

X, Y = Argument(0, f32), Argument(1, f32)


def read(body: Expr) -> RoundedSum | None:
    """Read a map of a matrix of f32 and a row's number, rounded to bf16."""
    egraph = EGraph(
        graph_of(lambda b, x, s: b.map(cast(body, bf16), [x, s], [(0, 1), (0,)], (2, 3)), (f32, (2, 3)), (f32, (2,)))
    )
    return rounded_sum_of(egraph, egraph.roots[0])


def test_a_normalized_row():
    """Four maps, as an operator writes them: centred, scaled, weighted, shifted; then rounded."""

    def make(b: GraphBuilder, x: Value, m: Value, r: Value, g: Value) -> Value:
        wide = b.cast(x, f32)
        centred = b.map(apply("sub", X, Y), [wide, m], [(0, 1), (0,)], (2, 3))
        scaled = b.map(apply("mul", X, Y), [centred, r], [(0, 1), (0,)], (2, 3))
        gained = b.map(apply("mul", X, Y), [scaled, g], [(0, 1), (1,)], (2, 3))
        return b.cast(b.map(apply("add", X, Y), [gained, g], [(0, 1), (1,)], (2, 3)), f16)

    built = graph_of(make, (f16, (2, 3)), (f32, (2,)), (f32, (2,)), (f32, (3,)))  # type: ignore[arg-type]
    egraph = EGraph(built)
    found = rounded_sum_of(egraph, egraph.roots[0])
    assert found is not None
    x, m, r, g = (ScalarFactor(number, axes) for number, axes in enumerate([(0, 1), (0,), (0,), (1,)]))
    assert found.terms == (AffineTerm(1.0, (x, r, g)), AffineTerm(-1.0, (m, r, g)), AffineTerm(1.0, (g,)))
    assert found.dtype == f32
    assert len(found.nodes) == 6


def test_signs_and_numbers():
    found = read(apply("neg", apply("mul", apply("sub", X, Literal(2.0, f32)), Literal(0.5, f32))))
    assert found is not None
    assert [(each.number, len(each.factors)) for each in found.terms] == [(-0.5, 1), (1.0, 0)]


def test_what_is_computed_otherwise_is_a_factor():
    """A map that is no sum of products is one thing, whatever it is made of."""

    def make(b: GraphBuilder, x: Value, s: Value) -> Value:
        return b.cast(b.map(apply("sub", X, Y), [b.unary("exp", x), s], [(0, 1), (0,)], (2, 3)), bf16)

    egraph = EGraph(graph_of(make, (f32, (2, 3)), (f32, (2,))))
    found = rounded_sum_of(egraph, egraph.roots[0])
    assert found is not None
    assert found.terms == (AffineTerm(1.0, (ScalarFactor(2, (0, 1)),)), AffineTerm(-1.0, (ScalarFactor(1, (0,)),)))


def test_what_is_no_rounded_sum():
    assert read(apply("div", X, Y)) is None
    long: Expr = X
    for _ in range(MOST_TERMS):
        long = apply("add", long, Y)
    assert read(long) is None
    egraph = EGraph(graph_of(lambda b, x: b.unary("neg", x), (f32, (2, 3))))
    assert rounded_sum_of(egraph, egraph.roots[0]) is None


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_roundings_inside_end_a_sum(dtype: object):
    """What was rounded before it was scaled is another number: it is a factor."""

    def make(b: GraphBuilder, x: Value, s: Value) -> Value:
        short = b.cast(b.map(apply("mul", X, Y), [x, s], [(0, 1), (0,)], (2, 3)), bf16)
        return b.cast(b.map(apply("sub", X, Y), [b.cast(short, f32), s], [(0, 1), (0,)], (2, 3)), f16)

    egraph = EGraph(graph_of(make, (f32, (2, 3)), (f32, (2,))))
    found = rounded_sum_of(egraph, egraph.roots[0])
    assert found is not None
    assert egraph.type_of(found.terms[0].factors[0].kid).dtype == bf16
