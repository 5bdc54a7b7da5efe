"""Launches that name no stream: in the order of the libraries that their arrays are of."""

from types import SimpleNamespace

import numpy as np
import pytest

import tessera
from support import fake_cuda, fake_libraries, programs, raw_kernels
from support.fake_cuda import FakeDriver
from support.fake_libraries import Libraries
from support.simulate import compile_ptx
from tessera import graph, stream
from tessera.core.errors.catalog import BadCapture
from tessera.runtime.arrays.interop import default_stream
from tessera.runtime.binding.current_stream import ArgumentStreams, forbid_in_capture, settle
from tessera.runtime.launch import cuda
from tessera.runtime.memory.owned import to_device

X = np.arange(64, dtype=np.float32)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver())


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> Libraries:
    return fake_libraries.install(monkeypatch, fake)


@pytest.fixture
def saxpy() -> cuda.CudaLauncher:
    return cuda.CudaLauncher(compile_ptx(programs.saxpy()))


def events(fake: FakeDriver) -> list[tuple[object, ...]]:
    return [entry[:2] for entry in fake.log if entry[0] in ("record", "follow", "launch", "replay", "wait")]


def test_launches_go_where_the_library_is_at_work(others: Libraries, fake: FakeDriver, saxpy: cuda.CudaLauncher):
    x, y = others.tensor(X), others.tensor(X)
    for current in (0, 0, 77, 77, 78, 0, 0, 77):
        others.torch_stream = current
        saxpy(x, y, 1.0)
    assert fake.streams == [0, 0, 77, 77, 78, 0, 0, 77]
    a, b = others.array(X), others.array(X)
    for current in (0, 88, 89, 0):
        others.cupy_stream = SimpleNamespace(ptr=current)
        saxpy(a, b, 1.0)
    assert fake.streams[8:] == [0, 88, 89, 0]
    saxpy(x, y, 1.0, stream=5)  # one that is named
    assert fake.streams[12:] == [5]


def test_only_the_default_stream_has_launches_that_are_graphs(others: Libraries, fake: FakeDriver):
    """Any other stream may be capturing."""
    launcher, x = cuda.CudaLauncher(raw_kernels.null()), others.tensor(X)
    fake.run = False
    for _ in range(6):
        launcher(x)
    assert ("replay", 0) in fake.log
    before = fake.log.count(("replay", 0))
    others.torch_stream = 77
    for _ in range(6):
        launcher(x)
    assert fake.log.count(("replay", 0)) == before
    assert ("replay", 77) not in fake.log


@pytest.mark.parametrize("times", [1, 2])  # in full, and as the last call
def test_the_first_array_decides_and_the_others_are_ordered(
    others: Libraries, fake: FakeDriver, saxpy: cuda.CudaLauncher, times: int
):
    others.torch_stream, others.cupy_stream = 77, SimpleNamespace(ptr=88)
    x, y = others.tensor(X), others.array(X)
    for _ in range(times):
        fake.log.clear()
        saxpy(x, y, 1.0)
    assert events(fake) == [("record", 88), ("follow", 77), ("launch", 77), ("record", 77), ("follow", 88)]
    assert not fake.events
    fake.log.clear()
    others.cupy_stream = SimpleNamespace(ptr=77)  # both on one: nothing to order
    saxpy(x, y, 1.0)
    assert events(fake) == [("launch", 77)]
    fake.log.clear()
    saxpy(to_device(X), x, 1.0)  # our own arrays are worked on in the default stream
    assert events(fake)[-5:] == [("record", 77), ("follow", 0), ("launch", 0), ("record", 0), ("follow", 77)]


@pytest.mark.parametrize("times", [1, 2])
def test_jax_is_waited_for(others: Libraries, fake: FakeDriver, saxpy: cuda.CudaLauncher, times: int):
    x, y = others.frozen(X), others.tensor(X)
    for _ in range(times):
        fake.log.clear()
        saxpy(x, y, 1.0)
    assert events(fake) == [("launch", 0), ("wait", 0)]


def test_numpy_arrays_go_along(others: Libraries, fake: FakeDriver, saxpy: cuda.CudaLauncher):
    others.torch_stream, y = 77, X.copy()
    saxpy(others.tensor(X), y, 2.0)
    np.testing.assert_array_equal(y, 3 * X)
    assert fake.streams == [77]


def test_the_company_of_a_call(others: Libraries):
    tensor, array = others.tensor(X), others.array(X)
    one = ArgumentStreams.of((X, 1.0, tensor, tensor, array), 0)
    assert one.current() == 0
    assert len(one.others) == 1
    assert not one.alone
    assert ArgumentStreams.of((X, 2.0), 0) == ArgumentStreams(default_stream)
    assert ArgumentStreams.of((tensor,), 0).alone
    both = ArgumentStreams.of((array,), 0).together(ArgumentStreams.of((tensor, others.frozen(X)), 0))
    assert both.current is ArgumentStreams.of((array,), 0).current
    assert len(both.others) == 2
    assert both.waits
    assert not both.agrees(0)
    assert both.together(both) == both


def test_what_is_captured_is_not_ordered_or_waited_for(others: Libraries, fake: FakeDriver, saxpy: cuda.CudaLauncher):
    arrays = [others.tensor(X), others.array(X), others.frozen(X), others.tensor(X)]
    others.torch_stream, others.cupy_stream = 77, SimpleNamespace(ptr=88)
    fake.begin_capture(77)
    for y in arrays[1:] * 2:
        saxpy(arrays[0], y, 1.0)
    captured = fake.end_capture(77)
    assert len(captured) == 6
    assert events(fake) == []


def test_code_is_loaded_beside_a_capture(others: Libraries, fake: FakeDriver):
    others.torch_stream = 77
    fake.begin_capture(77)
    fake.log.clear()
    cuda.CudaLauncher(compile_ptx(programs.saxpy()))(others.tensor(X), others.tensor(X), 1.0)
    assert fake.loads == [0]
    assert fake.log == []
    assert len(fake.end_capture(77)) == 1


def test_a_copy_of_a_numpy_array_cannot_be_captured(others: Libraries, fake: FakeDriver, saxpy: cuda.CudaLauncher):
    others.torch_stream = 77
    fake.begin_capture(77)
    with pytest.raises(BadCapture, match="y is a NumPy array, and its copy to the GPU cannot be captured") as caught:
        saxpy(others.tensor(X), X.copy(), 1.0)
    assert "before the capture" in caught.value.hint
    assert fake.end_capture(77) == []


def test_measuring_cannot_be_captured(others: Libraries, fake: FakeDriver):
    others.torch_stream, x = 77, others.tensor(X)
    forbid_in_capture((X, x), "profiling a kernel")
    fake.begin_capture(77)
    with pytest.raises(BadCapture, match="profiling a kernel cannot be captured") as caught:
        forbid_in_capture((X, x), "profiling a kernel")
    assert caught.value.hint == "call the kernel once before the capture"
    forbid_in_capture((X, 1.0), "profiling a kernel")


def test_copies_on_the_default_stream_see_what_the_libraries_have_done(others: Libraries, fake: FakeDriver):
    others.torch_stream = 77
    fake.log.clear()
    settle(fake, (others.tensor(X), others.array(X)), 0)
    assert events(fake) == [("record", 77), ("follow", 0)]


def test_our_own_graphs_go_where_their_arrays_are_worked_on(others: Libraries, fake: FakeDriver):
    from tessera.runtime.launch.on_stream import record_launch  # noqa: PLC0415
    from tessera.runtime.streams.graph_capture import recording  # noqa: PLC0415

    launcher = cuda.CudaLauncher(compile_ptx(programs.saxpy()))
    x, y = others.tensor(X), others.array(X)
    with graph.capture() as made:
        noted = recording()
        assert noted is not None
        record_launch(noted, None, launcher, (x, y, 1.0), None)
    others.torch_stream, others.cupy_stream = 77, SimpleNamespace(ptr=77)
    fake.log.clear()
    graph.launch(made)
    others.cupy_stream = SimpleNamespace(ptr=88)
    graph.launch(made)
    assert [entry for entry in events(fake) if entry[0] != "launch"] == [
        ("replay", 77), ("record", 88), ("follow", 77), ("replay", 77), ("record", 77), ("follow", 88),
    ]  # fmt: skip


def test_waiting_for_everything_waits_for_streams_that_were_current(others: Libraries, fake: FakeDriver):
    others.torch_stream = 77
    cuda.CudaLauncher(compile_ptx(programs.saxpy()))(others.tensor(X), others.tensor(X), 1.0)
    others.torch_stream = 0
    fake.log.clear()
    stream.synchronize()
    assert ("wait", 0) in fake.log
    assert ("wait", 77) in fake.log


# -- real libraries ----------------------------------------------------------------------------------------------------

SOURCE = """
@kernel
def add_one(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = x[i] + 1.0
"""
N = 1 << 22


@pytest.mark.gpu
def test_torch_side_streams():
    torch = pytest.importorskip("torch")
    add_one = tessera.compile_source(SOURCE).add_one
    x, y = (torch.zeros(N, device="cuda") for _ in range(2))
    for value in range(20):
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(20_000_000)
            x.fill_(value)
            add_one(x, y)
            total = y.sum(dtype=torch.float64)
        torch.cuda.synchronize()
        assert float(total) == N * (value + 1)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(20_000_000)
        x.fill_(99)
        add_one(x, y)
    stream.synchronize()
    assert bool((y.cpu() == 100).all())


@pytest.mark.gpu
@pytest.mark.parametrize("before", [True, False])
def test_torch_captures_launches(before: bool):
    torch = pytest.importorskip("torch")
    add_one = tessera.compile_source(SOURCE).add_one
    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    if before:
        add_one(x, y)
        y.zero_()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        add_one(x, y)
        z = y * 2
    assert not y.any()
    x.fill_(5)
    captured.replay()
    torch.cuda.synchronize()
    assert bool((y == 6).all())
    assert bool((z == 12).all())


@pytest.mark.gpu
def test_cupy_side_streams_and_captures():
    cp = pytest.importorskip("cupy")
    add_one = tessera.compile_source(SOURCE).add_one
    x, y = cp.zeros(N, cp.float32), cp.zeros(N, cp.float32)
    for value in range(20):
        with cp.cuda.Stream(non_blocking=True) as side:
            for _ in range(50):
                x.fill(-1.0)
            x.fill(value)
            add_one(x, y)
            total = y.sum(dtype=cp.float64)
        side.synchronize()
        assert float(total) == N * (value + 1)
    with cp.cuda.Stream(non_blocking=True) as side:
        side.begin_capture()
        add_one(x, y)
        captured = side.end_capture()
    x.fill(5)
    cp.cuda.Device().synchronize()
    captured.launch()
    cp.cuda.Device().synchronize()
    assert bool((y == 6).all())
