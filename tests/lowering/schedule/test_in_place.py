"""Results in the memory of operands: only of those that are read once more, at the same elements."""

from collections.abc import Callable

import numpy as np
import pytest

from support.gradients import graph_of
from support.graphs import assert_same_bits, normals, run
from support.targets import RUNNABLE
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import Plan
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule import in_place as places_of
from tessera.lowering.schedule.in_place import donated_carries, in_place
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.runtime.interpret.graph import evaluate

ROWS, SIDE = 8, 300
X, Y = (f32, (ROWS, SIDE)), (f32, (SIDE, SIDE))


@pytest.fixture(autouse=True)
def worth(monkeypatch: pytest.MonkeyPatch):
    """Let arrays of 4 KiB be worth it."""
    monkeypatch.setattr(places_of, "WORTH", 4096)


def product(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.contract(x, y, ((0, 1), (1, 2)), (0, 2))


def softmax_between(b: GraphBuilder, x: Value, y: Value) -> Value:
    """A kernel of rows between two products: its result lies where its operand lay."""
    made = b.unary("exp", product(b, x, y))
    return product(b, b.binary("div", made, b.reshape(b.reduce(made, (1,)), (ROWS, 1))), y)


def read_later(b: GraphBuilder, x: Value, y: Value) -> tuple[Value, ...]:
    made = product(b, x, y)
    return product(b, b.binary("div", made, b.reshape(b.reduce(made, (1,)), (ROWS, 1))), y), product(b, made, y)


def returned(b: GraphBuilder, x: Value, y: Value) -> tuple[Value, ...]:
    made = product(b, x, y)
    return product(b, b.binary("div", made, b.reshape(b.reduce(made, (1,)), (ROWS, 1))), y), made


def factor(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.unary("exp", product(b, product(b, x, y), y))


def places(plan: Plan) -> dict[Value, Value]:
    return {value: operand for group in plan.groups for value, operand in group.in_place.items()}


def test_rows_lie_where_they_were_read():
    graph = graph_of(softmax_between, X, Y)
    plan = in_place(plan_graph(simplify(graph)), {})
    (pair,) = places(plan).items()
    assert all(value.type.shape == (ROWS, SIDE) for value in pair)
    arrays = [array * np.float32(0.05) for array in normals([value.type for value in graph.inputs])]
    (wanted,) = evaluate(graph, arrays)
    for target in RUNNABLE:
        (found,) = run(graph, arrays, target)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [read_later, returned, factor])
def test_what_is_needed_or_read_elsewhere_stays(make: Callable[[GraphBuilder, Value, Value], Value]):
    assert not places(in_place(plan_graph(simplify(graph_of(make, X, Y))), {}))


def test_inputs_are_the_callers_unless_they_are_given_away():
    graph = graph_of(lambda b, x, y: b.binary("add", x, product(b, x, y)), X, Y)
    plan = plan_graph(graph_of(lambda b, c, x, y: b.binary("add", c, product(b, x, y)), X, X, Y))
    carried, made = plan.graph.inputs[0], plan.graph.outputs[0]
    assert not places(in_place(plan, {}))
    assert places(in_place(plan, {carried: made})) == {made: carried}
    plan = plan_graph(graph)  # a factor of the product is read at other elements
    assert not places(in_place(plan, {plan.graph.inputs[0]: plan.graph.outputs[0]}))


def test_small_arrays_are_not_worth_it():
    small = (f32, (4, 4))
    plan = plan_graph(graph_of(lambda b, c, x: b.binary("add", c, product(b, x, x)), small, small))
    assert not places(in_place(plan, {plan.graph.inputs[0]: plan.graph.outputs[0]}))


def test_carries_that_a_kernel_made_for_one_loop_are_given_away():
    def make(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        return b.unary("exp", x), b.unary("log", x)

    plan = plan_graph(graph_of(make, X))
    first, second = plan.graph.outputs
    assert donated_carries(plan, (first, second), (first, second)) == []  # they are returned


@pytest.mark.parametrize("target", RUNNABLE)
def test_the_same_bits_in_place(target: str, monkeypatch: pytest.MonkeyPatch):
    graph = graph_of(softmax_between, X, Y)
    arrays = [array * np.float32(0.05) for array in normals([value.type for value in graph.inputs])]
    (found,) = run(graph, arrays, target)
    monkeypatch.setattr(places_of, "WORTH", 2**60)
    (wanted,) = run(graph, arrays, target)
    assert_same_bits(found, np.asarray(wanted))
