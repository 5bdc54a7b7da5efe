"""Planned graphs on a target: kernels, memory, recordings."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import numpy as np
import pytest

from support.operators import TARGETS, Array, drawn
from tessera import graph, op
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.permissions import read_permissions
from tessera.core.settings import overridden
from tessera.graphs.executable import Executable
from tessera.graphs.function import GraphFunction
from tessera.kernels.options import Options
from tessera.session.session import resolve_target


def doubled(shape: tuple[int, ...]) -> Graph:
    builder = GraphBuilder()
    x = Value(Tensor(f32, shape), "x")
    return builder.finish("doubled", [x], [builder.binary("add", x, x)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4, 5)])
def test_outputs_are_new_arrays(target: str, shape: tuple[int, ...]):
    run = Executable(doubled(shape))
    x = drawn(shape, np.float32)
    with overridden(target=target):
        (first,), (second,) = run(x), run(x)
    assert isinstance(first, np.ndarray)
    assert isinstance(second, np.ndarray)
    np.testing.assert_array_equal(first, 2 * x)
    np.testing.assert_array_equal(first, second)
    assert not np.shares_memory(first, second)
    assert first.shape == shape


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_with_gaps_are_packed_first(target: str):
    x = drawn((8, 6), np.float32)
    with overridden(target=target):
        (got,) = Executable(doubled((3, 4)))(x[1:7:2, ::-1][:, :4])
    np.testing.assert_array_equal(got, 2 * x[1:7:2, ::-1][:, :4])  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["interpret", "cpu"])  # on a GPU, NumPy's arrays are refused
def test_operators_are_part_of_a_captured_graph(target: str):
    x = drawn((5,), np.float32)
    with overridden(target=target):
        with graph.capture() as captured:
            y = op.square(op.relu(x))
        for scale in (1, 2):
            x *= scale
            graph.launch(captured)
            np.testing.assert_array_equal(y, np.square(np.maximum(x, 0)))  # type: ignore[arg-type]
    assert len(captured.kernels) == 2


def test_approximations_need_permission():
    builder = GraphBuilder()
    x = Value(Tensor(f32, (64,)), "x")
    built = builder.finish("exp", [x], [builder.unary("exp", x)])
    for algebra, fast in (("real", None), ("approximate", True)):
        run = Executable(built, algebra=read_permissions(algebra))
        (kernel,) = run.kernels(resolve_target("interpret"))
        assert kernel.lowered.program.options.get("fast") is fast


@pytest.mark.parametrize("target", TARGETS)
def test_rewritten_graphs_run(target: str):
    """A chain that is multiplied from the narrow end, and three products of one operand as one."""
    x = drawn((24, 16), np.float32)
    weights = [drawn((16, 8), np.float32, seed) for seed in range(3)]

    def attend(x: Array, *weights: Array) -> Array:
        q, k, v = (x @ w for w in weights)
        return op.matmul(op.matmul(q, op.transpose(k, (1, 0))), v)

    function = GraphFunction[..., Array](attend, "", Options(target=target), read_permissions({"reassociate"}))
    q, k, v = (x @ w for w in weights)
    np.testing.assert_allclose(function(x, *weights), q @ (k.T @ v), rtol=1e-4, atol=1e-4)
    assert function.executable.rewritten.rules


def test_the_plan_is_the_same_for_every_target():
    run = Executable(doubled((4,)))
    plan = run.plan
    for target in TARGETS:
        with overridden(target=target):
            run(drawn((4,), np.float32))
    assert run.plan is plan
    assert run.traced is not run.graph


def test_states_are_those_of_the_passes_that_were_needed():
    build = GraphBuilder()
    short, long = Value(Tensor(f32, (4, 5)), "x"), Value(Tensor(f32, (100_000,)), "x")
    small = Executable(build.finish("g", [short], [build.reduce(short, (1,))]))
    assert [name for name, _ in small.states] == ["capture", "graph-simplify"]
    assert small.states[0][1] is small.traced
    assert small.states[-1][1] is small.graph
    build = GraphBuilder()
    split = Executable(build.finish("g", [long], [build.reduce(long, (0,))]))
    assert [name for name, _ in split.states] == ["capture", "graph-simplify", "graph-split-reductions"]
    assert len(split.graph.nodes) > len(split.states[1][1].nodes)


def test_kernels_are_compiled_once_for_each_way_that_arrays_lie():
    run, target = Executable(doubled((4, 8))), resolve_target("cuda:sm_90a")
    first = run.kernels(target)
    assert run.kernels(target) == first
    other = run.kernels(target, [False])
    assert other[0].compiled is not first[0].compiled
    assert run.kernels(resolve_target("cuda:sm_80"))[0].compiled is not first[0].compiled
