"""Parts along every axis, one after the other and back: of arrays of the host, and by the copies of rows of a GPU."""

import numpy as np
import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from support.interpreted_gpus import on_host
from tessera.runtime.dist.axis_parts import cut, join
from tessera.runtime.dist.collectives import Group
from tessera.runtime.dist.gpus import GpuEngine
from tessera.runtime.dist.simulated import SimulatedEngine
from tessera.runtime.memory.owned import to_device

SHAPE = (4, 6, 10)
CASES = [(0, 2), (1, 2), (1, 3), (2, 2), (2, 5), (2, 10), (1, 1), (0, 4)]


@pytest.mark.parametrize(("axis", "parts"), CASES)
def test_on_the_host(axis: int, parts: int):
    group, x = Group(SimulatedEngine(2), (0, 1)), np.arange(240.0).reshape(SHAPE)
    flat = cut(group, 0, x.reshape(-1), SHAPE, axis, parts)
    expected = np.concatenate([part.reshape(-1) for part in np.split(x, parts, axis)])
    np.testing.assert_array_equal(flat, expected)
    np.testing.assert_array_equal(join(group, 1, flat, SHAPE, axis, parts), x.reshape(-1))


@pytest.mark.parametrize(("axis", "parts"), CASES)
def test_on_a_gpu(monkeypatch: pytest.MonkeyPatch, axis: int, parts: int):
    fake = fake_cuda.install(monkeypatch, FakeDriver(2, run=False))
    group, x = Group(GpuEngine((0, 1)), (0, 1)), np.arange(240, dtype=np.int16).reshape(SHAPE)
    flat = cut(group, 1, to_device(x.reshape(-1), 1), SHAPE, axis, parts)
    expected = np.concatenate([part.reshape(-1) for part in np.split(x, parts, axis)])
    np.testing.assert_array_equal(on_host(flat), expected)
    np.testing.assert_array_equal(on_host(join(group, 1, flat, SHAPE, axis, parts)), x.reshape(-1))
    copies = [entry for entry in fake.log if entry[0] == "copy rows"]
    outer = int(np.prod(SHAPE[:axis]))
    assert len(copies) == (0 if 1 in (outer, parts) else 2 * min(outer, parts))
    assert all(flat.device == 1 for _ in copies)


def test_nothing_to_cut(monkeypatch: pytest.MonkeyPatch):
    fake_cuda.install(monkeypatch, FakeDriver(1, run=False))
    group, empty = Group(GpuEngine((0,)), (0,)), to_device(np.empty(0, np.float32))
    assert cut(group, 0, empty, (4, 2, 0), 1, 2) is empty
