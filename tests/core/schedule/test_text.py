"""Schedules as people read them, and the costs that they state."""

from collections.abc import Callable

import pytest

from support.gradients import Make, graph_of
from support.graphs import only, planned
from tessera.core.base.dtypes import DType, bf16, f32, i64
from tessera.core.base.source import Span
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Origin, Value
from tessera.core.graph.index_maps import window
from tessera.core.schedule.text import bytes_moved, operations, plan_lines, plan_text
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule.plan_graph import plan_graph


def layer(b: GraphBuilder, x: Value, w: Value, bias: Value) -> tuple[Value, Value]:
    """A linear layer, its softmax, and a reshaped copy of that."""
    with b.within(Origin(composite=("linear",)), Span("cell", 2, 9, 2, 12)):
        product = b.binary("add", b.contract(x, w, ((0, 1), (1, 2)), (0, 2)), bias)
    with b.within(Origin(composite=("block", "softmax")), Span("cell", 3, 9, 3, 12)):
        shifted = b.binary("sub", product, b.reshape(b.reduce(product, (1,), "max"), (1024, 1)))
        e = b.unary("exp", shifted)
        probabilities = b.binary("div", e, b.reshape(b.reduce(e, (1,)), (1024, 1)))
    return probabilities, b.reshape(probabilities, (1024 * 4096,))


def embedding(b: GraphBuilder, table: Value, index: Value) -> Value:
    rows = b.gather(table, index)
    return b.scatter_add(index, b.view(rows, window((8, 4), (0, 1), (1, 1), (8, 2))), 9)


PLANS: dict[str, tuple[Make, *tuple[tuple[DType, tuple[int, ...]], ...]]] = {
    "layer": (layer, (f32, (1024, 2048)), (f32, (2048, 4096)), (f32, (4096,))),
    "embedding": (embedding, (f32, (9, 4)), (i64, (8,))),
    "number": (lambda b, x: b.unary("exp", x), (f32, ())),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans(name: str, golden: Callable[[str, str], None]):
    make, *inputs = PLANS[name]
    golden(f"{name}.schedule", plan_text(plan_graph(simplify(graph_of(make, *inputs)))))


def test_bytes_of_each_array_are_counted_once():
    group = only(planned(lambda b, x, y: b.binary("mul", b.binary("add", x, y), x), (f32, (3, 4)), (f32, (4,))))
    assert bytes_moved(group) == 4 * (12 + 4 + 12)


def test_operations_of_each_primitive():
    def body(b: GraphBuilder, x: Value) -> Value:
        return b.elementwise(apply("fma", Argument(0, f32), Argument(0, f32), Argument(0, f32)), [b.cast(x, f32)])

    assert operations(only(planned(body, (bf16, (3, 4))))) == 12
    assert operations(only(planned(lambda b, x: b.reduce(x, (1,)), (f32, (3, 4))))) == 12
    product = planned(lambda b, x, y: b.contract(x, y, ((0, 1, 2), (2, 3)), (0, 1, 3)), (f32, (2, 3, 4)), (f32, (4, 5)))
    assert operations(only(product)) == 2 * 2 * 3 * 4 * 5
    assert operations(only(planned(lambda b, x, i: b.gather(x, i), (f32, (3,)), (i64, (4,))))) == 0


def test_lines_know_what_they_are_about():
    make, *inputs = PLANS["layer"]
    plan = plan_graph(simplify(graph_of(make, *inputs)))
    lines = list(plan_lines(plan))
    assert "\n".join(line.text for line in lines) + "\n" == plan_text(plan)
    for group in plan.groups:
        assert [line.node for line in lines if line.group is group and line.node] == list(group.members)
    named = list(plan_lines(plan, {plan.graph.inputs[0]: "%weights"}))
    assert "%weights: f32[1024, 2048]" in named[2].text
