"""Graphs for tests of derivatives, and their comparison with finite differences in f64."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import numpy as np

from tessera.core.base.dtypes import DType, f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.composites import Adjoint
from tessera.lowering.autodiff.forward import jvp
from tessera.lowering.autodiff.reverse import vjp
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.rounding import Numbers

STEP = 1e-6


Made: TypeAlias = Value | tuple[Value, ...]
Make: TypeAlias = (
    Callable[[GraphBuilder], Made]
    | Callable[[GraphBuilder, Value], Made]
    | Callable[[GraphBuilder, Value, Value], Made]
    | Callable[[GraphBuilder, Value, Value, Value], Made]
    | Callable[[GraphBuilder, Value, Value, Value, Value], Made]
)
"""What builds a graph of its inputs."""
Case: TypeAlias = tuple[Make, *tuple[tuple[DType, tuple[int, ...]], ...]]
"""What builds a graph, and the types of its inputs."""


def graph_of(make: Make, *types: tuple[DType, tuple[int, ...]]) -> Graph:
    """Return the graph of what `make(builder, *inputs)` returns."""
    builder = GraphBuilder()
    inputs = [Value(Tensor(dtype, shape), f"x{n}") for n, (dtype, shape) in enumerate(types)]
    made = cast("Callable[..., Made]", make)(builder, *inputs)
    graph = builder.finish("g", inputs, made if isinstance(made, tuple) else (made,))
    verify(graph)
    return graph


def reals(*shape: int) -> tuple[DType, tuple[int, ...]]:
    """Return the type of an f64 input."""
    return f64, shape


def drawn(graph: Graph, seed: int = 0) -> list[Numbers]:
    """Return random inputs: normal floats, and integers below 3."""
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=v.type.shape).astype(v.type.dtype.numpy)
        if v.type.dtype.is_float
        else rng.integers(0, 3, v.type.shape).astype(v.type.dtype.numpy)
        for v in graph.inputs
    ]


def floats_of(values: Sequence[Value]) -> list[int]:
    """Return which of `values` are floats."""
    return [number for number, value in enumerate(values) if value.type.dtype.is_float]


def check(
    graph: Graph, inputs: Sequence[Numbers] | None = None, wrt: Sequence[int] | None = None,
    overrides: dict[str, Adjoint] | None = None, tolerance: float = 1e-6,
) -> None:  # fmt: skip
    """Compare `jvp` and `vjp` with central differences along random directions, and with each other."""
    inputs = drawn(graph) if inputs is None else list(inputs)
    wrt = floats_of(graph.inputs) if wrt is None else list(wrt)
    rng = np.random.default_rng(1)
    forward, backward = jvp(graph, wrt), vjp(graph, wrt, overrides or {})
    verify(forward)
    verify(backward)
    places = floats_of(graph.outputs)
    cotangents = [rng.normal(size=graph.outputs[p].type.shape) for p in places]
    pulled = evaluate(backward, [*inputs, *cotangents])[len(graph.outputs) :]
    for number, gradient in zip(wrt, pulled, strict=True):
        assert gradient.shape == inputs[number].shape
        directions = [rng.normal(size=inputs[n].shape) * (n == number) for n in wrt]
        pushed = evaluate(forward, [*inputs, *directions])[len(graph.outputs) :]
        expected = differences(graph, inputs, wrt, directions)
        for p, (found, wanted) in enumerate(zip(pushed, expected, strict=True)):
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=f"jvp {number} {p}")
        one = sum(float(np.sum(c * p)) for c, p in zip(cotangents, pushed, strict=True))
        other = float(np.sum(gradient * directions[wrt.index(number)]))
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9, err_msg=f"vjp {number}")


def differences(
    graph: Graph, inputs: Sequence[Numbers], wrt: Sequence[int], directions: Sequence[Numbers]
) -> list[Numbers]:
    """Return the central differences of the outputs that are floats."""
    ends: list[list[Numbers]] = []
    for sign in (1, -1):
        moved = list(inputs)
        for number, direction in zip(wrt, directions, strict=True):
            moved[number] = moved[number] + sign * STEP * direction
        ends.append(list(evaluate(graph, moved)))
    return [(ends[0][p] - ends[1][p]) / (2 * STEP) for p in floats_of(graph.outputs)]


# Operators, as a tracer would expand them: one small map each.


def softmax(b: GraphBuilder, x: Value) -> Value:
    """Return the softmax along the last axis, shifted by the maximum."""
    last = len(x.type.shape) - 1
    keep = (*x.type.shape[:-1], 1)
    e = b.unary("exp", b.binary("sub", x, b.reshape(b.reduce(x, (last,), "max"), keep)))
    return b.binary("div", e, b.reshape(b.reduce(e, (last,)), keep))


def logsumexp(b: GraphBuilder, x: Value) -> Value:
    """Return the logarithm of the sum of exponentials along the last axis."""
    last = len(x.type.shape) - 1
    m = b.reduce(x, (last,), "max")
    shifted = b.binary("sub", x, b.reshape(m, (*m.type.shape, 1)))
    return b.binary("add", m, b.unary("log", b.reduce(b.unary("exp", shifted), (last,))))


def mean(b: GraphBuilder, x: Value) -> Value:
    """Return the mean of all elements."""
    return b.scaled(b.reduce(x, range(len(x.type.shape))), 1 / x.type.size)


def squared_error(b: GraphBuilder, x: Value, y: Value) -> Value:
    """Return the mean of the squared differences."""
    d = b.binary("sub", x, y)
    return mean(b, b.binary("mul", d, d))


def layernorm(b: GraphBuilder, x: Value, gain: Value, bias: Value) -> Value:
    """Return the normalised rows."""
    last, keep, n = len(x.type.shape) - 1, (*x.type.shape[:-1], 1), x.type.shape[-1]
    mu = b.reshape(b.scaled(b.reduce(x, (last,)), 1 / n), keep)
    d = b.binary("sub", x, mu)
    variance = b.scaled(b.reduce(b.binary("mul", d, d), (last,)), 1 / n)
    eps_body = apply("rsqrt", apply("add", Argument(0, x.type.dtype), Literal(1e-5, x.type.dtype)))
    rstd = b.reshape(b.elementwise(eps_body, [variance]), keep)
    return b.binary("add", b.binary("mul", b.binary("mul", d, rstd), gain), bias)


def gelu(b: GraphBuilder, x: Value) -> Value:
    """Return x * (1 + erf(x / sqrt(2))) / 2."""
    one = b.full(1.0, x.type.dtype, x.type.shape)
    cdf = b.scaled(b.binary("add", one, b.unary("erf", b.scaled(x, 0.5**0.5))), 0.5)
    return b.binary("mul", x, cdf)


def matmul(b: GraphBuilder, x: Value, w: Value) -> Value:
    """Return the matrix product over the last axis of x and the first of w."""
    rank = len(x.type.shape)
    labels = (tuple(range(rank)), (rank - 1, rank))
    return b.contract(x, w, labels, (*range(rank - 1), rank))


def causal_attention(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
    """Return attention over [heads, rows, width], where a row sees itself and those before."""
    n = q.type.shape[1]
    scores = b.scaled(b.contract(q, k, ((0, 1, 3), (0, 2, 3)), (0, 1, 2)), q.type.shape[-1] ** -0.5)
    rows, columns = b.reshape(b.iota(n), (n, 1)), b.iota(n)
    i64 = columns.type.dtype
    seen = b.elementwise(apply("cmp", Argument(0, i64), Argument(1, i64), predicate="ge"), [rows, columns])
    kind = q.type.dtype
    body = apply("select", Argument(0, seen.type.dtype), Argument(1, kind), Literal(float("-inf"), kind))
    masked = b.elementwise(body, [seen, scores])
    return b.contract(softmax(b, masked), v, ((0, 1, 2), (0, 2, 3)), (0, 1, 3))
