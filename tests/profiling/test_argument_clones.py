"""Copies of arguments, in this process and on the fake device."""

import gc

import ml_dtypes
import numpy as np
import pytest

from support.fake_cuda import FakeDriver
from tessera.core.errors.catalog import CudaFailure
from tessera.profiling.argument_clones import ClonedArguments, CloneRing, DeviceClone, HostClone, downloaded
from tessera.runtime.driver import driver
from tessera.runtime.memory import device_arrays


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    made = FakeDriver()
    monkeypatch.setattr(driver, "driver", lambda: made)
    return made


def views() -> list[np.ndarray]:
    base = np.arange(240, dtype=np.float32).reshape(12, 20)
    return [base, base[::2, 1::3], base.T, base[::-1, ::-2], base[3:7], np.zeros((0, 4), np.float32), base[2]]


@pytest.mark.parametrize("index", range(7))
def test_a_host_copy_is_laid_out_like_its_original(index: int):
    original = views()[index]
    copy = HostClone(original)
    np.testing.assert_array_equal(copy.value, original)
    if original.size:
        assert copy.value.strides == original.strides
        assert copy.value.ctypes.data % 256 == original.ctypes.data % 256
    assert not np.shares_memory(copy.value, original)
    copy.value[...] = -1
    assert (copy.read() == -1).all()
    copy.restore()
    np.testing.assert_array_equal(copy.value, original)
    np.testing.assert_array_equal(copy.read(), original)


@pytest.mark.parametrize("index", [0, 1, 2, 4, 6])
def test_a_device_copy_is_laid_out_like_its_original(fake: FakeDriver, index: int):
    base = np.arange(240, dtype=np.float32).reshape(12, 20)
    on_device = fake.device_array(base)
    original = device_arrays.standing_for(on_device.address, base.shape, base.dtype, None)
    view = [original, original[::2, 1::3], original.T, None, original[3:7], None, original[2]][index]
    assert view is not None
    copy = DeviceClone(fake, view, on_host=False)
    # The fake device's memory is the host's.
    read, view = device_arrays.device_view(copy.value, "x").view(np.ndarray), view.view(np.ndarray)
    np.testing.assert_array_equal(read, view)
    assert read.strides == view.strides
    assert read.ctypes.data % 256 == view.ctypes.data % 256
    read[...] = 0
    copy.restore()
    np.testing.assert_array_equal(read, view)
    copy.close()
    copy.close()
    assert len(fake.memory) == 1


def test_what_is_downloaded_overlaps_as_its_original_does(fake: FakeDriver):
    base, apart = np.arange(240, dtype=np.float32).reshape(12, 20), np.arange(5, dtype=np.int64)
    one, other, none = (fake.device_array(array) for array in (base, apart, np.zeros((0, 4), np.float32)))
    whole = device_arrays.standing_for(one.address, base.shape, base.dtype, None)
    lone = device_arrays.standing_for(other.address, apart.shape, apart.dtype, None)
    empty = device_arrays.standing_for(none.address, (0, 4), base.dtype, None)
    given = [whole[6:, ::-2], lone, whole.T, empty, whole[:3], np.broadcast_to(whole[2], (4, 20))]
    wanted = [base[6:, ::-2], apart, base.T, np.zeros((0, 4), np.float32), base[:3], np.broadcast_to(base[2], (4, 20))]
    found = downloaded(given)
    for copy, array in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(copy, array)
        assert copy.strides == array.strides
    found[2][:] = -1.0  # all of `base`
    for number in (0, 4, 5):
        assert (found[number] == -1.0).all()
    np.testing.assert_array_equal(found[1], apart)
    assert base.any()


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.bool_]
)
def test_host_arrays_go_to_the_device(fake: FakeDriver, dtype: type[np.generic]):
    original = np.arange(12).reshape(3, 4).astype(dtype)[:, ::2]
    copy = DeviceClone(fake, original, on_host=True)
    assert device_arrays.is_on_device(copy.value)
    read = device_arrays.device_view(copy.value, "x").view(np.ndarray)
    assert read.dtype == original.dtype
    np.testing.assert_array_equal(read.astype(np.float32), original.astype(np.float32))


def test_an_array_given_twice_is_one_copy():
    x = np.ones(4, np.float32)
    arguments = ClonedArguments((x, x, 2.5, np.ones(4, np.float32)), (False, True, False, False), on_device=False)
    first, second, number, third = arguments.values
    assert first is second is not third
    assert number == 2.5
    assert arguments.size == 32
    assert isinstance(first, np.ndarray)
    assert isinstance(third, np.ndarray)
    first[:] = third[:] = 9
    arguments.restore()
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(third, np.full(4, 9))  # a kernel does not write it


@pytest.mark.parametrize(("count", "cache", "sets"), [(1000, 0, 1), (1000, 10_000, 6), (10, 1 << 20, 64)])
def test_a_ring_is_larger_than_the_cache(count: int, cache: int, sets: int):
    ring = CloneRing([np.zeros(count, np.float32)], [True], cache_bytes=cache)
    assert len(ring) == sets
    taken = [ring.take() for _ in range(2 * sets)]
    assert taken[:sets] == taken[sets:]
    assert len({id(arguments) for arguments in taken}) == sets


def test_a_ring_gives_its_memory_back(fake: FakeDriver):
    ring = CloneRing([np.zeros(100, np.float32), 1.0], [False, False], on_device=True, cache_bytes=1000)
    assert len(fake.memory) == len(ring) == 6
    ring.close()
    assert not fake.memory


@pytest.mark.parametrize("step", ["allocate", "upload"])
def test_a_ring_that_is_interrupted_while_it_is_made_leaves_nothing(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, step: str
):
    todo, original = [7], getattr(fake, step)

    def interrupted(*given: object) -> object:
        todo[0] -= 1
        if not todo[0]:
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(fake, step, interrupted)
    arrays = [np.zeros(100, np.float32), np.zeros(100, np.float32)]
    with pytest.raises(KeyboardInterrupt):
        CloneRing(arrays, [True, False], on_device=True, cache_bytes=10_000)
    gc.collect()
    assert not fake.memory


def test_a_full_device_makes_a_ring_smaller(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    allocate = fake.allocate

    def limited(size: int, stream: int) -> int:
        if len(fake.memory) == 5:
            raise CudaFailure("cuMemAllocAsync: out of memory")
        return allocate(size, stream)

    monkeypatch.setattr(fake, "allocate", limited)
    arrays = [np.zeros(100, np.float32), np.zeros(100, np.float32)]
    ring = CloneRing(arrays, [True, False], on_device=True, cache_bytes=10_000)
    assert len(ring) == 2
    assert len(fake.memory) == 4  # the third set's first array was given back
    ring.close()
    assert not fake.memory
    fake.lost = CudaFailure("an earlier fault")
    with pytest.raises(CudaFailure):
        CloneRing(arrays, [True, False], on_device=True, cache_bytes=10_000)
