"""Copies with aligned rows: what they hold, and how long their memory lives."""

import gc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import fake_cuda, raw_kernels
from support.fake_cuda import FakeDriver
from tessera.core.artifact import PADDED_ROW_BYTES
from tessera.core.base.dtypes import bf16
from tessera.core.errors.catalog import CudaFailure
from tessera.runtime.launch import cuda, graph_replay
from tessera.runtime.memory.alignment_copies import PaddedRows, RowPadding, padded_strides
from tessera.runtime.memory.owned import DeviceArray, to_device
from tessera.runtime.streams.graph_capture import CapturedGraph
from tessera.runtime.streams.streams import Stream

SHAPE = (33, 31)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(run=False))


def test_rows_of_an_array():
    rows = PaddedRows.of((3, 5, 65), 2)
    assert (rows.count, rows.size, rows.pitch, rows.bytes) == (15, 130, 256, 15 * 256)


def test_strides_of_the_copy():
    assert padded_strides(np.zeros((4, 65), bf16.numpy)) == (256, 2)
    assert padded_strides(np.zeros((2, 3, 5, 7), np.float32)) == (15 * 128, 5 * 128, 128, 4)
    assert padded_strides(np.zeros(9, np.uint8)) == (1,)


@st.composite
def matrices(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Rows, bytes of a row, bytes before the first, and bytes behind the last."""
    size = draw(st.sampled_from([1, 2, 4, 8]))
    return draw(st.integers(1, 40)), size * draw(st.integers(1, 150)), size * draw(st.integers(0, 20)), 0


@settings(max_examples=12, deadline=None)
@given(st.lists(matrices(), min_size=1, max_size=3))
@example([(1, 1, 0, 0)])
@example([(300, 2, 2, 0), (1, 4098, 14, 0)])
@example([(130, 33, 15, 0), (7, 1024, 0, 0), (5, 16, 8, 0)])
def test_copies_hold_the_rows(shapes: list[tuple[int, int, int, int]]):
    fake = FakeDriver()
    random = np.random.default_rng(len(shapes))
    sources: list[int] = []
    wanted: list[np.ndarray] = []
    for count, size, before, _ in shapes:
        whole = before + count * size  # nothing behind the array is there to be read
        address = fake.allocate(whole, 0)
        fake.memory[address][:] = random.integers(0, 256, whole)
        wanted.append(fake.memory[address][before : before + count * size].reshape(count, size).copy())
        sources.append(address + before)
    copies = RowPadding(fake, [PaddedRows(count, size) for count, size, _, _ in shapes])
    memory = fake.allocate(copies.bytes, 0)
    assert copies.start(fake.context(), 5, sources, memory) == 0
    assert fake.streams == [5]
    for rows, offset in zip(wanted, copies.offsets, strict=True):
        pitch = PaddedRows(*rows.shape).pitch
        found = fake.memory[memory][offset : offset + len(rows) * pitch].reshape(len(rows), pitch)
        assert (found[:, : rows.shape[1]] == rows).all()


def arguments() -> tuple[DeviceArray, DeviceArray]:
    return to_device(np.zeros(SHAPE, np.float32)), to_device(np.zeros((3, 16, 64), np.float32))


def steps(fake: FakeDriver) -> list[tuple[str, int]]:
    """What was done with memory and launched since the last look, each with its stream."""
    found = [(str(what[0]), int(what[1])) for what in fake.log if what[0] in ("reserve", "launch", "free")]
    fake.log.clear()
    return found


def begun(stream: int) -> list[tuple[str, int]]:
    return [("reserve", stream), ("launch", stream), ("launch", stream), ("free", stream)]


def test_every_launch_copies_first_in_memory_of_its_own(fake: FakeDriver):
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=True))
    x, out = arguments()
    fake.log.clear()
    for stream in (0, 0, 7, 0, 0, 0):
        launcher(x, out, stream=stream)
        assert steps(fake) == begun(stream)
    assert not any(what[0] == "replay" for what in fake.log)


def test_windows_are_on_the_copy(fake: FakeDriver):
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=True))
    x, out = arguments()
    for _ in range(3):
        fake.log.clear()
        launcher(x, out)
        reserved = next(what[2] for what in fake.log if what[0] == "reserve")
        assert reserved in {each.address for each in fake.encoded}  # each place is described once
    assert {(each.extents, each.strides) for each in fake.encoded} == {((31, 33), (PADDED_ROW_BYTES,))}


def test_what_is_copied_follows_the_array(fake: FakeDriver):
    """Another array of the same shape, anywhere: it needs no alignment but that of its elements."""
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=True))
    x, out = arguments()
    launcher(x, out)
    shifted = DeviceArray.__new__(DeviceArray)
    shifted.layout, shifted.device, shifted.address = x.layout, 0, x.address + 4
    fake.keep = [8]
    assert launcher.run((shifted, out))
    assert int.from_bytes(fake.parameters[0][0], "little") == shifted.address


def test_a_map_that_is_refused_is_made_the_next_time(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=True))
    x, out = arguments()
    launch = launcher.prepare((x, out))
    assert launch is not None

    def refuse(address: int) -> bytes:
        raise CudaFailure("cuTensorMapEncodeTiled: 1")

    place = fake.allocate(1 << 16, 0)
    monkeypatch.setattr(fake, "reserve", lambda size, stream, device: place)  # always the same memory
    monkeypatch.setattr(fake, "free", lambda address, stream: None)
    copies = launch.copies
    assert copies is not None
    ((slot, number, _),) = copies.windows
    copies.windows = ((slot, number, refuse),)
    with pytest.raises(CudaFailure):
        launch.begin()
    copies.windows = ((slot, number, lambda address: bytes([7]) * 128),)
    launch.begin()
    assert launch.block.memory.raw[launch.block.place(slot)] == 7


def test_a_copied_launch_has_parameters_of_its_own(fake: FakeDriver):
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=True))
    x, out = arguments()
    first = launcher.prepare((x, out))
    assert first is not None
    first.begin()
    second = first.copy()
    first.begin()
    second.set_stream(9)
    fake.log.clear()
    second.begin()
    assert steps(fake) == begun(9)
    assert first.copies is not second.copies


def test_a_graph_holds_the_copy_too(fake: FakeDriver):
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=True))
    x, out = arguments()
    made = launcher.prepare((x, out))
    assert made is not None
    recording = CapturedGraph()
    recording.add(None, made)
    graph = graph_replay.Graph()
    graph.complete(recording)
    fake.log.clear()
    graph.launch()
    assert [what for what, _ in steps(fake)] == ["launch", "launch"]


@pytest.mark.parametrize("shape", [(0, 31), (33, 0)])
def test_nothing_is_copied_of_an_array_without_elements(fake: FakeDriver, shape: tuple[int, int]):
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=True))
    x, out = to_device(np.zeros(shape, np.float32)), arguments()[1]
    fake.log.clear()
    for _ in range(2):
        launcher(x, out)
        assert steps(fake) == [("launch", 0)]
    assert [each.extents for each in fake.encoded] == [(1, 1)]


def test_memory_is_given_back_when_the_launcher_goes(fake: FakeDriver):
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=True))
    launcher(*arguments())
    assert ("trim",) not in fake.log
    del launcher
    gc.collect()
    assert ("trim",) in fake.log


@pytest.mark.gpu
def test_on_hardware_zeros_lie_beyond_the_edges():
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=True))
    streams = [Stream(), Stream()]
    given_: list[DeviceArray] = []
    wanted: list[np.ndarray] = []
    outs: list[DeviceArray] = []
    for number in range(8):
        x = np.random.default_rng(number).standard_normal(SHAPE).astype(np.float32)
        padded = np.zeros((48, 64), np.float32)
        padded[: SHAPE[0], : SHAPE[1]] = x
        given_.append(to_device(x))
        wanted.append(padded.reshape(3, 16, 64))
        outs.append(to_device(np.full((3, 16, 64), np.nan, np.float32)))
    for number, (x, out) in enumerate(zip(given_, outs, strict=True)):
        launcher(x, out, stream=streams[number % 2])
    for stream in streams:
        stream.synchronize()
    for out, want in zip(outs, wanted, strict=True):
        assert (out.get() == want).all()
