"""Lifetimes of arrays, compared with the plan run by hand."""

import numpy as np
import pytest

from support.operator_graphs import CASES, ROWS, classify, module
from tessera import op
from tessera.core.base.dtypes import bf16
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer
from tessera.kernels.options import Options
from tessera.viz.operators.captured import CapturedGraph, captured
from tessera.viz.plans.memory_model import ARGUMENT, INTERMEDIATE, RESULT, memory_model

HOPPER = Options(target="cuda:sm_90a")


def alive_by_hand(found: CapturedGraph) -> list[int]:
    """Return the bytes at each kernel, by walking the plan and dropping what nothing reads any more."""
    plan, totals = found.plan, list[int]()
    alive = set(plan.graph.inputs)
    for number, group in enumerate(plan.groups):
        alive |= set(group.outputs)
        totals.append(sum(value.type.bytes for value in alive))
        later = {value for other in plan.groups[number + 1 :] for value in other.inputs}
        alive &= later | set(plan.graph.inputs) | set(plan.graph.outputs) | set(plan.aliases.values())
    return totals


@pytest.mark.parametrize("name", CASES)
def test_bytes_alive_are_those_of_a_walk(name: str):
    function, arguments = CASES[name]
    found = captured(function, arguments, "memory")
    model = memory_model(found)
    assert [moment.total for moment in model.moments] == alive_by_hand(found)
    assert model.peak_bytes == model.moments[model.peak].total
    assert model.peak_bytes <= model.unfused


def test_lifetimes():
    model = memory_model(captured(classify, ROWS, "memory"))
    found = {each.name: (each.kind, each.made, each.last, each.reads) for each in model.arrays}
    assert found == {
        "x": (ARGUMENT, -1, 2, (0,)), "g": (ARGUMENT, -1, 2, (0,)), "w": (ARGUMENT, -1, 2, (0,)),
        "logits": (INTERMEDIATE, 0, 1, (1,)), "p": (RESULT, 1, 2, (2,)), "result": (RESULT, 2, 2, ()),
    }  # fmt: skip
    assert model.peak == 1
    assert {each.name: each.offset for each in model.arrays if each.offset is not None} == {"logits": 0}
    assert model.arena == 64 * 48 * 4
    assert [each.bytes for each in model.arrays] == [64 * 32 * 4, 32 * 4, 32 * 48 * 4, *[64 * 48 * 4] * 2, 48 * 4]


def test_launches_on_a_gpu_take_memory_by_themselves():
    def scaled(x: Tracer, w: Tracer) -> object:
        return op.relu(x @ w)

    arrays = (np.ones((2048, 333), bf16.numpy), np.ones((333, 2048), bf16.numpy))
    model = memory_model(captured(GraphFunction(scaled, options=HOPPER), arrays, "memory"))
    (moment,) = model.moments
    assert moment.launch == model.launch_bytes == 2048 * 768
    assert moment.total == moment.arguments + moment.results + moment.launch == model.peak_bytes


def test_launches_in_the_body_of_a_loop_count_for_the_loop():
    def steps(x: Tracer, w: Tracer) -> object:
        return op.scan(lambda carry, _: (carry @ w, None), x, None, length=3)[0]

    arrays = (np.ones((2048, 333), bf16.numpy), np.ones((333, 333), bf16.numpy))
    (moment,) = memory_model(captured(GraphFunction(steps, options=HOPPER), arrays, "memory")).moments
    assert moment.launch == (2048 + 333) * 768


def test_results_in_another_shape_are_one_array():
    @module("flat")
    def flat(x: Tracer) -> object:
        return op.exp(x).reshape(-1)

    model = memory_model(captured(flat, (np.ones((4, 6), np.float32),), "memory"))
    assert [(each.kind, each.bytes) for each in model.arrays] == [(ARGUMENT, 96), (RESULT, 96)]


def test_nothing_to_do_has_no_kernels():
    @module("same")
    def same(x: Tracer) -> object:
        return op.reshape(x, (6, 4))

    model = memory_model(captured(same, (np.ones((4, 6), np.float32),), "memory"))
    assert model.peak == 0
    assert model.peak_bytes >= 96
