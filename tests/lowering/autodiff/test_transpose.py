"""Transposes of linear primitives: what types and forms they have; their values are checked in test_linearize."""

import numpy as np
import pytest

from support.gradients import check, graph_of, reals
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, fp8_e4m3
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.reverse import grad, vjp
from tessera.lowering.autodiff.transpose import is_linear
from tessera.runtime.interpret.graph import evaluate


def product(kind: DType, *, exact: bool = False, compute: str = "", accumulate: DType | None = None) -> Graph:
    return graph_of(
        lambda b, x, w: b.contract(
            x, w, ((0, 1), (1, 2)), (0, 2), exact=exact, compute=compute, accumulate=accumulate,
        ), (kind, (3, 4)), (kind, (4, 5)),
    )  # fmt: skip


def contractions(graph: Graph) -> list[Node]:
    backward = vjp(graph, (0, 1))
    verify(backward)
    assert [value.type for value in backward.outputs[1:]] == [value.type for value in graph.inputs]
    return [node for node in backward.nodes if node.op == "contract"][1:]


@pytest.mark.parametrize(("kind", "factor"), [(f64, f64), (f32, f32), (bf16, bf16), (f16, f16), (fp8_e4m3, bf16)])
def test_factors_have_the_type_of_the_forward_products(kind: DType, factor: DType):
    for node in contractions(product(kind)):
        assert {value.type.dtype for value in node.operands} == {factor}
        assert node.result.type.dtype == (f64 if kind == f64 else f32)


def test_exact_products_keep_their_cotangent():
    for node in contractions(product(bf16, exact=True)):
        assert {value.type.dtype for value in node.operands} == {f32}
        assert node.attributes["exact"] is True


def test_the_compute_type_stays():
    assert [node.attributes["compute"] for node in contractions(product(f32, compute="tf32"))] == ["tf32"] * 2
    assert [node.attributes["compute"] for node in contractions(product(f32))] == [""] * 2


def test_sums_in_f64_have_cotangents_in_f64():
    for node in contractions(product(f32, accumulate=f64)):
        assert {value.type.dtype for value in node.operands} == {f64}


def test_a_repeated_operand_is_summed_in_its_own_order_of_axes():
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        body = b.binary("mul", x, y)
        return b.reduce(body, (0, 1, 2))

    graph = graph_of(make, reals(2, 3, 4), reals(4))
    check(graph)
    backward = grad(graph, (1,))
    # The operand's axis comes first in the product, so that the sum needs no transposition.
    product, total = backward.nodes
    assert (product.op, product.result.type.shape) == ("map", (4, 2, 3))
    assert (total.op, total.attributes["axes"]) == ("reduce", (1, 2))


def test_what_is_the_same_along_an_axis_is_multiplied_after_the_sum():
    graph = graph_of(lambda b, x, y: b.binary("sub", x, b.scaled(y, 3.0)), reals(5, 4), reals(4))
    check(graph)
    backward = vjp(graph, (1,))
    (total, negative) = [node for node in backward.nodes if node.origin.parents == (1,)]
    assert (total.op, negative.result.type.shape) == ("reduce", (4,))


def test_a_scan_turns_around():
    backward = vjp(graph_of(lambda b, x: b.add("scan", (x,), axis=1, kind="sum"), reals(2, 5)), (0,))
    verify(backward)
    x = np.random.default_rng(0).normal(size=(2, 5))
    g = np.random.default_rng(1).normal(size=(2, 5))
    wanted = np.cumsum(g[:, ::-1], axis=1)[:, ::-1]
    values = dict(zip(backward.inputs, (x, g), strict=True))
    for node in backward.nodes:  # the oracle has no scan yet
        operands = [values[value] for value in node.operands]
        values[node.result] = np.cumsum(operands[0], 1) if node.op == "scan" else run_node(node, operands)
    np.testing.assert_allclose(values[backward.outputs[1]], wanted)


def run_node(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    return evaluate(Graph("one", node.operands, (node,), node.results), operands)[0]


def test_what_is_not_linear_has_no_transpose():
    (node,) = graph_of(lambda b, x: b.iota(3), reals(1)).nodes
    assert not is_linear(node)
