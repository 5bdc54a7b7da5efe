"""`graph.capture()` and `graph.launch()` as users write them, on the CPU and, where there is one, on a GPU."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias, cast

import numpy as np
import pytest

import tessera
from api.test_stream import TEXT, arrays
from tessera import graph, stream
from tessera.core.errors.catalog import BadCapture, BadPermission, ExtentMismatch
from tessera.core.graph.permissions import ALGEBRA
from tessera.graphs.function import GraphFunction


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    return tessera.compile_source(TEXT)


AnyLibrarysArray: TypeAlias = Any  # of NumPy or of cupy


def places(
    name: str,
) -> tuple[Callable[[AnyLibrarysArray], AnyLibrarysArray], Callable[[AnyLibrarysArray], AnyLibrarysArray]]:
    """Arrays of one place: how to make them and read them back."""
    if name == "cpu":
        return (lambda a: a), (lambda a: a)
    cp = pytest.importorskip("cupy")
    return cp.asarray, cp.asnumpy


PLACES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_runs_before_the_graph_is_launched(kernels: ModuleType, place: str):
    make, back = places(place)
    x, y = map(make, arrays())
    with graph.capture() as g:
        kernels.shift(x, y)
        kernels.axpy(2.0, x, y)
    np.testing.assert_array_equal(back(y), np.ones(1000))
    for _ in range(3):
        graph.launch(g)
    stream.synchronize()
    np.testing.assert_array_equal(back(y), 3 * back(x) + 1)
    assert g.kernels == ("shift", "axpy")
    assert g.device.startswith(place)


@pytest.mark.parametrize("place", PLACES)
def test_values_are_read_when_the_graph_runs(kernels: ModuleType, place: str):
    make, back = places(place)
    x, y = map(make, arrays())
    with graph.capture() as g:
        kernels.shift(x, y)
    x[:] = 5
    graph.launch(g)
    stream.synchronize()
    assert (back(y) == 6).all()


@pytest.mark.parametrize("place", PLACES)
def test_streams_events_and_copies_inside(kernels: ModuleType, place: str):
    make, back = places(place)
    x, y = map(make, arrays())
    z = make(np.zeros(1000, np.float32))
    s1, s2 = stream.new(), stream.new()
    with graph.capture() as g:
        kernels.shift.on(s1)(x, y)
        s2.wait(s1.record())
        stream.memcpy_async(dst=z, src=y, stream=s2)
        kernels.axpy(1.0, z, y)
    graph.launch(g, s1)
    s1.synchronize()
    np.testing.assert_array_equal(back(z), back(x) + 1)
    np.testing.assert_array_equal(back(y), 2 * back(x) + 2)
    g.launch(stream=s2)
    s2.synchronize()


def test_a_mistake_inside_ends_the_capture(kernels: ModuleType):
    with pytest.raises(ExtentMismatch), graph.capture():
        kernels.axpy(1.0, np.zeros(3, np.float32), np.zeros(4, np.float32))
    x, y = arrays()
    kernels.shift(x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_graphs_do_not_nest(kernels: ModuleType):
    with graph.capture() as g:
        kernels.shift(*arrays())
    with pytest.raises(BadCapture, match="already"), graph.capture(), graph.capture():
        pass
    with pytest.raises(BadCapture, match="cannot be captured"), graph.capture():
        graph.launch(g)
    graph.launch(g)


def test_what_is_no_graph_is_not_launched():
    with pytest.raises(BadCapture, match="3 is no graph") as caught:
        graph.launch(3)  # type: ignore[arg-type]
    assert "graph.capture()" in caught.value.hint


def test_a_kernel_is_compiled_but_not_run_by_the_capture():
    kernel = tessera.compile_source(TEXT).shift
    x, y = arrays()
    with graph.capture() as g:
        kernel(x, y)
    assert kernel.last is not None
    assert (y == 1).all()
    graph.launch(g)
    np.testing.assert_array_equal(y, x + 1)


def test_arrays_of_the_capture_live_as_long_as_the_graph(kernels: ModuleType):
    x, y = arrays()
    with graph.capture() as g:
        kernels.shift(x + 1, y)
    graph.launch(g)
    np.testing.assert_array_equal(y, x + 2)


def test_permissions_are_given_on_the_module():
    x, w = np.ones((4, 4), np.float32), np.ones((4, 1), np.float32)

    def chain(x: AnyLibrarysArray, w: AnyLibrarysArray) -> AnyLibrarysArray:
        return (x @ x) @ w

    cases: list[tuple[str | set[str], frozenset[str]]] = [
        ("bits", frozenset()),
        ("real", ALGEBRA),
        ({"reassociate", "fold"}, frozenset({"reassociate", "fold"})),
    ]
    for algebra, classes in cases:
        made = cast("GraphFunction[..., AnyLibrarysArray]", graph.module("chain", algebra=algebra)(chain))
        assert made.algebra == classes
        np.testing.assert_array_equal(made(x, w), np.full((4, 1), 16))


def test_unknown_permissions_are_refused_with_the_choices():
    with pytest.raises(BadPermission, match="algebra='fast' is no class of rewrites") as raised:
        graph.module("chain", algebra="fast")
    assert "reassociate, fold, cancel" in raised.value.hint
    assert raised.value.source is not None
