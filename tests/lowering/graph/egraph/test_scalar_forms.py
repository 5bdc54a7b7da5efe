"""Maps as products and sums: what is read of bodies and of maps of maps, and what is built again."""

from support.gradients import graph_of
from tessera.core.base.dtypes import bf16, f32, i32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, cast, to_text
from tessera.core.graph.graph import Value
from tessera.lowering.graph.egraph.egraph import EGraph
from tessera.lowering.graph.egraph.scalar_forms import (
    ScalarFactor,
    build_product,
    build_sum,
    is_scaled,
    product_of,
    products_of,
    shape_of,
    sums_of,
)

X, Y = Argument(0, f32), Argument(1, f32)


def number(value: float) -> Literal:
    return Literal(value, f32)


def mapped(body: Expr) -> EGraph:
    """The map of a matrix and a row's number."""
    return EGraph(graph_of(lambda b, x, s: b.map(body, [x, s], [(0, 1), (0,)], (2, 3)), (f32, (2, 3)), (f32, (2,))))


def test_products():
    egraph = mapped(apply("div", apply("neg", apply("mul", X, number(6.0))), apply("mul", Y, number(2.0))))
    (found,) = products_of(egraph, egraph.roots[0])
    assert (found.number, found.dtype, found.stored) == (-3.0, f32, f32)
    assert found.factors == (ScalarFactor(0, (0, 1)), ScalarFactor(1, (0,), -1))
    assert is_scaled(found)


def test_what_is_no_product():
    for body in (apply("add", X, Y), apply("exp", X), apply("div", X, number(0.0)), number(3.0)):
        egraph = mapped(body)
        assert list(products_of(egraph, egraph.roots[0])) == []


def test_products_of_products_are_one():
    def make(b: GraphBuilder, x: Value, s: Value) -> Value:
        once = b.map(apply("mul", X, Y), [x, s], [(1, 0), (1,)], (3, 2))
        return b.map(apply("div", number(2.0), X), [once], [(1, 0)], (2, 3))

    egraph = EGraph(graph_of(make, (f32, (2, 3)), (f32, (2,))))
    single, whole = products_of(egraph, egraph.roots[0])
    assert single.factors == (ScalarFactor(2, (1, 0), -1),)
    assert (whole.number, whole.factors) == (2.0, (ScalarFactor(0, (0, 1), -1), ScalarFactor(1, (0,), -1)))
    assert len(whole.nodes) == 2


def test_roundings_end_a_product():
    def make(b: GraphBuilder, x: Value) -> Value:
        short = b.elementwise(cast(apply("mul", X, number(3.0)), bf16), [x])
        wide = cast(Argument(0, bf16), f32)
        return b.elementwise(cast(apply("mul", wide, wide), bf16), [short])

    egraph = EGraph(graph_of(make, (f32, (3,))))
    (found,) = products_of(egraph, egraph.roots[0])
    assert (found.dtype, found.stored) == (f32, bf16)
    assert found.factors == (ScalarFactor(1, (0,)),) * 2


def test_integers_have_no_products():
    egraph = EGraph(graph_of(lambda b, x: b.binary("mul", x, x), (i32, (3,))))
    (node,) = egraph.members[egraph.roots[0]]
    assert product_of(node) is None


def test_sums():
    egraph = mapped(apply("sub", apply("neg", X), apply("sub", Y, X)))
    ((terms, node),) = sums_of(egraph, egraph.roots[0])
    assert terms == (ScalarFactor(0, (0, 1), -1), ScalarFactor(1, (0,), -1), ScalarFactor(0, (0, 1)))
    assert shape_of(node) == (2, 3)


def text_of(egraph: EGraph, made: int) -> str:
    body = egraph.members[made][-1].body
    assert isinstance(body, Apply)
    return to_text(body)


def test_products_are_built_largest_first():
    egraph = mapped(X)
    factors = [ScalarFactor(1, (0,), -1), ScalarFactor(1, (0,)), ScalarFactor(0, (0, 1))]
    made = build_product(egraph, 0.5, factors, (2, 3), f32, bf16)
    assert text_of(egraph, made) == "bf16((((x0 * x1) / x1) * 0.5))"
    assert egraph.type_of(made).dtype == bf16
    reciprocal = build_product(egraph, 2.0, [ScalarFactor(0, (0, 1), -1)], (2, 3), f32, f32)
    assert text_of(egraph, reciprocal) == "(2.0 / x0)"
    assert build_product(egraph, 1.0, [ScalarFactor(0, (0, 1))], (2, 3), f32, f32) == 0


def test_sums_are_built_positive_terms_first():
    egraph = mapped(X)
    made = build_sum(egraph, [ScalarFactor(1, (0,), -1), ScalarFactor(0, (0, 1))], (2, 3))
    assert text_of(egraph, made) == "(x0 - x1)"
    assert text_of(egraph, build_sum(egraph, [ScalarFactor(0, (0, 1), -1)], (2, 3))) == "-x0"
    assert build_sum(egraph, [ScalarFactor(0, (0, 1))], (2, 3)) == 0
