"""Random graphs of operators (`tests/fuzz`): a fixed part of what `make fuzz WHAT=graphs` runs, and the fuzzer itself."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from fuzz.__main__ import fuzz
from fuzz.cascades import CascadeCase
from fuzz.check import Outcome
from fuzz.graph_check import check_graph, compare, compile_graph
from fuzz.graph_reduce import alike, reduced_graph
from fuzz.graph_steps import graph_case_of
from fuzz.graphs import DTYPES, VIEWS, GraphCase, Input, Step
from fuzz.subjects import SUBJECTS
from tessera.core.graph.expr import Literal, apply
from tessera.core.graph.graph import Graph
from tessera.graphs.executable import Executable

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("block", range(5))
def test_the_cpu_agrees_with_the_oracle(block: int) -> None:
    kinds = Counter[str]()
    for seed in range(14 * block, 14 * block + 14):
        case = graph_case_of(seed)
        outcome = check_graph(case, "cpu")
        kinds[outcome.kind] += 1
        assert not outcome.bad, f"python -m fuzz --what graphs --only {seed}\n{outcome.detail}\n{case.script()}"
    assert kinds == {"agrees": 14}


def test_interpreted_kernels_agree_with_the_oracle() -> None:
    for seed in range(100, 112):
        case = graph_case_of(seed)
        outcome = check_graph(case, "interpret")
        assert outcome.kind == "agrees", f"{case.script()}{outcome.detail}"


@pytest.mark.parametrize("target", ["cuda:sm_90a", "cuda:sm_100a", "cuda_tile:sm_90"])
def test_gpu_targets_compile_them(target: str) -> None:
    for seed in range(120, 126):
        case = graph_case_of(seed)
        outcome = compile_graph(case, target)
        assert not outcome.bad, f"{case.script()}{outcome.detail}"


def test_a_seed_gives_one_graph() -> None:
    cases = [graph_case_of(seed) for seed in range(250)]
    assert cases == [graph_case_of(seed) for seed in range(250)]
    text = "\n".join(case.script() for case in cases)
    wanted = (
        "None",
        "::-1",
        "flash_attention",
        "einsum",
        "op.pad",
        "exact=True",
        "keepdims",
        "concat",
        "argmax",
        "math.inf",
    )
    for part in (*wanted, *map(repr, DTYPES), *map(repr, VIEWS), ", 0", "shape=()"):
        assert part in text, part
    assert any(len(set(case.outputs)) < len(case.outputs) for case in cases)
    assert any(name.startswith("x") for case in cases for name in case.outputs)


def test_a_wrong_value_is_found_and_made_small() -> None:
    steps = Step("v0", "x0 * 2.0"), Step("v1", "op.tanh(v0)"), Step("v2", "op.sum(v1 + x1, 1)"), Step("v3", "v2 - 1.0")
    inputs = Input("x0", "f32", (33, 17), "reversed", "ordinary"), Input("x1", "f32", (17,), "plain", "ordinary")
    case = GraphCase(1, inputs, steps, ("v3",))
    assert check_graph(case, "cpu").kind == "agrees"
    with mock.patch("fuzz.graph_check.simplify", _off_by_one):
        outcome = check_graph(case, "cpu")
        assert outcome.kind == "differs"
        small = reduced_graph(case, lambda each: alike(check_graph(each, "cpu")) == alike(outcome))
    assert len(small.steps) <= 1
    assert all(size <= 3 for each in small.inputs for size in each.shape)
    assert "print(graph.module('f')(f)" in small.script()


def _off_by_one(graph: Graph) -> Graph:
    """A pass that is wrong: what its last node computes is 1 more."""
    *others, last = graph.nodes
    body = apply("add", last.expr, Literal(1.0, last.result.type.dtype))
    return replace(graph, nodes=(*others, replace(last, body=body)))


def test_values_that_rounding_decides_are_not_compared() -> None:
    inputs = (Input("x0", "f32", (64,), "plain", "ordinary"),)
    unsteady = GraphCase(2, inputs, (Step("v0", "op.log(x0 - x0 * 1.0)"),), ("v0",))
    assert check_graph(unsteady, "cpu").kind == "agrees"


def test_what_cancels_may_be_nothing() -> None:
    """One over a difference of two equal sums: what is left of it is one rounding, or none."""
    case = graph_case_of(52025)
    assert check_graph(case, "cpu").kind == "agrees"


def test_infinities_where_nothing_cancels_are_found() -> None:
    inputs = (Input("x0", "f32", (64,), "plain", "ordinary"),)
    case = GraphCase(4, inputs, (Step("v0", "1 / (x0 * x0 + 1.0)"),), ("v0",))
    _, graph = case.captured()
    (given,) = case.arguments()
    executable = Executable(graph)
    outcome = compare(graph, executable, [given], lambda x: (np.full_like(x, np.inf),), "cpu")
    assert outcome.kind == "differs"


def test_refused_graphs_are_no_failures() -> None:
    case = GraphCase(3, (Input("x0", "f32", (3, 4)),), (Step("v0", "op.matmul(x0, x0)"),), ("v0",))
    outcome = check_graph(case, "cpu")
    assert outcome.kind == "refused"
    assert outcome.detail.startswith("TSR-E")


@pytest.mark.parametrize("what", ["graphs", "meshes", "programs", "cascades"])
def test_the_command_line(what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{TESTS.parent}:{TESTS}")
    monkeypatch.setattr("fuzz.__main__.BATCH", 2)
    assert fuzz(0, "cpu", large=False, first=3, processes=1, what=what) == 0
    assert f"2 {what}" in capsys.readouterr().out


def test_subjects() -> None:
    assert list(SUBJECTS) == ["kernels", "graphs", "meshes", "programs", "cascades"]
    graphs, cascades = SUBJECTS["graphs"], SUBJECTS["cascades"]
    assert graphs.check(graph_case_of(5), "cuda:sm_90a") == Outcome("agrees")
    case = cascades.case(7, False)
    assert isinstance(case, CascadeCase)
    assert "cascade_case_of(7)" in cascades.describe(case)
    assert [each.shape for each in case.arrays(0)] == [each.shape for each in case.arrays(0)]
    np.testing.assert_array_equal(case.arrays(1)[0], case.arrays(1)[0])
