"""`@jit` on functions of operators, and how they are told from functions that launch kernels."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportPossiblyUnboundVariable=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from api.test_stream import TEXT, arrays
from support.operators import TARGETS, Array, close, drawn
from tessera import autodiff, graph, jit, op
from tessera.api.autodiff import Differentiable
from tessera.api.jitted import Jitted
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.graphs.ready import RECENT_CAPTURES


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    return tessera.compile_source(TEXT)


def as_jitted(function: object) -> Jitted[..., object]:
    assert isinstance(function, Jitted)
    return function


@pytest.mark.parametrize("target", TARGETS)
def test_a_function_of_operators_is_one_graph(target: str):
    RECENT_CAPTURES.clear()  # as by the same function for another target
    calls: list[int] = []

    @jit
    def smooth(x: Array, w: Array) -> Array:
        calls.append(1)
        return op.softmax(x @ w)

    x, w = drawn((5, 7), np.float64, 1), drawn((7, 3), np.float64, 2)
    with overridden(target=target):
        for _ in range(3):
            got = smooth(x, w)
    weights = np.exp(x @ w)
    close(got, weights / weights.sum(-1, keepdims=True), 1e-12)
    assert calls == [1]
    assert as_jitted(smooth).on_host is False
    assert 'composite = "smooth/softmax"' in as_jitted(smooth).inspect_ir("graph")


def test_arithmetic_alone_is_a_graph_too():
    twice = as_jitted(jit(lambda x: 2 * x + 1))
    x = drawn((9,), np.float32)
    np.testing.assert_array_equal(twice(x), 2 * x + 1)
    assert twice.on_host is False


def test_a_function_that_names_a_kernel_runs_once_a_call(kernels: ModuleType):
    calls: list[int] = []

    @jit
    def step(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        calls.append(1)
        kernels.shift(x, y)
        return y

    x, y = arrays()
    assert step(x, y) is y
    assert calls == [1]
    assert as_jitted(step).on_host is True
    np.testing.assert_array_equal(y, x + 1)


def test_a_kernel_that_no_name_shows_makes_it_a_host_function(kernels: ModuleType):
    hidden = {"shift": kernels.shift}

    @jit
    def step(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        hidden["shift"](x, y)
        return y

    x, y = arrays()
    assert step(x, y) is y
    np.testing.assert_array_equal(y, x + 1)
    assert as_jitted(step).on_host is True


def test_nothing_is_launched_while_it_is_tried(kernels: ModuleType):
    x, y = arrays()
    counted = {"axpy": kernels.axpy}

    @jit
    def step(z: NDArray[Any]) -> NDArray[Any]:
        counted["axpy"](1.0, x, y)
        return z

    z = np.zeros(3, np.float32)
    assert step(z) is z
    np.testing.assert_array_equal(y, x + 1)  # once


def test_operators_and_kernels_together(kernels: ModuleType):
    hidden = {"shift": kernels.shift}

    @jit
    def step(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        hidden["shift"](op.tanh(x), y)
        return op.square(y)

    x, y = arrays()
    got = step(x, y)
    np.testing.assert_array_equal(got, y * y)
    assert as_jitted(step).on_host is True


def test_python_on_arrays_runs_as_it_is():
    @jit
    def total(x: NDArray[Any]) -> float:
        return float(np.sum(x)) if x[0] > 0 else 0.0

    assert total(np.ones(4)) == 4.0
    assert as_jitted(total).on_host is True


def test_an_argument_that_no_graph_takes():
    @jit
    def largest(x: NDArray[Any], names: set[str]) -> int:
        return len(names) + x.size

    assert largest(np.ones(4), {"a"}) == 5


def test_calls_without_arrays_decide_nothing():
    @jit
    def double(x: Array) -> Array:
        return x * 2  # type: ignore[operator]

    assert double(4) == 8
    assert as_jitted(double).on_host is None
    np.testing.assert_array_equal(double(np.arange(3)), [0, 2, 4])
    assert as_jitted(double).on_host is False


def test_mistakes_of_operators_show_the_users_line():
    @jit
    def bad(x: Array) -> Array:
        return op.matmul(op.exp(x), x)

    with pytest.raises(OperandMismatch, match="have no inner extent in common") as raised:
        bad(drawn((3, 4), np.float32))
    assert "return op.matmul(op.exp(x), x)" in str(raised.value)


def test_a_branch_on_what_operators_gave_is_refused():
    @jit
    def bad(x: Array) -> Array:
        y = op.exp(x)
        return y if y.sum() > 0 else x

    with pytest.raises(CannotTrace, match="a branch on values cannot be captured") as raised:
        bad(drawn((3,), np.float32))
    assert "op.where" in str(raised.value)


@pytest.mark.parametrize("outer_first", [True, False])
def test_jit_and_autodiff_in_both_orders(outer_first: bool):
    def loss(w: Array) -> Array:
        return op.mse(w, w * 0)

    made = jit(autodiff(loss)) if outer_first else autodiff(jit(loss))
    assert isinstance(made, Differentiable)
    w = drawn((6,), np.float64)
    close(np.asarray(made(w)), (w**2).mean(), 1e-12)
    close(made.grad(w), 2 * w / 6, 1e-12)


def test_both_decorators_on_one_line():
    @jit @ autodiff
    def loss(w: Array) -> Array:
        return (w * w).sum()

    @autodiff @ jit
    def other(w: Array) -> Array:
        return (w * w).sum()

    w = drawn((6,), np.float64)
    for made in (loss, other):
        assert isinstance(made, Differentiable)
        close(made.grad(w), 2 * w, 1e-12)


def test_a_jit_function_inside_a_module():
    @jit
    def inner(x: Array) -> Array:
        return op.exp(x)

    @graph.module("outer")
    def outer(x: Array) -> Array:
        return inner(x) + 1

    x = drawn((4,), np.float64)
    close(outer(x), np.exp(x) + 1, 1e-12)
    assert isinstance(outer, GraphFunction)
    assert 'composite = "outer/inner/exp"' in outer.inspect_ir("graph")


def test_a_function_that_launches_kernels_has_no_graph():
    module = tessera.compile_source(TEXT)

    @jit
    def launches(x: Array, y: Array) -> None:
        module.shift[1](x, y)

    assert isinstance(launches, Jitted)
    x = np.ones(4, np.float32)
    with pytest.raises(CannotTrace, match="launches launches kernels, and is no graph"):
        launches.executable_for(x, x.copy())
    assert launches.on_host


@pytest.mark.parametrize("after", ["no operator", "an operator"])
def test_a_first_call_that_fails_decides_nothing(after: str):
    calls: list[int] = []
    names: dict[str, Any] = {"op": op, "calls": calls}
    first = "x = op.exp(x)" if after == "an operator" else "x"
    exec(f"def f(x):\n    calls.append(1)\n    {first}\n    return op.tanh(x) * scale\n", names)
    function = as_jitted(jit(names["f"]))
    x = drawn((5,), np.float64)
    for number in (1, 2):
        with pytest.raises(NameError, match="scale"):
            function(x)
        assert len(calls) == number  # once a call
        assert function.on_host is None
    names["scale"] = 2.0
    close(np.asarray(function(x)), np.tanh(np.exp(x) if after == "an operator" else x) * 2.0, 1e-12)
    assert function.on_host is False
    function(x)
    assert len(calls) == 3


def test_a_function_of_the_host_that_fails_at_first_may_be_one_of_operators():
    names: dict[str, Any] = {"op": op, "np": np, "convert": np.asarray}
    exec("def f(x):\n    return op.exp(convert(x)) * missing\n", names)
    function = as_jitted(jit(names["f"]))
    with pytest.raises(NameError, match="missing"):
        function(np.ones(3))
    assert function.on_host is None
    names |= {"convert": lambda x: x, "missing": 2.0}
    close(np.asarray(function(np.ones(3))), np.full(3, 2 * np.e), 1e-12)
    assert function.on_host is False
