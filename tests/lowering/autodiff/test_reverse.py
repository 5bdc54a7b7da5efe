"""Reverse mode on whole graphs."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.gradients import (
    Case,
    causal_attention,
    check,
    drawn,
    floats_of,
    gelu,
    graph_of,
    layernorm,
    logsumexp,
    matmul,
    mean,
    reals,
    softmax,
    squared_error,
)  # fmt: skip
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i64
from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import NotDifferentiable
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, cast
from tessera.core.graph.expr import to_text as expr_text
from tessera.core.graph.graph import Graph, Node, Routine, Tensor, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.core.graph.text import to_text
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.forward import jvp
from tessera.lowering.autodiff.reverse import grad, value_and_grad, vjp
from tessera.runtime.interpret.graph import evaluate


def _classifier():
    return graph_of(
        lambda b, x, w, y: squared_error(b, softmax(b, matmul(b, x, w)), y), reals(4, 3), reals(3, 5), reals(4, 5)
    )


def test_a_softmax_layer_has_the_gradient_that_differences_show():
    check(_classifier())


def test_value_and_grad_returns_the_value_first():
    graph = _classifier()
    inputs = drawn(graph)
    both = value_and_grad(graph, (1, 0))
    verify(both)
    value, by_w, by_x = evaluate(both, inputs)
    np.testing.assert_array_equal(value, evaluate(graph, inputs)[0])
    alone = evaluate(grad(graph, (0, 1)), inputs)
    np.testing.assert_array_equal(by_x, alone[0])
    np.testing.assert_array_equal(by_w, alone[1])


def _embedding(b: GraphBuilder, table: Value, index: Value) -> Value:
    rows = b.gather(table, index)
    return b.binary("mul", rows, rows)


def _cross_entropy(b: GraphBuilder, logits: Value, targets: Value) -> Value:
    """Return the mean of logsumexp(row) - row[target]: the targets picked by comparing with an iota."""
    n = logits.type.shape[1]
    hit = b.map(
        apply("select", apply("cmp", Argument(0, i64), Argument(1, i64), predicate="eq"), Argument(2, f64),
              Literal(0.0, f64)),
        (targets, b.iota(n), logits), ((0,), (1,), (0, 1)), logits.type.shape,
    )  # fmt: skip
    return mean(b, b.binary("sub", logsumexp(b, logits), b.reduce(hit, (1,))))


def _convolution(b: GraphBuilder, x: Value, w: Value) -> Value:
    windows = IndexMap((2, 6, 3), (Affine(0, (Term(0),)), Affine(-1, (Term(1), Term(2)))), True)
    return b.unary("tanh", b.contract(b.view(x, windows), w, ((0, 1, 2), (3, 2)), (0, 3, 1)))


def _concatenated(b: GraphBuilder, x: Value, y: Value) -> Value:
    joined = b.concat([x, b.unary("sin", y), x], 1)
    return b.binary("mul", joined, joined)


OPERATORS: dict[str, Case] = {
    "softmax": (softmax, reals(3, 5)),
    "logsumexp": (logsumexp, reals(3, 5)),
    "layernorm": (layernorm, reals(3, 6), reals(6), reals(6)),
    "gelu": (gelu, reals(7)),
    "attention": (causal_attention, reals(2, 4, 3), reals(2, 4, 3), reals(2, 4, 3)),
    "embedding": (_embedding, reals(3, 4), (i64, (2, 5))),
    "cross entropy": (_cross_entropy, reals(4, 3), (i64, (4,))),
    "convolution": (_convolution, reals(2, 6), reals(4, 3)),
    "concatenation": (_concatenated, reals(2, 3), reals(2, 2)),
    "mean of squares": (squared_error, reals(3, 4), reals(3, 4)),
}  # fmt: skip


def operator(name: str) -> Graph:
    make, *types = OPERATORS[name]
    return graph_of(make, *types)


def loss(name: str) -> Graph:
    """Return the operator followed by a sum with fixed weights, which has no symmetry to hide behind."""

    def weighted(b: GraphBuilder, *inputs: Value) -> Value:
        make: Any = OPERATORS[name][0]
        y: Value = make(b, *inputs)
        if not y.type.shape:
            return y
        flat = b.reshape(y, (y.type.size,))
        weights = b.elementwise(apply("sin", cast(Argument(0, i64), f64)), [b.iota(y.type.size)])
        return b.reduce(b.binary("mul", flat, weights), (0,))

    return graph_of(weighted, *OPERATORS[name][1:])


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str):
    check(operator(name))


@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_of_gradients(name: str):
    check(grad(loss(name), floats_of(loss(name).inputs)), tolerance=1e-5)


@pytest.mark.parametrize("name", ["softmax", "logsumexp", "layernorm", "gelu", "attention", "cross entropy"])
def test_hessian_vector_products_both_ways_agree(name: str):
    """Forward over reverse, reverse over forward, and differences of gradients."""
    graph = loss(name)
    inputs = drawn(graph)
    gradient = grad(graph, (0,))
    v = np.random.default_rng(5).normal(size=inputs[0].shape)
    forward = evaluate(jvp(gradient, (0,)), [*inputs, v])[1]
    directional = jvp(graph, (0,))
    (reverse,) = evaluate(grad(_only(directional, 1), (0,)), [*inputs, v])
    h = 1e-6
    ends = [evaluate(gradient, [inputs[0] + s * h * v, *inputs[1:]])[0] for s in (1, -1)]
    np.testing.assert_allclose(forward, reverse, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(forward, (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-6)


def _only(graph: Graph, number: int) -> Graph:
    return replace(graph, outputs=(graph.outputs[number],))


def test_third_derivatives():
    graph = graph_of(lambda b, x: b.reduce(b.unary("tanh", b.binary("mul", x, x)), (0,)), reals(3))
    second = grad(_summed(grad(graph, (0,))), (0,))
    check(grad(_summed(second), (0,)), tolerance=1e-5)


def _summed(graph: Graph) -> Graph:
    builder = GraphBuilder(graph.next_ident)
    builder.nodes.extend(graph.nodes)
    (out,) = graph.outputs
    total = builder.reduce(builder.binary("mul", out, out), range(len(out.type.shape)))
    return builder.finish("summed", graph.inputs, [total])


@pytest.mark.parametrize("name", ["softmax", "logsumexp", "attention"])
def test_the_maximum_that_cancels_has_no_derivative_of_any_order(name: str):
    """Its mask would compare the elements with the maximum."""
    first = grad(loss(name), (0,))
    for derived in (first, jvp(first, (0,)), grad(_summed(first), (0,))):
        assert "==" not in to_text(derived)


def test_indices_outside_get_nothing():
    graph = operator("embedding")
    index = np.array([[0, -1, 5, 2, 3], [2, 2, 3, -7, 0]])
    table = drawn(graph)[0]
    cotangent = np.ones((2, 5, 4))
    found = evaluate(vjp(graph, (0,)), [table, index, cotangent])[1]
    np.testing.assert_allclose(found, 2 * table * np.array([2, 0, 3])[:, None])


def test_contributions_are_one_sum_in_the_order_of_the_consumers():
    graph = graph_of(
        lambda b, x: (b.unary("sin", x), b.unary("exp", x), b.unary("tanh", x), b.scaled(x, 3.0)), reals(4)
    )
    backward = vjp(graph, (0,))
    (total,) = [node for node in backward.nodes if len(node.operands) == 4]
    parents = [backward.producers[value].origin.parents for value in total.operands]
    assert parents == [(0,), (1,), (2,), (3,)]
    assert expr_text(cast_type(total.body)) == "(((x0 + x1) + x2) + x3)"


def cast_type(body: object) -> Expr:
    assert isinstance(body, Apply)
    return body


def test_an_operand_used_twice_gets_both_cotangents():
    check(graph_of(lambda b, x: matmul(b, x, x), reals(3, 3)))
    check(graph_of(lambda b, x: b.binary("mul", x, x), reals(3, 3)))


def test_zero_cotangents_make_no_nodes():
    graph = graph_of(lambda b, x, y: b.unary("sin", x), reals(4), reals(5))
    backward = vjp(graph, (0, 1))
    last = backward.producers[backward.outputs[-1]]
    assert (last.op, last.body) == ("map", Literal(0.0, f64))
    assert len(backward.nodes) == 3  # sin; cos times the cotangent; zeros
    np.testing.assert_array_equal(evaluate(backward, [*drawn(graph), np.ones(4)])[2], np.zeros(5))


def test_what_no_output_needs_is_not_there():
    """The gradient of a product needs its factors, not the product."""
    graph = graph_of(lambda b, x, w: b.reduce(matmul(b, x, w), (0, 1)), reals(3, 4), reals(4, 5))
    assert [node.op for node in grad(graph, (0,)).nodes].count("contract") == 1


def test_outputs_that_are_inputs():
    graph = graph_of(lambda b, x, y: (x, b.binary("add", x, y)), reals(3), reals(3))
    backward = vjp(graph, (0, 1))
    verify(backward)
    assert frozenset(backward.outputs).isdisjoint(backward.inputs)
    x, y, c, d = (np.arange(3.0) + n for n in range(4))
    found = evaluate(backward, [x, y, c, d])
    np.testing.assert_array_equal(found[2], c + d)
    np.testing.assert_array_equal(found[3], d)


def test_an_output_that_is_there_twice():
    graph = graph_of(lambda b, x: b.unary("sin", x), reals(3))
    check(replace(graph, outputs=graph.outputs * 2))


def test_integers_have_no_gradient():
    graph = operator("embedding")
    with pytest.raises(NotDifferentiable, match=r"x1 is i64\[2, 5\]"):
        vjp(graph, (0, 1))


def test_a_gradient_is_that_of_one_number():
    with pytest.raises(NotDifferentiable, match=r"that of one number, and g returns f64\[3, 5\]"):
        grad(operator("softmax"), (0,))


@pytest.mark.parametrize("wrt", [(3,), (-1,), (0, 0)])
def test_inputs_that_do_not_exist_or_are_there_twice(wrt: tuple[int, ...]):
    with pytest.raises(ValueError, match="input"):
        vjp(operator("softmax"), wrt)


def test_operations_without_a_derivative_are_named_where_they_stand():
    span = Span("<cell>", 2, 5, 2, 12)
    x, y = Value(Tensor(f64, (3,)), "x"), Value(Tensor(f64, (3,)))
    node = Node("call", (x,), (y,), {}, Routine("sort"), 0, span=span)
    graph = Graph("g", (x,), (node,), (y,), Source("<cell>", "def f(x):\n    op.sort(x)\n"))
    with pytest.raises(NotDifferentiable, match="sort has no adjoint") as caught:
        vjp(graph, (0,))
    assert str(caught.value).splitlines()[2:4] == ["   2 |     op.sort(x)", "     |     ^^^^^^^"]


def test_numbers_are_kept_and_new_nodes_name_their_parents():
    graph = operator("layernorm")
    backward = vjp(graph, (0, 1, 2))
    old = {node.ident for node in graph.nodes}
    assert [node for node in backward.nodes if node.ident in old] == list(graph.nodes)
    fresh = [node for node in backward.nodes if node.ident not in old]
    assert [node.ident for node in fresh] == list(range(graph.next_ident, graph.next_ident + len(fresh)))
    assert all(node.origin.rule in ("linearize", "transpose", "differentiate") for node in fresh)
    assert all(set(node.origin.parents) <= old for node in fresh)


SCRIPT = """
import sys
from lowering.autodiff.test_reverse import OPERATORS, loss
from support.gradients import floats_of
from tessera.core.graph.text import to_text
from tessera.lowering.autodiff.reverse import grad
for name in OPERATORS:
    sys.stdout.write(to_text(grad(loss(name), floats_of(loss(name).inputs))))
"""


def test_the_same_graph_in_every_run():
    root = Path(__file__).parents[3]
    texts = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=root / "tests", check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": f"{root}:{root / 'tests'}"},
        ).stdout
        for seed in range(5)
    }  # fmt: skip
    assert len(texts) == 1
    assert texts.pop().count("graph.module") == len(OPERATORS)


@pytest.mark.parametrize("kind", [bf16, f16])
def test_short_floats_get_cotangents_of_their_type_rounded_once(kind: DType):
    """dx of sum(c * x) over 300 rows is a sum of 300 terms in f32, rounded once."""

    def scaled_rows(b: GraphBuilder, x: Value, c: Value) -> Value:
        body = apply("mul", cast(Argument(0, kind), f32), Argument(1, f32))
        return b.map(body, (x, c), ((1,), (0, 1)), (300, 4))

    graph = graph_of(scaled_rows, (kind, (4,)), (f32, (300, 4)))
    x, c = drawn(graph)
    g = np.random.default_rng(3).normal(size=(300, 4)).astype(np.float32)
    found = evaluate(vjp(graph, (0,)), [x, c, g])[1]
    assert found.dtype == kind.numpy
    wanted = (g.astype(np.float64) * c).sum(0).astype(np.float32).astype(kind.numpy)
    np.testing.assert_array_equal(found, wanted)


def test_products_of_bf16_have_cotangents_of_bf16_near_those_of_f64():
    def layer(b: GraphBuilder, x: Value, w: Value, kind: DType) -> Value:
        y = b.cast(matmul(b, x, w), kind)
        wide = b.cast(y, f64 if kind == f64 else f32)
        return b.cast(b.unary("tanh", wide), kind)

    short = graph_of(lambda b, x, w: layer(b, x, w, bf16), (bf16, (8, 16)), (bf16, (16, 8)))
    exact = graph_of(lambda b, x, w: layer(b, x, w, f64), reals(8, 16), reals(16, 8))
    inputs = drawn(short)
    g = np.random.default_rng(3).normal(size=(8, 8)).astype(bf16.numpy)
    backward = vjp(short, (0, 1))
    verify(backward)
    assert {v.type.dtype for node in backward.nodes if node.op == "contract" for v in node.operands} == {bf16}
    found = evaluate(backward, [*inputs, g])[1:]
    wanted = evaluate(vjp(exact, (0, 1)), [x.astype(np.float64) for x in (*inputs, g)])[1:]
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == bf16.numpy
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ["softmax", "logsumexp", "layernorm", "gelu", "attention", "cross entropy"])
def test_torch_agrees(name: str):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    functions: dict[str, Any] = {
        "softmax": lambda x: torch.softmax(x, -1),
        "logsumexp": lambda x: torch.logsumexp(x, -1),
        "layernorm": lambda x, g, b: functional.layer_norm(x, (6,), g, b, 1e-5),
        "gelu": functional.gelu,
        "attention": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        "cross entropy": functional.cross_entropy,
    }
    graph = operator(name)
    inputs, wrt = drawn(graph), floats_of(graph.inputs)
    tensors = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    out = functions[name](*tensors)
    cotangent = np.random.default_rng(3).normal(size=tuple(out.shape))
    out.backward(torch.tensor(cotangent))
    found = evaluate(vjp(graph, wrt), [*inputs, cotangent])
    np.testing.assert_allclose(found[0], out.detach().numpy(), rtol=1e-10, atol=1e-12)
    for number, gradient in zip(wrt, found[1:], strict=True):
        np.testing.assert_allclose(gradient, tensors[number].grad.numpy(), rtol=1e-9, atol=1e-12)
