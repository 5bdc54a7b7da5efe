"""Dataflow of captured functions: nodes by operator and shape, kernels as regions, arrays as edges."""

import numpy as np
import pytest

from support.operator_graphs import CASES, QKV, ROWS, attention, classify, line_of, module
from tessera import op, viz
from tessera.core.errors.catalog import UnknownLevel
from tessera.graphs.tracer import Tracer
from tessera.viz.graph.model import GraphStep, Node
from tessera.viz.graph.operator_graphs import operator_model, stages_of
from tessera.viz.operators.captured import captured
from tests.viz.test_everything import check


def nodes(step: GraphStep) -> dict[str, Node]:
    return {node.id: node for node in step.graph.nodes}


def test_attention_is_one_region_with_its_operators():
    model = viz.dataflow(attention, *QKV).data
    assert [step.name for step in model.steps] == ["capture", "graph-simplify", "schedule-fuse"]
    last = model.steps[-1].graph
    (kernel,) = last.regions
    assert kernel.label == "kernel 0 matmul_softmax"
    assert [badge.text for badge in kernel.badges] == ["cascade", "545 kFLOP, 32.8 kB"]
    inside = [node for node in last.nodes if node.region == kernel.id]
    assert [node.label for node in inside] == ["S = matmul", "max", "-", "exp", "sum", "A = ÷", "result = matmul"]
    assert [node.note for node in inside][:2] == ["f32 64×64", "f32 64"]
    assert [badge.text for badge in inside[1].badges] == ["softmax"]
    assert dict(inside[0].facts)["equation"] == "%S[i, j] = sum_k %Q[i, k] * %K[j, k]"
    assert {line for node in inside for line in node.keys.lines} == {
        line_of("S = op.matmul"), line_of("A = op.softmax"), line_of("return op.matmul(A, V)"),
    }  # fmt: skip
    labels = {(edge.source, edge.target): edge.label for edge in last.edges}
    assert labels["kernel^0.0", inside[0].id] == "f32 64×32, 8.19 kB"
    assert labels[inside[0].id, inside[1].id] == "f32 64×64, in registers"


def test_steps_before_have_operators_as_regions():
    first = viz.dataflow(attention, *QKV, stage="capture").data
    assert first.first == 0
    regions = {region.label: region for region in first.steps[0].graph.regions}
    assert set(regions) == {"softmax"}
    assert regions["softmax"].keys.lines == (line_of("A = op.softmax"),)
    kinds = {change.kind for change in first.steps[1].changes}
    assert kinds == {"added", "removed", "changed"}
    assert {change.kind for change in first.steps[2].changes} == {"moved"}


@pytest.mark.parametrize("name", CASES)
def test_every_kernel_is_a_region_and_every_array_between_two_is_an_edge(name: str):
    function, arguments = CASES[name]
    found = captured(function, arguments, "dataflow")
    step = operator_model(found).steps[-1]
    place = {node.id: node.region for node in step.graph.nodes}
    assert len(step.graph.regions) == len(found.plan.groups)
    for group, region in zip(found.plan.groups, step.graph.regions, strict=True):
        assert sum(one == region.id for one in place.values()) == len(group.members)
    between = {(place[edge.source], place[edge.target]) for edge in step.graph.edges} - {
        (one, one) for one in place.values()
    }
    pairs = {
        (f"kernel.{a.ident + 1}", f"kernel.{b.ident + 1}")
        for a in found.plan.groups for b in found.plan.groups if set(a.outputs) & set(b.inputs)
    }  # fmt: skip
    assert {pair for pair in between if all(pair)} == pairs
    check(viz.dataflow(function, *arguments))


def test_the_same_memory_in_another_shape_is_no_kernel():
    @module("flat")
    def flat(x: Tracer) -> object:
        return op.exp(x).reshape(-1)

    step = viz.dataflow(flat, np.ones((4, 6), np.float32)).data.steps[-1]
    outside = [node for node in step.graph.nodes if not node.region]
    assert [node.note for node in outside] == ["f32 4×6", "f32 24", "f32 24"]
    assert len(step.graph.regions) == 1


def test_a_stage_that_there_is_not():
    assert stages_of(captured(classify, ROWS, "dataflow"))[-1] == "schedule-fuse"
    with pytest.raises(UnknownLevel, match="classify has no stage 'tile-simplify'") as caught:
        viz.dataflow(classify, *ROWS, stage="tile-simplify")
    assert caught.value.hint == "choose one of capture, graph-simplify, schedule-fuse"


def test_labels_of_nodes():
    @module("several")
    def several(x: Tracer, i: Tracer) -> object:
        y = op.gather(x, i) * 2.0 + op.arange(3)
        return y.astype("f64").max(0)

    model = viz.dataflow(several, np.ones((5, 3), np.float32), np.arange(4)).data
    labels = {node.label for node in model.steps[0].graph.nodes}
    assert {"gather", "×", "result = max", "f64", "iota"} <= labels
