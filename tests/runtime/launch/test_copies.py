"""Copies in streams: on the CPU, through staging buffers on a driver that only notes, and on a GPU."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera.core.errors.catalog import BadCapture, BadTransfer, NotAnArray, ReadOnlyArray
from tessera.runtime.launch import copies as transfers
from tessera.runtime.launch.copies import memcpy
from tessera.runtime.memory.owned import DeviceArray, pinned, to_device
from tessera.runtime.streams.fair_scheduler import dispatcher
from tessera.runtime.streams.graph_capture import close_recording, open_recording
from tessera.runtime.streams.streams import Stream


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    monkeypatch.setattr(transfers, "_PIECE", 64)
    yield fake_cuda.install(monkeypatch, FakeDriver(run=False))
    dispatcher().wait()


def test_copies_on_the_cpu_wait_for_their_turn():
    s, gate, source = Stream(), threading.Event(), np.arange(6.0)
    target = np.zeros(6)
    s.submit(gate.wait, "compute")
    memcpy(target, source, s)
    assert not target.any()
    gate.set()
    s.synchronize()
    np.testing.assert_array_equal(target, source)


def test_without_a_stream_the_copy_is_done_after_everything_before_it():
    s, source = Stream(), np.zeros(3)
    s.submit(lambda: source.fill(7), "compute")
    target = np.zeros(3)
    memcpy(target, source, None)
    assert (target == 7).all()


@pytest.mark.parametrize(
    ("target", "source", "mistake", "words"),
    [
        (np.zeros(3), np.zeros(4), BadTransfer, r"dst holds float64\[3\], src holds float64\[4\]"),
        (np.zeros(3), np.zeros(3, np.float32), BadTransfer, "float64"),
        (np.zeros(6)[::2], np.zeros(3), NotAnArray, "dst has gaps"),
        (np.zeros(3), np.zeros(6)[::2], NotAnArray, "src has gaps"),
        (np.broadcast_to(np.zeros(1), 3), np.zeros(3), ReadOnlyArray, "dst is written"),
        (3.0, np.zeros(3), NotAnArray, "dst needs an array"),
    ],
)
def test_mistakes_copy_nothing(target: np.ndarray | float, source: np.ndarray, mistake: type[Exception], words: str):
    with pytest.raises(mistake, match=words):
        memcpy(target, source, Stream())


def test_nothing_to_copy():
    memcpy(np.zeros((0, 3)), np.zeros((0, 3)), Stream())


@pytest.mark.parametrize("count", [1, 16, 17, 32, 50, 64])
def test_ordinary_memory_goes_through_pinned_buffers_in_pieces(fake: FakeDriver, count: int):
    source = np.arange(count, dtype=np.float32)
    s, device, back = Stream(), DeviceArray((count,), np.dtype(np.float32)), np.zeros(count, np.float32)
    memcpy(device, source, s)
    memcpy(back, device, s)
    s.synchronize()
    np.testing.assert_array_equal(back, source)
    copies = [entry for entry in fake.log if entry[0] == "copy"]
    assert len(copies) == 2 * -(-count * 4 // 64)
    assert {stream for _, stream, _ in copies} == {s.handle(0)}
    assert sum(size for *_, size in copies) == 2 * 4 * count


def test_a_staging_buffer_is_not_written_while_the_gpu_reads_it(fake: FakeDriver):
    s, device = Stream(), DeviceArray((64,), np.dtype(np.float32))
    memcpy(device, np.zeros(64, np.float32), s)
    s.synchronize()
    kinds = [entry[0] for entry in fake.log if entry[0] in ("copy", "record", "wait event")]
    first = ["copy", "record"] * 2
    assert kinds == [*first, *["wait event", "copy", "record"] * 2, "wait event", "wait event"]


def test_pinned_memory_is_copied_directly(fake: FakeDriver):
    source, device, s = pinned((8, 4), np.float32), DeviceArray((8, 4), np.dtype(np.float32)), Stream()
    source[:] = 3
    memcpy(device, source, s)
    assert [entry for entry in fake.log if entry[0] == "copy"] == [("copy", s.handle(0), 128)]
    assert (device.get() == 3).all()


def test_from_one_device_to_another(monkeypatch: pytest.MonkeyPatch):
    fake_cuda.install(monkeypatch, FakeDriver(2, run=False))
    here, there = to_device(np.arange(4.0)), DeviceArray((4,), np.dtype(np.float64), 1)
    s = Stream()
    memcpy(there, here, s)
    assert list(s.handles) == [1]
    np.testing.assert_array_equal(there.get(), np.arange(4.0))


def test_ordinary_memory_is_no_part_of_a_cuda_graph(fake: FakeDriver):
    device = DeviceArray((4,), np.dtype(np.float32))
    noted = open_recording()
    try:
        with pytest.raises(BadCapture, match="ordinary host memory"):
            memcpy(device, np.zeros(4, np.float32), None)
        memcpy(device, pinned(4), None)
    finally:
        close_recording()
    assert len(noted.steps) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 1000, (9 << 20) + 3])
def test_there_and_back_on_a_gpu(count: int):
    source = np.random.default_rng(0).integers(0, 255, count, np.uint8)
    s, device, back = Stream(), DeviceArray((count,), np.dtype(np.uint8)), np.zeros(count, np.uint8)
    memcpy(device, source, s)
    memcpy(back, device, s)
    s.synchronize()
    np.testing.assert_array_equal(back, source)
    locked = pinned(count, np.uint8)
    memcpy(locked, device, s)
    s.synchronize()
    np.testing.assert_array_equal(locked, source)


@pytest.mark.gpu
def test_arrays_of_other_libraries_on_a_gpu():
    cp, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    source, target = torch.arange(1000, device="cuda", dtype=torch.float32), cp.zeros(1000, cp.float32)
    s, back = Stream(), torch.zeros(1000)
    memcpy(target, source, s)
    memcpy(back, target, s)
    s.synchronize()
    assert (back == torch.arange(1000)).all()
