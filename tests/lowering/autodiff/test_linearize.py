"""Forward mode: every primitive, zeros, types."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.gradients import Case, check, drawn, graph_of, matmul, mean, reals, softmax
from tessera.core.base.dtypes import bf16, boolean, f32, f64, i64
from tessera.core.errors.catalog import NotDifferentiable
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term, window
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.forward import jvp
from tessera.lowering.autodiff.reverse import grad
from tessera.runtime.interpret.graph import evaluate


def _transposed_map(b: GraphBuilder, x: Value, y: Value) -> Value:
    body = apply("mul", apply("sin", Argument(0, f64)), Argument(1, f64))
    return b.map(body, (x, y), ((2, 0), (1,)), (4, 5, 3))


def _contract_alone(b: GraphBuilder, x: Value, y: Value) -> Value:
    """Labels that only one operand has are summed over it alone."""
    return b.contract(x, y, ((0, 1), (1, 2)), (1,))


def _integers(b: GraphBuilder, x: Value) -> Value:
    return b.binary("mul", x, b.cast(b.cast(b.scaled(x, 3.0), i64), f64))


PRIMITIVES: dict[str, Case] = {
    "map": (lambda b, x, y: b.binary("div", b.unary("exp", x), y), reals(3), reals(3)),
    "map with axes": (_transposed_map, reals(3, 4), reals(5)),
    "contract": (matmul, reals(3, 4), reals(4, 2)),
    "contract, batched and turned": (
        lambda b, x, y: b.contract(x, y, ((0, 1, 2), (3, 0, 2)), (3, 0, 1)), reals(2, 3, 4), reals(5, 2, 4),
    ),
    "contract, outer": (lambda b, x, y: b.contract(x, y, ((0,), (1,)), (1, 0)), reals(3), reals(4)),
    "contract to a number": (lambda b, x, y: b.contract(x, y, ((0, 1), (1, 0)), ()), reals(3, 4), reals(4, 3)),
    "contract, summed alone": (_contract_alone, reals(3, 4), reals(4, 5)),
    "sum": (lambda b, x: b.reduce(x, (0, 2)), reals(3, 4, 2)),
    "max": (lambda b, x: b.reduce(x, (1,), "max"), reals(3, 4)),
    "min of several axes": (lambda b, x: b.reduce(x, (0, 2), "min"), reals(3, 4, 2)),
    "view": (lambda b, x: b.transpose(x, (1, 0)), reals(3, 4)),
    "concat": (lambda b, x, y: b.concat([x, y, x], 0), reals(2, 3), reals(1, 3)),
    "gather": (lambda b, x, i: b.gather(x, i, 1), reals(2, 3), (i64, (2, 2))),
    "scatter_add": (lambda b, x, i: b.scatter_add(i, x, 4, 1), reals(2, 5), (i64, (5,))),
    "scatter_add of matrices of indices": (lambda b, x, i: b.scatter_add(i, x, 2), reals(2, 3, 4), (i64, (2, 3))),
    "integers on the way": (_integers, reals(5)),
}  # fmt: skip


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives_both_ways(name: str):
    make, *types = PRIMITIVES[name]
    check(graph_of(make, *types))


def test_tangents_of_the_types_of_their_values():
    def make(b: GraphBuilder, x: Value, i: Value) -> tuple[Value, ...]:
        return b.cast(b.unary("exp", b.cast(x, f32)), bf16), i

    graph = graph_of(make, (bf16, (4,)), (i64, (4,)))
    forward = jvp(graph, (0,))
    verify(forward)
    assert [value.type.dtype for value in forward.outputs] == [bf16, i64, bf16]
    x = np.array([0.5, 1, -1, 2], bf16.numpy)
    i, t = np.zeros(4, np.int64), np.array([1, 2, 3, -1], bf16.numpy)
    found = evaluate(forward, [x, i, t])[2]
    wanted = (np.exp(x.astype(np.float64)) * t.astype(np.float64)).astype(np.float32).astype(bf16.numpy)
    np.testing.assert_array_equal(found, wanted)


def test_outputs_without_a_tangent_have_zeros():
    graph = graph_of(lambda b, x, y: (b.unary("sin", x), b.unary("sin", y)), reals(3), reals(2))
    forward = jvp(graph, (0,))
    found = evaluate(forward, [*drawn(graph), np.ones(3)])
    np.testing.assert_array_equal(found[3], np.zeros(2))
    assert len(forward.nodes) == 4


def test_an_input_of_integers_is_refused():
    with pytest.raises(NotDifferentiable, match="only floats have derivatives"):
        jvp(graph_of(lambda b, x: b.cast(x, f32), (i64, (3,))), (0,))


def test_the_result_of_an_operation_is_used_again():
    """exp(x) t reads exp(x), and x no more."""
    graph = graph_of(lambda b, x: b.unary("exp", x), reals(3))
    forward = jvp(graph, (0,))
    (_, tangent) = forward.nodes
    assert tangent.operands == (graph.outputs[0], forward.inputs[1])


ROWS, COLUMNS = 3, 4


def _wavy(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    return b.unary(draw(st.sampled_from(["sin", "cos", "tanh", "erf", "neg"])), x)


def _joint(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    return b.binary(draw(st.sampled_from(["add", "sub", "mul", "max", "min"])), x, y)


def _positive(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    return b.unary(draw(st.sampled_from(["log", "sqrt", "rsqrt"])), b.unary("exp", b.unary("tanh", x)))


def _centred(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    axis, kind = draw(st.integers(0, 1)), draw(st.sampled_from(["sum", "max", "min"]))
    keep = (1, COLUMNS) if axis == 0 else (ROWS, 1)
    return b.binary("sub", x, b.scaled(b.reshape(b.reduce(y, (axis,), kind), keep), 0.5))


def _product(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    return matmul(b, b.unary("tanh", matmul(b, x, b.transpose(y, (1, 0)))), y)


def _moved(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    start, step = draw(st.integers(-2, COLUMNS)), draw(st.sampled_from([-2, -1, 1, 2]))
    return b.view(x, window((ROWS, COLUMNS), (0, start), (1, step), (ROWS, COLUMNS)))


def _windows(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    terms = (Term(1, draw(st.integers(1, 2))), Term(2, draw(st.integers(1, 2))))
    index_map = IndexMap((ROWS, COLUMNS, 3), (Affine(0, (Term(0),)), Affine(-1, terms)), True)
    return b.reduce(b.view(x, index_map), (2,), draw(st.sampled_from(["sum", "max"])))


def _regrouped(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    turned = b.transpose(b.reshape(x, (COLUMNS, ROWS)), (1, 0))
    return b.binary("add", turned, b.reshape(b.reshape(y, (2, 2, 3)), (ROWS, COLUMNS)))


def _taken(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    halves = apply("floordiv", Argument(0, i64), Literal(2, i64))
    index = b.elementwise(halves, [b.iota(ROWS)])
    return b.scatter_add(index, b.gather(x, b.iota(ROWS)), ROWS)


def _softmax(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    return softmax(b, x)


def _guarded(b: GraphBuilder, draw: st.DrawFn, x: Value, y: Value) -> Value:
    """Choose between what has no value below 0 and another operand; padding has zeros, where nothing changes sides."""
    above = b.elementwise(apply("cmp", Argument(0, f64), Literal(0.51, f64), predicate="gt"), [x])
    root = b.unary(draw(st.sampled_from(["log", "sqrt", "rsqrt"])), x)
    body = apply("select", Argument(0, boolean), Argument(1, f64), Argument(2, f64))
    return b.elementwise(body, [above, root, y])


STEPS = (_guarded, _wavy, _joint, _positive, _centred, _product, _moved, _windows, _regrouped, _taken, _softmax)


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    """Draw steps over matrices of one shape, smooth where random numbers lie, and the means of two of them."""
    b = GraphBuilder()
    inputs = [Value(Tensor(f64, (ROWS, COLUMNS)), name) for name in ("x", "y")]
    values = [*inputs]
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=7)):
        values.append(step(b, draw, draw(st.sampled_from(values)), draw(st.sampled_from(values))))
    weights = b.unary("sin", b.cast(b.reshape(b.iota(ROWS * COLUMNS), (ROWS, COLUMNS)), f64))
    outputs = [mean(b, b.binary("mul", weights, each)) for each in (values[-1], draw(st.sampled_from(values)))]
    graph = b.finish("random", inputs, outputs)
    verify(graph)
    return graph


@given(random_graphs(), st.integers(0, 1000))
def test_random_graphs(graph: Graph, seed: int):
    check(graph, drawn(graph, seed), tolerance=1e-5)


@given(random_graphs(), st.integers(0, 1000))
def test_gradients_of_random_graphs(graph: Graph, seed: int):
    check(grad(graph, (0, 1)), drawn(graph, seed), tolerance=1e-4)
