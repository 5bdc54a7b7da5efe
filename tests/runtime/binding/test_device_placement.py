"""Which device a launch runs on, and what is said of arrays that lie apart."""

import numpy as np
import pytest

from support import fake_cuda, fake_libraries
from support.fake_cuda import FakeDriver
from support.fake_libraries import Libraries, Tensor
from tessera.core.artifact import Binding
from tessera.core.base.dtypes import f32
from tessera.core.base.source import Span
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import NotAnArray, ReadOnlyArray, WrongDevice
from tessera.core.program.types import Array, Scalar
from tessera.runtime.binding.device_placement import launch_device
from tessera.runtime.memory.device_arrays import device_of

X = np.zeros(4, np.float32)


def binding(name: str, column: int, *, mutable: bool = False) -> Binding:
    return Binding(name, Array(f32, ("n",)), mutable, Span("k.py", 1, column, 1, column + 1))


BINDINGS = (binding("x", 1), binding("w", 5), binding("y", 9, mutable=True),
            Binding("a", Scalar(f32), mutable=False, span=Span("k.py", 1, 13, 1, 14)))  # fmt: skip


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(2))


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> Libraries:
    return fake_libraries.install(monkeypatch, fake)


def test_the_arrays_decide(others: Libraries, fake: FakeDriver):
    far = others.tensor(X, device=1)
    assert launch_device(fake, (X, far, X, 1.0), BINDINGS) == 1  # NumPy arrays go where the others are
    assert launch_device(fake, (X, X, X, 1.0), BINDINGS) == 0
    empty = Tensor(0, (0,), device=1)  # it lies nowhere
    assert launch_device(fake, (empty, others.array(X), X, 1.0), BINDINGS) == 0


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_the_word_of_a_library_counts_beside_the_drivers(
    others: Libraries, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, library: str
):
    """Where GPUs read each other's memory, the driver names the one that asks."""
    monkeypatch.setattr(fake, "device_of", lambda address: fake.device())
    made = others.tensor if library == "torch" else others.array
    far = made(X, 1)
    assert launch_device(fake, (far, far, far, 1.0), BINDINGS) == 1
    assert device_of((X, far)) == 1
    assert isinstance(refused(fake, made(X, 0), far, far), WrongDevice)


def refused(fake: FakeDriver, *values: object) -> TesseraError:
    with pytest.raises(TesseraError) as caught:
        launch_device(fake, (*values, 1.0), BINDINGS)
    return caught.value


def test_arrays_on_two_gpus(others: Libraries, fake: FakeDriver):
    here, far = others.tensor(X), others.tensor(X, device=1)
    error = refused(fake, here, far, here)
    assert isinstance(error, WrongDevice)
    assert error.message == "the arrays of one launch lie on several GPUs: x and y lie on cuda:0, w on cuda:1"
    assert error.hint == 'pass w.to("cuda:0")'
    assert error.span == BINDINGS[1].span
    assert refused(fake, others.array(X, 1), far, others.array(X)).hint == "pass cupy.asarray(y) made on cuda:1"


def test_a_tensor_of_the_cpu_beside_others(others: Libraries, fake: FakeDriver):
    error = refused(fake, others.tensor(X), Tensor(4096, (4,), device=-1), others.tensor(X))
    assert isinstance(error, WrongDevice)
    assert error.message == "w, of type Tensor, lies in the memory of the CPU, and x and y lie on cuda:0"
    assert error.hint == 'pass w.to("cuda:0")'
    error = refused(fake, *[Tensor(4096, (4,), device=-1)] * 3)
    assert error.message == "x, of type Tensor, lies in the memory of the CPU, and this kernel runs on cuda:0"


def test_other_mistakes(others: Libraries, fake: FakeDriver):
    error = refused(fake, [1.0], X, X)
    assert isinstance(error, NotAnArray)
    assert error.message == "x needs an array on the GPU or a NumPy array, got a list"
    assert isinstance(refused(fake, X, X, others.tensor(X, requires_grad=True)), ReadOnlyArray)
