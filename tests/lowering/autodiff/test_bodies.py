"""Which inputs and outputs of bodies have derivatives."""

import numpy as np
import pytest

from tessera.core.base.dtypes import f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, Tensor, Value
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.bodies import active_inputs, active_outputs, reached, with_ends
from tessera.runtime.interpret.graph import evaluate


def body() -> Graph:
    """A constant w, carries a, b, n and a slice x: a' = a, b' = b + a, n' = n, and outputs w * x and n as a float."""
    builder = GraphBuilder()
    w, a, b, x = (Value(Tensor(f32, (2,)), name) for name in "wabx")
    n = Value(Tensor(i64, ()), "n")
    outputs = [
        builder.copy(a), builder.binary("add", b, a), builder.copy(n), builder.binary("mul", w, x), builder.cast(n, f32)
    ]  # fmt: skip
    return builder.finish("body", [w, a, b, n, x], outputs)


def loop() -> Node:
    values = [Value(value.type) for value in body().inputs]
    attributes = {"trips": 3, "constants": 1, "carried": 3, "reverse": False}
    return Node("loop", tuple(values), tuple(Value(value.type) for value in body().outputs), attributes, (body(),))


@pytest.mark.parametrize(
    ("active", "inputs", "outputs"),
    [([1], [1, 2], [0, 1]), ([2], [2], [1]), ([0], [0], [3]), ([4], [4], [3]), ([0, 1], [0, 1, 2], [0, 1, 3]), ([], [], [])],
)  # fmt: skip
def test_carries_have_derivatives_where_any_trip_gives_them_one(
    active: list[int], inputs: list[int], outputs: list[int]
):
    node = loop()
    assert active_inputs(node, active) == inputs
    assert active_outputs(node, inputs) == outputs


def test_branches_have_a_bool_first():
    node = Node("branch", tuple(Value(Tensor(f32, (2,))) for _ in range(6)), (), {}, (body(), body()))
    assert active_inputs(node, [1, 5]) == [0, 4]
    assert active_outputs(node, [1]) == [0, 1]


def test_integers_hand_nothing_on():
    graph = body()
    assert graph.outputs[4] not in reached(graph, [graph.inputs[0], graph.inputs[1]])
    assert graph.outputs[3] in reached(graph, [graph.inputs[4]])


def test_parts_of_graphs_stand_alone():
    """What is given is not computed, outputs are arrays of their own, and no value is shared with the whole."""
    graph = body()
    part = with_ends(graph, [graph.outputs[1], graph.inputs[4]], [graph.outputs[1], graph.outputs[1], graph.inputs[4]])
    verify(part)
    assert len(set(part.outputs)) == 3
    assert not set(part.inputs) & {*graph.inputs, *graph.outputs}
    given = [np.array([1, 2], "f"), np.array([3, 4], "f")]
    for got, want in zip(evaluate(part, given), (given[0], given[0], given[1]), strict=True):
        np.testing.assert_array_equal(got, want)
