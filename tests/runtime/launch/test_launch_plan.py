"""Launches made ready: what they take again, and what they leave to the launcher."""

import threading

import numpy as np
import pytest

from support import fake_cuda, raw_kernels
from support.fake_cuda import FakeDriver
from support.interrupts import interrupted
from tessera.core.artifact import Artifact
from tessera.core.errors.catalog import CudaFailure, OutOfDeviceMemory
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch import cuda
from tessera.runtime.launch.launch_plan import LaunchPlan
from tessera.runtime.memory.owned import DeviceArray, to_device


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(run=False))


def prepared(artifact: Artifact, *arguments: object) -> LaunchPlan:
    launcher = cuda.CudaLauncher(artifact)
    launcher(*arguments)
    ((made,),) = launcher._prepared.values()
    return made


def zeros() -> DeviceArray:
    return to_device(np.zeros((32, 64), np.float32))


def test_it_takes_calls_like_the_one_it_was_made_for(fake: FakeDriver):
    x = to_device(np.zeros(4, np.float32))
    launch = prepared(raw_kernels.spin(), x, 1)
    assert launch.launch((x, 2))
    assert launch.launch((x, 2), None, 9)
    assert fake.streams == [0, 0, 9]
    assert not launch.launch((x, 2, 3))
    assert not launch.launch((x, 2), Grid((1,)))
    assert not launch.launch((2, x))


def test_another_thread_has_its_own(fake: FakeDriver):
    x = to_device(np.zeros(4, np.float32))
    launch = prepared(raw_kernels.null(), x)
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(launch.launch((x,))))
    thread.start()
    thread.join()
    assert seen == [False]


def test_a_copy_stays_as_it_was(fake: FakeDriver):
    fake.keep = [8, 8]
    x = to_device(np.zeros(4, np.float32))
    launch = prepared(raw_kernels.spin(), x, 1)
    copy = launch.copy()
    launch.launch((x, 2))
    copy.set_stream(5)
    copy.begin()
    assert [int.from_bytes(given[1], "little") for given in fake.parameters] == [1, 2, 1]
    assert fake.streams == [0, 0, 5]


@pytest.mark.parametrize(("elements", "graphs"), [(1 << 10, 1), (1 << 22, 0)])
def test_launches_on_small_arrays_become_graphs(fake: FakeDriver, elements: int, graphs: int):
    x = to_device(np.zeros(elements, np.float32))
    launch = prepared(raw_kernels.null(), x)
    for _ in range(4):
        assert launch.launch((x,))
    assert fake.log.count(("replay", 0)) == graphs


def test_windows_follow_their_arrays(fake: FakeDriver):
    x, out = zeros(), to_device(np.zeros((2, 16, 64), np.float32))
    launch = prepared(raw_kernels.window(), x, out)
    other = zeros()
    assert launch.launch((other, out))
    assert [encoding.address for encoding in fake.encoded] == [x.address, other.address]
    ((slot, _, _),) = launch.windows
    start = launch.block.place(slot)
    for array, wanted in ((x, 1), (other, 2), (x, 1)):  # each array is described once
        assert launch.launch((array, out))
        assert launch.block.memory.raw[start : start + 128] == bytes([wanted]) * 128
    assert len(fake.encoded) == 2
    shifted = DeviceArray.__new__(DeviceArray)
    shifted.layout, shifted.device, shifted.address = x.layout, 0, x.address + 4
    assert not launch.launch((shifted, out))


def test_ctrl_c_at_any_time_leaves_no_launch_with_the_arguments_of_another(fake: FakeDriver):
    """The call that was interrupted, or the one before it, made again: each gets its own arguments and stream."""
    fake.keep = [8, 8]
    arrays = [to_device(np.zeros(4, np.float32)) for _ in range(2)]
    launcher = cuda.CudaLauncher(raw_kernels.spin())
    launcher(arrays[0], 0)

    def launch(number: int) -> None:
        launcher(arrays[number], number, stream=9 * number)

    line = 0
    while True:
        launch(0)
        if not interrupted(lambda: launch(1), line):
            break
        for again in (line % 2, 1 - line % 2):
            launch(again)
            pointer, value = (int.from_bytes(given, "little") for given in fake.parameters[-1])
            assert (pointer, value, fake.streams[-1]) == (arrays[again].address, again, 9 * again), line
        line += 1
    assert line > 30


@pytest.mark.parametrize("padded_rows", [False, True])
def test_ctrl_c_at_any_time_leaves_no_window_on_the_array_of_another(fake: FakeDriver, padded_rows: bool):
    fake.keep = [128, 8, 8] if not padded_rows else []
    arrays, out = [zeros() for _ in range(2)], to_device(np.zeros((2, 16, 64), np.float32))
    launch = prepared(raw_kernels.window(padded_rows=padded_rows), arrays[0], out)
    ((slot, _, _),) = launch.copies.windows if padded_rows else launch.windows
    start = launch.block.place(slot)

    def window() -> int:
        """Where the map that the last launch got is."""
        return fake.encoded[launch.block.memory.raw[start] - 1].address

    line = 0
    while True:
        assert launch.launch((arrays[0], out))
        if not interrupted(lambda: launch.launch((arrays[1], out)), line):
            break
        for again in (line % 2, 1 - line % 2):
            fake.log.clear()
            assert launch.launch((arrays[again], out))
            copied = [what[2] for what in fake.log if what[0] == "reserve"]
            assert window() == (copied[0] if padded_rows else arrays[again].address), line
        line += 1
    assert line > 20


def test_what_the_driver_refuses_names_the_kernel(fake: FakeDriver):
    x = to_device(np.zeros(4, np.float32))
    launch = prepared(raw_kernels.null(), x)
    fake.statuses = [701]
    with pytest.raises(CudaFailure, match="kernel null: cuLaunchKernelEx: 701") as caught:
        launch.launch((x,))
    assert caught.value.span == raw_kernels.SPAN


def test_too_little_memory_for_copies_names_their_arrays(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    def reserve(size: int, stream: int, device: int) -> int:
        raise OutOfDeviceMemory(f"{size} bytes are needed", hint="delete arrays")

    launch = prepared(raw_kernels.window(padded_rows=True), zeros(), to_device(np.zeros((2, 16, 64), np.float32)))
    monkeypatch.setattr(fake, "reserve", reserve)
    with pytest.raises(OutOfDeviceMemory) as caught:
        launch.begin()
    error = caught.value
    assert error.message == (
        "kernel window: a copy of x whose rows begin at multiples of 128 bytes: 8192 bytes are needed"
    )
    assert error.hint == "give x rows of a multiple of 16 bytes, which are read where they are; delete arrays"
    assert error.span == raw_kernels.SPAN


def test_too_little_memory_for_scratch_names_the_kernel(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    launch = prepared(raw_kernels.null(), to_device(np.zeros(4, np.float32)))
    launch.scratch = ((0, 1 << 20, False),)

    def allocate(size: int, stream: int) -> int:
        raise OutOfDeviceMemory(f"{size} bytes are needed")

    monkeypatch.setattr(fake, "allocate", allocate)
    with pytest.raises(OutOfDeviceMemory, match="kernel null: memory that the launch takes by itself: 1048576 bytes"):
        launch.begin()
