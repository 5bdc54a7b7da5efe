"""The machine's figures: their form here, their values from a device that says what it is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.fake_cuda import FakeDriver
from tessera.core.errors.catalog import CudaFailure
from tessera.core.settings import overridden
from tessera.core.targets import TARGETS
from tessera.performance import device_model
from tessera.performance.host_rates import HostRates
from tessera.runtime.driver import driver

H200 = {
    "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132, "CLOCK_RATE": 1_980_000,
    "MEMORY_CLOCK_RATE": 3_201_000, "GLOBAL_MEMORY_BUS_WIDTH": 6144, "L2_CACHE_SIZE": 62_914_560,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233_472, "MAX_REGISTERS_PER_MULTIPROCESSOR": 65_536,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
}  # fmt: skip


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    made = FakeDriver(devices=2)
    monkeypatch.setattr(made, "attribute", lambda name, device: H200[name])
    monkeypatch.setattr(made, "elapsed", lambda first, second: 250e-6)
    monkeypatch.setattr(made, "copy", lambda *_: None)
    monkeypatch.setattr(made, "allocate", lambda size, stream: 4096)
    monkeypatch.setattr(made, "free", lambda address, stream: None)
    monkeypatch.setattr(driver, "driver", lambda: made)
    device_model._gpu.cache_clear()
    yield made
    device_model._gpu.cache_clear()


def test_a_gpu(fake: FakeDriver):
    found = device_model.this_machine(TARGETS["cuda"])
    assert found is device_model.this_machine(TARGETS["cuda_tile"])
    assert (found.on_gpu, found.name, found.count, found.units, found.unit) == (True, "Fake 0", 2, 132, "SM")
    assert found.label == "Fake 0 x2"
    assert found.bandwidth == 2 * (512 << 20) / 250e-6
    assert "a copy, measured" in found.source
    assert found.rate("dot bf16") == found.rate("dot f16") == 4096 * 132 * 1.98e9
    assert found.rate("dot fp8_e4m3") == 2 * found.rate("dot bf16")
    assert found.rate("dot tf32") == found.rate("dot bf16") / 2
    assert found.rate("f32") == found.rate("dot f32") == found.rate("f16") == 256 * 132 * 1.98e9
    assert (found.shared_bytes, found.registers, found.lanes) == (233_472, 65_536, 2048)
    assert not fake.events


def test_without_memory_for_a_copy_the_clock_says(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    def refuse(size: int, stream: int) -> int:
        raise CudaFailure("cuMemAllocAsync: out of memory")

    monkeypatch.setattr(fake, "allocate", refuse)
    found = device_model.this_machine(TARGETS["cuda"])
    assert found.bandwidth == 2 * 3.201e9 * 6144 / 8
    assert "its clock and width" in found.source


def test_a_newer_gpu_is_taken_for_the_newest_known(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(H200, "COMPUTE_CAPABILITY_MAJOR", 12)
    assert device_model.this_machine(TARGETS["cuda"]).rate("dot bf16") == 8192 * 132 * 1.98e9


def test_the_cpu():
    with overridden(threads=2):
        found = device_model.this_machine(TARGETS["cpu"])
        assert found is device_model.this_machine(TARGETS["cpu"])
    assert (found.on_gpu, found.units, found.unit) == (False, 2, "core")
    assert found.bandwidth > 0
    assert found.rate("f32") == found.rate("dot f32") == 2 * found.rate("f64") > 0
    assert found.cache_bytes > 0
    assert "measured on 2 threads (" in found.source
    assert "runs differ by" in found.source
    assert found.label.endswith("x2")


def test_what_a_busy_moment_hid_is_found_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(device_model, "_better", {})
    device_model._cpu.cache_clear()
    busy = HostRates(10e9, 40e9, 0.3, 0.0, "2026-11-30")
    measured = iter([busy, replace(busy, bandwidth=20e9, product=20e9), replace(busy, product=120e9), busy])
    monkeypatch.setattr(device_model, "measure_rates", lambda threads, size: next(measured))
    with overridden(threads=2, cache_dir=tmp_path):
        first = device_model.this_machine(TARGETS["cpu"])
        second = device_model.measured_again(first)
        assert second is device_model.this_machine(TARGETS["cpu"]) is not first
        assert (second.bandwidth, second.cache_bandwidth) == (2 * first.bandwidth, 2 * first.cache_bandwidth)
        assert second.rates == first.rates
        third = device_model.measured_again(second)
        assert third is device_model.this_machine(TARGETS["cpu"])
        assert third.rate("special") == pytest.approx(3 * first.rate("special"))
        assert third.bandwidth == second.bandwidth
        assert device_model.measured_again(third) is third
        device_model._cpu.cache_clear()  # as another process begins
        again = device_model.this_machine(TARGETS["cpu"])
        assert (again.bandwidth, again.rates) == (third.bandwidth, third.rates)
    device_model._cpu.cache_clear()


def test_a_gpu_copies_again(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device_model, "_better", {})
    first = device_model.this_machine(TARGETS["cuda"])
    monkeypatch.setattr(fake, "elapsed", lambda first, second: 200e-6)
    second = device_model.measured_again(first)
    assert second.bandwidth == pytest.approx(first.bandwidth * 1.25)
    assert second.rates == first.rates
    assert device_model.this_machine(TARGETS["cuda"]) is second
