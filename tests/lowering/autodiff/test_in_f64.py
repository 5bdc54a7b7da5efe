"""The same graph without rounding."""

import numpy as np

from support.gradients import graph_of, matmul
from tessera.core.base.dtypes import bf16, f32, f64, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.in_f64 import in_f64
from tessera.runtime.interpret.graph import evaluate


def test_roundings_go_and_integers_stay():
    def make(b: GraphBuilder, x: Value, w: Value, i: Value) -> Value:
        y = b.cast(b.scaled(matmul(b, x, w), 0.1), bf16)
        return b.unary("exp", b.cast(b.gather(y, i), f32))

    graph = graph_of(make, (bf16, (3, 4)), (bf16, (4, 5)), (i64, (2,)))
    exact = in_f64(graph)
    verify(exact)
    values = [*exact.inputs, *(node.result for node in exact.nodes)]
    assert {value.type.dtype for value in values} == {f64, i64}
    assert [node.ident for node in exact.nodes] == [node.ident for node in graph.nodes]
    rng = np.random.default_rng(0)
    x, w, i = rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), np.array([2, 0])
    np.testing.assert_allclose(evaluate(exact, [x, w, i])[0], np.exp(0.1 * (x @ w))[i], rtol=1e-14)
