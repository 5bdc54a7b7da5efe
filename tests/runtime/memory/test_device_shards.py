"""Shards on the devices of a mesh: where they are allocated, stored, copied and read."""

import numpy as np
import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from support.interpreted_gpus import on_host as elements
from tessera.core.placement.devices import Device
from tessera.runtime.memory.device_shards import copied, new_shard, on, on_host, resized, shard_of, store
from tessera.runtime.memory.owned import DeviceArray

CPU, SIMULATED, FIRST, SECOND = Device("cpu", 0), Device("sim", 5), Device("cuda", 0), Device("cuda", 1)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(2, run=False))


@pytest.mark.parametrize("device", [CPU, SIMULATED])
def test_shards_of_the_host(device: Device):
    x = new_shard(device, (2, 3), np.dtype(np.float32), -0.0)
    assert isinstance(x, np.ndarray)
    assert np.signbit(x).all()
    assert on(device, x) is x
    assert on_host(x) is x
    store(x, 4)
    same = copied(x)
    store(x, np.arange(3))
    np.testing.assert_array_equal(same, np.full((2, 3), 4))
    np.testing.assert_array_equal(x, [[0, 1, 2]] * 2)


def test_shards_of_values(fake: FakeDriver):
    values = np.arange(3)[::-1]
    for device in (CPU, SECOND):
        shard = shard_of(device, values, (2, 3), np.dtype(np.float32))
        np.testing.assert_array_equal(on_host(shard), [[2, 1, 0]] * 2)
        assert (shard.dtype, isinstance(shard, DeviceArray)) == (np.float32, device is SECOND)
    own = np.ones((2, 3), np.float32)
    assert shard_of(CPU, own, (2, 3), own.dtype) is not own


def test_shards_of_gpus(fake: FakeDriver):
    x = new_shard(SECOND, (2, 3), np.dtype(np.float32), -0.0)
    assert isinstance(x, DeviceArray)
    assert (x.device, fake.owners[x.address]) == (1, 1)
    assert np.signbit(elements(x)).all()
    assert on(SECOND, x) is x
    store(x, np.arange(3))
    same = copied(x)
    store(x, 7)
    np.testing.assert_array_equal(elements(same), [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(on_host(x), np.full((2, 3), 7, np.float32))
    other = on(FIRST, same)
    assert (other.device, fake.owners[other.address]) == (0, 0)
    np.testing.assert_array_equal(elements(other), elements(same))
    here = on(CPU, x)
    assert isinstance(here, np.ndarray)
    np.testing.assert_array_equal(here, on_host(x))


def test_copies_between_gpus_wait_for_what_writes_and_hold_up_nothing_else(fake: FakeDriver):
    x = new_shard(SECOND, (2, 3), np.dtype(np.float32), 1)
    del fake.log[:]
    on(FIRST, x)
    assert [entry[0] for entry in fake.log if entry[0] in ("record", "follow", "copy", "wait")] == [
        "record", "follow", "copy", "record",
    ]  # fmt: skip
    on(FIRST, x)
    assert [entry for entry in fake.log if entry[0] == "let peer"] == [("let peer", 1, 0)]
    assert len(fake.events) == 1  # of the latest copy: the others were reached, and closed


def test_a_shard_is_kept_until_another_gpu_has_read_it(fake: FakeDriver):
    x = new_shard(SECOND, (2, 3), np.dtype(np.float32), 1)
    address = x.address
    fake.held.add(0)
    on(FIRST, x)
    del x
    assert address in fake.memory
    fake.held.clear()
    fake.events = dict.fromkeys(fake.events, True)
    on(FIRST, new_shard(SECOND, (1,), np.dtype(np.float32), 1))
    assert address not in fake.memory


def test_gpus_that_are_not_linked_copy_through_the_host(fake: FakeDriver):
    fake.linked = False
    x = new_shard(SECOND, (2, 3), np.dtype(np.float32), 1)
    del fake.log[:]
    y = on(FIRST, x)
    np.testing.assert_array_equal(elements(y), np.ones((2, 3)))
    assert "copy" not in [entry[0] for entry in fake.log]


@pytest.mark.parametrize("device", [CPU, FIRST])
@pytest.mark.parametrize("shape", [(4, 3, 2), (2, 5, 2), (3, 4, 5), (1, 3, 1), (0, 3, 2), (2, 3, 2)], ids=str)
def test_shards_of_other_extents(fake: FakeDriver, device: Device, shape: tuple[int, ...]):
    given = np.arange(12, dtype=np.int16).reshape(2, 3, 2)
    made = resized(on(device, given), shape)
    assert made.shape == shape
    kept = tuple(slice(min(a, b)) for a, b in zip(shape, given.shape, strict=True))
    found = elements(made) if isinstance(made, DeviceArray) else on_host(made)
    np.testing.assert_array_equal(found[kept], given[kept])
    assert isinstance(made, DeviceArray) == (device is FIRST)
    assert fake.devices == 2


def test_shards_without_elements(fake: FakeDriver):
    x = new_shard(FIRST, (0, 3), np.dtype(np.float32), 0)
    assert on(SECOND, x).shape == (0, 3)
    assert copied(x).device == 0
    assert fake.devices == 2


def test_columns_of_an_array_are_packed_for_a_gpu(fake: FakeDriver):
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(elements(on(FIRST, x[:, 1:3])), x[:, 1:3])
    assert fake.devices == 2
