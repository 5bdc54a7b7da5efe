"""What the GPUs of this machine are."""

import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera.core.errors.catalog import CudaFailure
from tessera.runtime.driver import devices
from tessera.runtime.driver import driver as door


def test_properties_come_from_the_drivers_attributes(monkeypatch: pytest.MonkeyPatch):
    fake_cuda.install(monkeypatch, FakeDriver(2))
    assert devices.count() == 2
    assert devices.current() == 0
    found = devices.properties(1)
    assert (found.number, found.name, found.capability, found.processors) == (1, "Fake 1", (9, 0), 132)
    assert found.bandwidth == pytest.approx(2 * 3201e6 * 6016 / 8)  # 4.8 TB/s, as an H200's data sheet says
    assert str(found) == "cuda:1 Fake 1, 132 multiprocessors, 1 GiB"


def test_a_device_there_is_none_of(monkeypatch: pytest.MonkeyPatch):
    fake_cuda.install(monkeypatch, FakeDriver(2))
    with pytest.raises(CudaFailure, match="there is no cuda:2"):
        devices.properties(2)


def test_without_a_driver_there_are_none(monkeypatch: pytest.MonkeyPatch):
    def missing() -> None:
        raise CudaFailure("no driver")

    monkeypatch.setattr(door, "driver", missing)
    assert devices.count() == 0


@pytest.mark.gpu
def test_this_machines_gpu():
    found = devices.properties(0)
    assert devices.count() >= 1
    assert found.processors > 0
    assert found.bandwidth > 1e11
    assert found.memory > 1 << 30
