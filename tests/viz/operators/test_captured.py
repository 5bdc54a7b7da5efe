"""What views of operator graphs show: captured functions, and what is none."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

import numpy as np
import pytest

from support.operator_graphs import LOSS, QKV, attention, gradient, loss, module
from tessera import jit, op
from tessera.core.errors.catalog import CannotTrace, NotCalledYet, NothingToShow
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer
from tessera.viz.operators.captured import captured, is_capturable
from tests.viz.diffs import kernels


def test_functions_of_every_kind():
    assert captured(attention, QKV, "explore").name == "attention"
    assert captured(gradient, LOSS, "explore").name == "grad_loss"
    assert captured(loss, LOSS, "explore").name == "loss"
    assert captured(op.softmax, QKV[:1], "explore").name == "softmax"
    for each in (jit(op.exp), jit(capture_graph=True)(op.exp)):
        assert is_capturable(each)
        assert len(captured(each, QKV[:1], "explore").plan.groups) == 1


def test_stages_are_those_of_the_graph_and_the_schedule():
    found = captured(attention, QKV, "explore")
    assert [(stage.level, stage.name) for stage in found.stages] == [
        ("graph", "capture"), ("graph", "graph-simplify"), ("schedule", "schedule-fuse"),
    ]  # fmt: skip
    assert [len(stage.records) for stage in found.stages] == [13, 8, 9]
    assert len(captured(lambda x: x.sum(), (np.ones(100_000, np.float32),), "film").stages) == 4


def test_without_arguments_the_last_call_is_shown():
    @module("double")
    def double(x: Tracer) -> object:
        return x + x

    with pytest.raises(NotCalledYet, match="double was not called yet"):
        captured(double, (), "explore")
    double(np.ones(7, np.float32))
    assert captured(double, (), "explore").executable.graph.inputs[0].type.shape == (7,)


def test_the_interpreter_shows_code_of_the_processor():
    found = captured(attention, QKV, "explore")
    assert found.target("interpret").name == found.target("cpu").name == "cpu"
    assert str(found.target("cuda:sm_90a")) == "cuda:sm_90a"
    kernel = found.kernel(found.plan.groups[0], found.target("cuda:sm_90a")).compiled
    assert kernel is not None
    assert "ptx" in kernel.levels


def test_what_is_no_function_of_operators():
    assert not is_capturable(kernels.scale)
    with pytest.raises(NothingToShow, match="explore\\(\\) shows a function of operators, and an object of type int"):
        captured(3, (), "explore")
    with pytest.raises(NothingToShow, match="the function loss is none"):
        captured(loss, (), "explore")

    @jit
    def launches(x: Tracer, y: Tracer) -> object:
        kernels.scale(x, y)

    x = np.ones(4, np.float32)
    with pytest.raises(CannotTrace, match="launches launches kernels, and is no graph"):
        captured(launches, (x, x.copy()), "explore")


def test_rewriting_is_a_pass_like_others():
    def chain(a: Tracer, b: Tracer, x: Tracer) -> object:
        return (a @ b) @ x

    function = GraphFunction[..., object](chain, algebra=frozenset({"reassociate"}))
    square, thin = np.ones((128, 128), np.float32), np.ones((128, 2), np.float32)
    found = captured(function, (square, square, thin), "film")
    assert [stage.name for stage in found.stages] == ["capture", "graph-simplify", "graph-rewrite", "schedule-fuse"]
    # What the rule made has the places of what it was made of.
    made = [node for node in found.executable.graph.nodes if node.origin.rule]
    traced = {node.ident for node in found.executable.traced.nodes}
    assert made
    assert all(set(found.ancestry.numbers(node)) <= traced for node in made)
    assert found.executable.states[-1][1] is found.executable.graph
