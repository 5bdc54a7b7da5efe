"""Arrays on a GPU and in pinned memory, on a driver that keeps them in this process."""

import gc

import numpy as np
import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera.core.base.dtypes import bf16
from tessera.core.errors.catalog import BadCapture, CudaFailure
from tessera.runtime.arrays.pointers import address
from tessera.runtime.memory.device_arrays import device_view, is_on_device
from tessera.runtime.memory.owned import DeviceArray, pinned, to_device
from tessera.runtime.streams.graph_capture import close_recording, open_recording


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(2))


def test_there_and_back(fake: FakeDriver):
    host = np.arange(12, dtype=np.int16).reshape(3, 4)
    array = to_device(host, 1)
    assert (array.shape, array.dtype, array.nbytes, array.device) == ((3, 4), np.dtype(np.int16), 24, 1)
    assert fake.owners[array.address] == 1
    np.testing.assert_array_equal(array.get(), host)
    assert repr(array) == "<int16[3, 4] on cuda:1>"


def test_elements_are_not_read_while_launches_are_only_noted(fake: FakeDriver):
    array = to_device(np.zeros(4, np.float32))
    open_recording()
    try:
        with pytest.raises(BadCapture, match="reading an array's elements cannot be captured"):
            array.get()
    finally:
        close_recording()
    assert not array.get().any()


def test_the_runtime_sees_address_shape_and_dtype(fake: FakeDriver):
    array = DeviceArray((2, 8), bf16.numpy)
    view = device_view(array, "x")
    assert is_on_device(array)
    assert (address(view), view.shape, view.dtype) == (array.address, (2, 8), bf16.numpy)
    assert array.__cuda_array_interface__["data"] == (array.address, False)


def test_arrays_of_one_kind_share_their_layout(fake: FakeDriver):
    first, second, other = (DeviceArray(shape, np.dtype(np.float32)) for shape in ((4,), (4,), (5,)))
    assert first.layout is second.layout
    assert first.layout is not other.layout


def test_memory_is_given_back(fake: FakeDriver):
    array, locked = DeviceArray((4,), np.dtype(np.float32)), pinned((2, 3), np.int8)
    assert len(fake.memory) == 2
    view = locked[1]
    del array, locked
    gc.collect()
    assert len(fake.memory) == 1  # a view keeps pinned memory
    view[:] = 1
    del view
    gc.collect()
    assert not fake.memory


def test_pinned_memory_is_known_as_such(fake: FakeDriver):
    locked = pinned(5)
    assert (locked.shape, locked.dtype) == ((5,), np.dtype(np.float32))
    assert fake.is_pinned(locked.ctypes.data)
    assert not fake.is_pinned(np.zeros(5).ctypes.data)


def test_another_shape_is_refused(fake: FakeDriver):
    with pytest.raises(CudaFailure, match="for memory of"):
        DeviceArray((4,), np.dtype(np.float32)).set(np.zeros(5, np.float32))


def test_empty_arrays(fake: FakeDriver):
    assert to_device(np.zeros((0, 3))).get().shape == (0, 3)
