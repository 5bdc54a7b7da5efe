"""Supplies: arrays and parts of arenas of every dtype, in each library that is there."""

import ctypes

import numpy as np
import pytest

from support import fake_libraries
from support.fake_cuda import FakeDriver, install
from tessera.core.base.dtypes import ALL, bf16, f32, f64
from tessera.core.graph.graph import Tensor
from tessera.graphs.execution import supply as supplies
from tessera.graphs.execution.supply import DeviceSupply, LibrarySupply, NumberMemory, arena_of, supply_of
from tessera.graphs.operands.host_number import NeedsNumber
from tessera.runtime.arrays.pointers import address
from tessera.runtime.memory.operands import operand
from tessera.runtime.memory.owned import DeviceArray


def test_parts_of_an_arena_have_every_dtype_and_lie_on_lines():
    supply = supply_of(operand(np.empty(3, np.float32), "x"))
    arena = arena_of(supply, 1024)
    for offset, dtype in zip(range(0, 1024, 64), ALL, strict=False):
        part = supply.part(arena, offset, Tensor(dtype, (2, 3)), "p")
        assert (part.dtype, part.shape, part.name) == (dtype, (2, 3), "p")
        assert address(part.view) % 64 == 0
        assert np.shares_memory(part.view, arena.view)
        part.view[...] = np.zeros((2, 3), dtype.numpy)
    first, second = (supply.part(arena, offset, Tensor(ALL[0], (4,))) for offset in (0, 64))
    assert address(second.view) - address(first.view) == 64


def test_a_number_and_nothing_are_arrays():
    supply = supply_of(operand(np.empty(3, np.float32), "x"))
    assert supply.array(Tensor(ALL[0], ())).shape == ()
    assert supply.array(Tensor(ALL[0], (0, 4))).shape == (0, 4)


def test_keys_tell_libraries_streams_and_devices_apart():
    x = operand(np.empty(3, np.float32), "x")
    assert LibrarySupply.of(x).key == LibrarySupply.of(x).key
    assert len({LibrarySupply.of(x).key, LibrarySupply.of(x, 7).key, DeviceSupply(0).key, DeviceSupply(1).key}) == 4


def test_arrays_of_ours_on_a_device(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, FakeDriver(2, run=False))
    given = DeviceArray((2,), np.dtype(np.float32), 1)
    supply = supply_of(operand(given, "x"))
    assert supply.key == DeviceSupply(1).key
    arena = arena_of(supply, 512)
    part = supply.part(arena, 256, Tensor(ALL[0], (4, 2)))
    assert isinstance(part.value, DeviceArray)
    assert isinstance(arena.value, DeviceArray)
    assert (part.value.address, part.value.device) == (arena.value.address + 256, 1)
    made = supply.array(Tensor(ALL[0], (4,)))
    assert isinstance(made.value, DeviceArray)
    assert made.value.device == 1


def test_numbers_travel_in_one_copy_to_the_gpu_of_their_arrays(monkeypatch: pytest.MonkeyPatch):
    fake = install(monkeypatch, FakeDriver(2, run=False))
    memory = NumberMemory([f32, bf16, f64])
    elements = [np.float32(2.5), bf16.numpy.type(-1.5), np.float64(0.1)]
    arrays = [np.asarray(each) for each in elements]
    assert memory([np.ones(3)], arrays) is arrays
    here = DeviceArray((2,), np.dtype(np.float32), 1)
    first, second = memory([np.ones(3), here], arrays), memory([here], arrays, kept=True)
    assert [each for each in fake.log if each[0] == "send"] == [("send", 0, 48)] * 2
    for parts in (first, second):
        places = [part.address for part in parts if isinstance(part, DeviceArray) and part.device == 1]
        assert [place - places[0] for place in places] == [0, 16, 32]
        for place, element in zip(places, elements, strict=True):
            assert ctypes.string_at(place, element.nbytes) == element.tobytes()


def test_numbers_are_refused_beside_arrays_of_jax_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    """The function is captured for the number then, also where arrays of another library were given before."""
    fake = install(monkeypatch, FakeDriver(run=False))
    libraries = fake_libraries.install(monkeypatch, fake)
    with pytest.raises(NeedsNumber):
        NumberMemory([f32])([libraries.frozen(np.ones(3, np.float32))], [np.asarray(np.float32(1))])


def test_numbers_are_refused_while_launches_are_recorded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supplies, "recording", list)
    with pytest.raises(NeedsNumber):
        NumberMemory([f32])([np.ones(3)], [np.asarray(np.float32(1))])


def test_parts_are_tensors_where_tensors_were_given():
    torch = pytest.importorskip("torch")
    supply = supply_of(operand(torch.zeros(3), "x"))
    part = supply.part(arena_of(supply, 512), 64, Tensor(ALL[0], (2, 3)))
    assert isinstance(part.value, torch.Tensor)
    assert part.shape == (2, 3)
