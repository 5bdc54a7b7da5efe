"""Launches on streams: what is raised at once, and what where the stream is waited for."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from support import fake_cuda, raw_kernels
from support.fake_cuda import FakeDriver
from tessera.core.base.source import Span
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch import cuda
from tessera.runtime.launch.on_stream import launch_on, record_launch
from tessera.runtime.memory.owned import to_device
from tessera.runtime.streams.fair_scheduler import dispatcher
from tessera.runtime.streams.graph_capture import CapturedGraph, HostWork
from tessera.runtime.streams.streams import Stream


@dataclass(frozen=True)
class Bound:
    """A function with its arguments."""

    do: Callable[..., object]
    arguments: tuple[object, ...]

    def run(self) -> None:
        self.do(*self.arguments)

    def cancel(self) -> None:
        """It ends by itself."""


class HostLauncher:
    """Binds a function of whatever arguments."""

    artifact = replace(raw_kernels.null(), name="k", span=Span("cell.py", 7, 1, 7, 2))
    last_groups = (None,)
    quick = None
    on_streams = None

    def __init__(self, run: Callable[..., object]) -> None:
        self.do = run

    def __call__(self, *arguments: object, grid: Grid | None = None) -> None:
        raise AssertionError("it is launched on streams alone")

    def prepare(self, arguments: tuple[object, ...], grid: Grid | None = None) -> Bound | None:
        if not arguments:
            raise TypeError("no arguments")
        return None if arguments == (0,) else Bound(self.do, arguments)


def test_arguments_are_checked_at_once_and_the_rest_is_raised_later():
    s = Stream()
    seen: list[int] = []
    with pytest.raises(TypeError):
        launch_on(s, HostLauncher(seen.append), (), None)
    launch_on(s, HostLauncher(seen.append), (5,), None)
    launch_on(s, HostLauncher(seen.append), (0,), None)  # no groups
    launch_on(s, HostLauncher(lambda n: 1 // 0), (6,), None)
    with pytest.raises(ZeroDivisionError) as caught:
        s.synchronize()
    assert caught.value.__notes__ == ["in kernel k, line 7, launched on a stream"]
    assert seen == [5]


def test_a_recorded_launch_has_its_kernels_name():
    noted, s = CapturedGraph(), Stream()
    record_launch(noted, s, HostLauncher(print), (5,), None)
    ((stream, step),) = noted.steps
    assert stream is s
    assert isinstance(step, HostWork)
    assert step.name == "k"
    assert noted.keep == [(5,)]


def test_numpy_arrays_are_copied_in_the_streams_order(monkeypatch: pytest.MonkeyPatch):
    fake = fake_cuda.install(monkeypatch, FakeDriver(run=False))
    heavy, light = Stream(2.0), Stream(1.0)
    launch_on(heavy, cuda.CudaLauncher(raw_kernels.null()), (np.zeros(4, np.float32),), None)
    assert fake.streams == [heavy.handle(0)]
    assert fake.waited == 1  # for the copy back
    assert not fake.memory
    assert light.queue.idle


def test_arrays_live_until_their_turn(monkeypatch: pytest.MonkeyPatch):
    fake = fake_cuda.install(monkeypatch, FakeDriver(run=False))
    heavy, light = Stream(2.0), Stream(1.0)
    launcher = cuda.CudaLauncher(raw_kernels.null())
    for _ in range(10):
        launch_on(heavy, launcher, (to_device(np.zeros(4, np.float32)),), None)
    dispatcher().wait()
    assert len(fake.streams) == 10
    assert light.queue.idle
