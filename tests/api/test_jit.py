"""`@jit` and `@jit(capture_graph=True)` on host functions, on the CPU and, where there is one, on a GPU."""

from types import ModuleType

import numpy as np
import pytest

import tessera
from api.test_graph import PLACES, AnyLibrarysArray, places
from api.test_stream import TEXT, arrays
from tessera import graph, jit, stream
from tessera.api.jit import Jit
from tessera.core.errors.catalog import BadCapture, BadPermission
from tessera.graphs.function import GraphFunction


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    return tessera.compile_source(TEXT)


def test_jit_alone_runs_the_function():
    @jit
    def twice(n: int) -> int:
        return 2 * n

    @jit()
    def thrice(n: int) -> int:
        return 3 * n

    assert (twice(4), thrice(4)) == (8, 12)


@pytest.mark.parametrize("place", PLACES)
def test_the_function_runs_once_for_the_same_arguments(kernels: ModuleType, place: str):
    make, back = places(place)
    x, y = map(make, arrays())
    calls: list[float] = []

    @jit(capture_graph=True)
    def step(x: AnyLibrarysArray, y: AnyLibrarysArray, a: float):
        """Two launches."""
        calls.append(a)
        kernels.axpy(a, x, y)
        kernels.axpy(1.0, x, y)
        return y

    assert step.__doc__ == "Two launches."
    for _ in range(4):
        assert step(x, y, 2.0) is y
    stream.synchronize()
    np.testing.assert_array_equal(back(y), 12 * back(x) + 1)
    assert calls == [2.0]
    step(x, y, a=3.0)
    step(x, y, -0.0)
    step(x, y, 0.0)
    stream.synchronize()
    np.testing.assert_array_equal(back(y), 18 * back(x) + 1)
    assert calls == [2.0, 3.0, -0.0, 0.0]


@pytest.mark.parametrize("place", PLACES)
def test_other_arrays_are_captured_anew_and_old_graphs_go(kernels: ModuleType, place: str):
    make, back = places(place)
    calls: list[int] = []

    @jit(capture_graph=True)
    def step(x: AnyLibrarysArray, y: AnyLibrarysArray):
        calls.append(1)
        kernels.shift(x, y)

    pairs = [tuple(make(array) for array in arrays()) for _ in range(12)]
    for _ in range(2):
        for x, y in pairs:
            step(x, y)
    stream.synchronize()
    for x, y in pairs:
        np.testing.assert_array_equal(back(y), back(x) + 1)
    assert isinstance(step, Jit)
    assert len(step.graphs) == 8  # pyright: ignore[reportUnknownMemberType] - what it returns is not narrowed
    assert len(calls) == 24


def test_inside_another_capture_it_is_a_part_of_it(kernels: ModuleType):
    @jit(capture_graph=True)
    def step(x: AnyLibrarysArray, y: AnyLibrarysArray):
        kernels.shift(x, y)

    x, y = arrays()
    with graph.capture() as g:
        step(x, y)
    assert (y == 1).all()
    graph.launch(g)
    np.testing.assert_array_equal(y, x + 1)


def test_a_function_that_launches_nothing_or_waits():
    @jit(capture_graph=True)
    def nothing():
        pass

    @jit(capture_graph=True)
    def waits():
        stream.synchronize()

    with pytest.raises(BadCapture, match="nothing launched nothing"):
        nothing()
    with pytest.raises(BadCapture, match="waiting for streams"):
        waits()
    assert repr(Jit(len)) == "<jit len, 0 graphs>"


def test_permissions_of_a_function_of_operators():
    @jit(algebra={"reassociate"})
    def chain(x: AnyLibrarysArray, y: AnyLibrarysArray, z: AnyLibrarysArray) -> AnyLibrarysArray:
        return (x @ y) @ z

    made = chain(*(np.ones(shape, np.float32) for shape in ((64, 64), (64, 64), (64, 2))))
    np.testing.assert_array_equal(made, np.full((64, 2), 4096))
    assert isinstance(chain, GraphFunction)
    assert chain.executable.rewritten.rules == ("chain-order",)
    with pytest.raises(BadPermission, match="'exact' is no class"):
        jit(algebra="exact")
