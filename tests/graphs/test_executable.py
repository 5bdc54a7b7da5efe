"""Planned graphs on a target: kernels, memory, recordings."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import tessera
from support.operators import TARGETS, Array, close, drawn
from tessera import graph, op
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.permissions import read_permissions
from tessera.core.settings import overridden
from tessera.graphs import executable
from tessera.graphs.executable import Executable, executable_of
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


def layer(
    number: float, shape: tuple[int, ...] = (4,), dtype: type = np.float32, target: str | None = None,
    algebra: str | frozenset[str] = "bits",
) -> Executable:  # fmt: skip
    """The executable of a function that is made anew, with a number that it closes over."""
    made: GraphFunction[..., object] = graph.module("layer", target=target, algebra=algebra)(
        lambda x: op.exp(x) * number
    )
    return made.executable_for(np.ones(shape, dtype))


def test_equal_functions_have_one_executable():
    assert layer(2.0) is layer(2.0)
    x = drawn((4,), np.float32)
    with overridden(target="cpu"):
        (doubled_,), (tripled,) = layer(2.0)(x), layer(3.0)(x)
    close(np.asarray(doubled_), 2 * np.exp(x), 1e-6)
    close(np.asarray(tripled), 3 * np.exp(x), 1e-6)


OTHER_LAYERS: dict[str, Callable[[], Executable]] = {
    "constant": lambda: layer(3.0),
    "sign": lambda: layer(-2.0),
    "type of a constant": lambda: layer(True),
    "shape": lambda: layer(2.0, (5,)),
    "axes": lambda: layer(2.0, (4, 1)),
    "dtype": lambda: layer(2.0, dtype=np.float64),
    "algebra": lambda: layer(2.0, algebra="real"),
    "a class of rewrites": lambda: layer(2.0, algebra=frozenset({"widen"})),
    "target": lambda: layer(2.0, target="cpu"),
    "options": lambda: executable_of(layer(2.0).traced, Options(sanitize=True)),
}


@pytest.mark.parametrize("name", OTHER_LAYERS)
def test_other_functions_have_others(name: str):
    made, known = OTHER_LAYERS[name](), layer(2.0)
    assert made is not known
    assert OTHER_LAYERS[name]() is made


def test_a_closure_that_changes_has_another():
    kept = {"number": 2.0}

    def scaled(x: Array) -> Array:
        return x * kept["number"]

    x = drawn((3,), np.float32)
    first = graph.module("scaled")(scaled)
    np.testing.assert_array_equal(first(x), 2 * x)
    kept["number"] = 5.0
    np.testing.assert_array_equal(graph.module("scaled")(scaled)(x), 5 * x)  # type: ignore[arg-type]
    np.testing.assert_array_equal(first(x), 5 * x)  # captured again
    kept["number"] = 2.0
    np.testing.assert_array_equal(first(x), 2 * x)


def test_arrays_that_are_closed_over_are_not_mixed_up():
    def weighted(w: Array) -> GraphFunction[..., object]:
        return graph.module("weighted")(lambda x: x * w)

    x, a, b = (drawn((3,), np.float32, n) for n in range(3))
    first, second = weighted(a), weighted(b)
    with overridden(target="cpu"):
        for _ in range(2):
            np.testing.assert_array_equal(np.asarray(first(x)), x * a)
            np.testing.assert_array_equal(np.asarray(second(x)), x * b)
    assert first.executable is second.executable


def test_the_same_on_every_target():
    x = drawn((4,), np.float32)
    for target in ("cpu", "interpret", "cpu"):
        with overridden(target=target):
            close(np.asarray(layer(2.0)(x)[0]), 2 * np.exp(x), 1e-6)


def test_places_in_the_text_are_those_of_each_function():
    def first(x: Array) -> Array:
        return op.exp(x)

    def second(x: Array) -> Array:
        return op.exp(x)

    made = [graph.module("layer")(each).executable_for(np.ones(3, np.float32)) for each in (first, second)]
    lines = [each.traced.nodes[0].span.line for each in made]
    assert lines == [each.__code__.co_firstlineno + 1 for each in (first, second)]


def test_gradients_that_are_asked_for_anew_have_one_executable():
    def loss(x: Array) -> Array:
        return op.sum(op.square(x))

    x = drawn((3,), np.float32)
    first, second = (tessera.grad(loss) for _ in range(2))
    assert first.executable_for(x) is second.executable_for(x)
    assert first.executable_for(x) is not tessera.value_and_grad(loss).executable_for(x)


def test_what_a_function_of_the_host_holds_is_let_go():
    def scaled(by: Array) -> GraphFunction[..., object]:
        @op.custom(shape=lambda x: x.shape)
        def host(x: Array) -> Array:
            return x * by

        return graph.module("scaled")(lambda x: 2 * host(x))

    x, by = drawn((3,), np.float32, 1), drawn((3,), np.float32, 2)
    gone = weakref.ref(by)
    made = scaled(by)
    np.testing.assert_array_equal(np.asarray(made(x)), 2 * x * by)
    del made, by
    gc.collect()
    assert gone() is None
    for n in range(2):
        by = drawn((3,), np.float32, n)
        np.testing.assert_array_equal(np.asarray(scaled(by)(x)), 2 * x * by)


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(executable, "_MOST_KEPT", 2)
    gone = [weakref.ref(layer(number)) for number in (20.0, 21.0, 22.0, 23.0)]
    gc.collect()
    assert [each() is None for each in gone] == [True, True, False, False]


def test_kernels_are_compiled_once_for_each_way_that_arrays_lie():
    run, target = layer(2.0, (4, 8)), resolve_target("cuda:sm_90a")
    first = run.kernels(target)
    assert run.kernels(target) == first
    other = run.kernels(target, [False])
    assert other[0].compiled is not first[0].compiled
    assert run.kernels(resolve_target("cuda:sm_80"))[0].compiled is not first[0].compiled
