"""Explanations of plans: what was tried, why neighbours are two, and what it saves."""

import pytest

from support.gradients import Make, graph_of, softmax
from support.operator_graphs import CASES
from tessera.core.base.dtypes import DType, f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Origin, Value
from tessera.core.schedule.decisions import FusionReport
from tessera.core.schedule.text import bytes_moved, operations
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule.explain import explain_fusion, separate_cost
from tessera.lowering.schedule.plan_graph import plan_graph

Type = tuple[DType, tuple[int, ...]]


def x(*shape: int) -> Type:
    return f32, shape


def explained(make: Make, *inputs: Type) -> FusionReport:
    return explain_fusion(plan_graph(simplify(graph_of(make, *inputs))))


def linear(b: GraphBuilder, v: Value, w: Value) -> Value:
    return b.contract(v, w, ((0, 1), (1, 2)), (0, 2))


def through(b: GraphBuilder, v: Value, w: Value) -> Value:
    """The last map needs the product, which needs the first map."""
    e = b.unary("exp", v)
    return b.binary("sub", e, linear(b, e, w))


def rows_twice(b: GraphBuilder, v: Value) -> Value:
    return b.reduce(b.unary("exp", b.reduce(v, (1,))), (0,))


def gathered(b: GraphBuilder, table: Value, index: Value) -> Value:
    return b.reduce(b.gather(table, index), (1,))


REASONS: dict[str, tuple[Make, tuple[Type, ...], str]] = {
    "factors": (lambda b, v, w: linear(b, b.unary("exp", v), w), (x(3, 4), x(4, 5)), "factors"),
    "rows": (rows_twice, (x(3, 4),), "reduced-axes"),
    "gather": (gathered, (x(9, 4), (i64, (8,))), "elements"),
    "long inside": (lambda b, v, w, u: linear(b, linear(b, v, w), u), (x(4, 300), x(300, 8), x(8, 5)), "inner-limit"),
    "wide": (lambda b, v, w, u: linear(b, softmax(b, linear(b, v, w)), u), (x(4, 8), x(8, 8), x(8, 600)), "columns"),
    "loop output": (lambda b, v, w: softmax(b, linear(b, v, w)), (x(3, 4), x(4, 600)), "loop-output"),
}  # fmt: skip


@pytest.mark.parametrize("name", REASONS)
def test_why_two_kernels_are_not_one(name: str):
    make, inputs, rule = REASONS[name]
    report = explained(make, *inputs)
    assert rule in {boundary.refusal.rule for boundary in report.boundaries}
    for boundary in report.boundaries:
        made = report.plan.groups[boundary.producer].outputs
        assert set(boundary.values) <= set(made)
        assert boundary.values
        assert boundary.before.kernels == 2
        assert boundary.after.kernels == 1
        assert boundary.before.bytes - boundary.after.bytes >= 0


def test_a_kernel_between_is_named():
    report = explained(through, x(4, 4), x(4, 4))
    (boundary,) = report.boundaries
    assert (boundary.producer, boundary.consumer) == (0, 1)
    assert boundary.refusal.rule in ("factors", "view-inside", "one-axis")


@pytest.mark.parametrize("name", CASES)
def test_reports_are_those_of_the_plan(name: str):
    function, arguments = CASES[name]
    plan = function.executable_for(*arguments).plan
    report = explain_fusion(plan)
    assert report.fused.kernels == len(plan.groups)
    assert report.fused.bytes == sum(map(bytes_moved, plan.groups))
    assert report.fused.operations == sum(map(operations, plan.groups))
    assert report.separate.bytes > report.fused.bytes
    assert report.separate.operations == report.fused.operations
    # Every pair of a kernel and one that reads what it writes, and no other.
    pairs = {
        (producer.ident, consumer.ident)
        for producer in plan.groups for consumer in plan.groups if set(producer.outputs) & set(consumer.inputs)
    }  # fmt: skip
    assert {(each.producer, each.consumer) for each in report.boundaries} == pairs
    for attempt in report.attempts:
        assert (attempt.kind == "") == (attempt.refusal is not None)
        assert len(attempt.parts) == attempt.before.kernels > 1
        assert attempt.after.bytes <= attempt.before.bytes


def test_what_was_tried_comes_in_order():
    report = explained(lambda b, v, w: b.unary("exp", linear(b, v, w)), x(3, 4), x(4, 5))
    assert [(attempt.parts, attempt.kind) for attempt in report.attempts] == [(((0,), (1,)), "product")]
    assert report.attempts[0].before.bytes == 4 * (12 + 20 + 15 + 15 + 15)
    assert report.attempts[0].after.bytes == 4 * (12 + 20 + 15)


def test_one_kernel_an_operator():
    def body(b: GraphBuilder, v: Value) -> Value:
        with b.within(Origin(composite=("f", "softmax"))):
            made = softmax(b, v)
        with b.within(Origin(composite=("f",))):
            return b.unary("exp", b.transpose(made, (1, 0)))

    graph = graph_of(body, x(3, 40))
    cost = separate_cost(graph)
    # The softmax reads and writes once, the exponential too; the transposition is no memory.
    assert (cost.kernels, cost.bytes) == (2, 4 * 4 * 120)
