"""Timers: what they do around a launch; how long anything takes is nobody's business here."""

import numpy as np
import pytest

from support.fake_cuda import FakeDriver
from tessera.core.targets import TARGETS
from tessera.profiling.timing import DeviceTimer, HostTimer, timer_for
from tessera.runtime.driver import driver


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    made = FakeDriver(devices=2)
    monkeypatch.setattr(driver, "driver", lambda: made)
    return made


def test_the_host_is_timed_by_the_clock():
    called: list[int] = []
    timer = timer_for(TARGETS["cpu"])
    assert isinstance(timer, HostTimer)
    with timer.inside():
        assert timer.time(lambda: called.append(1)) >= 0.0
    timer.close()
    assert called == [1]


def test_a_device_is_timed_by_events_on_its_own_stream(fake: FakeDriver):
    array = fake.device_array(np.zeros(4, np.float32), device=1)
    timer = timer_for(TARGETS["cuda"], (array,))
    assert isinstance(timer, DeviceTimer)
    fake.log.clear()
    seen: list[int] = []
    with timer.inside():
        assert fake.current == 1
        assert timer.time(lambda: seen.append(len(fake.log))) == 0.5
    assert [entry[0] for entry in fake.log] == ["record", "record", "wait event"]
    assert seen == [1]
    assert fake.current == 0
    timer.close()
    assert not fake.events
    assert len(fake.memory) == 1


def test_fills_last_as_long_as_the_host_needs(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    clock = [0.0]
    monkeypatch.setattr("tessera.profiling.timing.time.perf_counter", lambda: clock[0])
    fills: list[int] = []
    monkeypatch.setattr(fake, "clear", lambda address, size, stream: fills.append(size))
    timer = DeviceTimer(fill=1000)  # the fake device takes half a second for anything

    def launch() -> None:
        clock[0] += 2.0

    fills.clear()
    timer.time(launch)
    assert fills == [1000]
    fills.clear()
    timer.time(launch)
    assert fills == [1000] * 7  # one and a half times two seconds, in halves, and one more
