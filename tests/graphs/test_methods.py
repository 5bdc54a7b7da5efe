"""Captured functions as methods, in pickles and in copies."""

# pyright: reportUntypedFunctionDecorator=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import copy
import pickle

import numpy as np
import pytest

import tessera
from support.operators import Array
from tessera import graph, op

X = np.ones((1, 2), np.float32)


class Layer:
    """A layer with weights and a number."""

    def __init__(self, weight: float) -> None:
        self.weight, self.rate, self.calls = np.full((2, 2), weight, np.float32), 1.0, 0

    @tessera.jit
    def forward(self, x: Array) -> Array:
        """Return the product with the weights."""
        return op.matmul(x, self.weight) * self.rate

    @graph.module("scaled")
    def scaled(self, x: Array, by: float = 1.0) -> Array:
        """Return x by two numbers."""
        return x * self.rate * by

    @tessera.jit(capture_graph=True)
    def launched(self, x: Array) -> Array:
        """Return x by a number, as a graph of launches."""
        return op.exp(x) * self.rate

    def loss(self, x: Array) -> Array:
        """Return a number."""
        return op.sum(self.forward(x) * self.scaled(x))


class Wide(Layer):
    """A layer that inherits its methods."""


@pytest.mark.parametrize("kind", [Layer, Wide])
def test_methods_read_their_object(kind: type[Layer]):
    first, second = kind(2.0), kind(3.0)
    for _ in range(2):
        np.testing.assert_array_equal(first.forward(X), [[4.0, 4.0]])
        np.testing.assert_array_equal(second.forward(X), [[6.0, 6.0]])
        np.testing.assert_array_equal(Layer.forward(first, X), [[4.0, 4.0]])
        np.testing.assert_allclose(first.launched(X), np.exp(X) * first.rate, rtol=1e-6)
    first.rate = 0.5
    np.testing.assert_array_equal(first.forward(X), [[2.0, 2.0]])
    np.testing.assert_array_equal(second.forward(X), [[6.0, 6.0]])
    np.testing.assert_array_equal(first.scaled(X, by=4.0), 2 * X)
    np.testing.assert_allclose(first.launched(X), np.exp(X) * 0.5, rtol=1e-6)
    second.weight = np.full((2, 2), 5.0, np.float32)
    np.testing.assert_array_equal(second.forward(X), [[10.0, 10.0]])
    second.weight[:] = 1.0
    np.testing.assert_array_equal(second.forward(X), [[2.0, 2.0]])


def test_attributes_that_no_method_reads_capture_nothing():
    layer = Layer(2.0)
    layer.forward(X)
    forward: Array = layer.forward
    before = forward.executable
    layer.calls += 1
    layer.forward(X)
    assert forward.executable is before
    assert "matmul" in forward.inspect_ir("graph")


def test_derivatives_of_methods():
    layer = Layer(2.0)
    slope = tessera.grad(layer.loss)
    np.testing.assert_allclose(slope(X), [[8.0, 8.0]])
    layer.rate = 2.0
    np.testing.assert_allclose(slope(X), [[32.0, 32.0]])
    np.testing.assert_allclose(tessera.grad(layer.loss)(X), [[32.0, 32.0]])


@graph.module("squared")
def squared(x: Array) -> Array:
    """Return the square."""
    return op.square(x)


@tessera.jit
def doubled(x: Array) -> Array:
    """Return the double."""
    return x * 2.0


@op.custom
def thrice(x: Array) -> Array:
    """Return three times x."""
    return x * 3.0


KERNELS = tessera.compile_source("""
@kernel
def halved(x: f32[n], y: mut f32[n]):
    y[:] = x[:] * 0.5
""")


@pytest.mark.parametrize("function", [squared, doubled, thrice])
def test_functions_are_pickled_by_name(function: Array):
    for _ in range(2):
        for again in (pickle.loads(pickle.dumps(function)), copy.deepcopy([function])[0], copy.copy(function)):
            assert again is function
        function(X)  # what was compiled does not matter
    assert copy.deepcopy({"layer": Layer(2.0)})["layer"].forward(X).tolist() == [[4.0, 4.0]]
    assert pickle.loads(pickle.dumps(Layer(2.0))).forward(X).tolist() == [[4.0, 4.0]]


def test_kernels_are_copied_as_functions_are(monkeypatch: pytest.MonkeyPatch):
    halved = KERNELS.halved
    assert copy.deepcopy([halved])[0] is halved
    monkeypatch.setitem(__import__("sys").modules, KERNELS.__name__, KERNELS)
    halved.__module__ = KERNELS.__name__
    assert pickle.loads(pickle.dumps(halved)) is halved


def test_functions_without_a_name_are_refused_as_python_refuses_them():
    with pytest.raises((pickle.PicklingError, AttributeError), match="pickle"):
        pickle.dumps(graph.module("local")(lambda x: x))
