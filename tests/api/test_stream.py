"""Streams as users write them, on the CPU and, where there is one, on a GPU."""

from types import ModuleType

import numpy as np
import pytest

import tessera
from tessera import stream
from tessera.core.errors.catalog import BadCapture, BadStream, BadTransfer, ExtentMismatch, NotAnArray, Race
from tessera.runtime.streams.streams import Stream

TEXT = """
@kernel
def axpy(a: f32, x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = a * x[i] + y[i]

@kernel tile[(32,)]
def shift(x: f32[n], y: mut f32[n]):
    i = launch.thread_id()
    if i < n:
        y[i] = x[i] + 1.0
"""


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    return tessera.compile_source(TEXT)


def arrays(n: int = 1000):
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32)


def test_launches_of_a_stream_are_done_when_it_is_waited_for(kernels: ModuleType):
    (x, y), s = arrays(), stream.new()
    for _ in range(5):
        kernels.axpy.on(s)(2.0, x, y)
    s.synchronize()
    np.testing.assert_array_equal(y, 10 * x + 1)


def test_grid_block_and_stream(kernels: ModuleType):
    (x, y), s = arrays(64), stream.new()
    kernels.shift[2, 32].on(s)(x, y)
    s.synchronize()
    np.testing.assert_array_equal(y, x + 1)
    kernels.shift[2, 32, s](y, x)
    s.synchronize()
    np.testing.assert_array_equal(x, y + 1)


def test_the_streams_own_syntax():
    space = tessera.compile_source(TEXT + """
import numpy as np
from tessera import stream
s1, s2 = stream.new(), stream.new()
host_x = np.arange(64, dtype=np.float32)
device_x, y = np.zeros_like(host_x), np.zeros_like(host_x)
stream.memcpy_async(dst=device_x, src=host_x, stream=s1)
s2.wait(s1.record())
shift[2, 32, stream=s2](device_x, y)
stream.synchronize()
""")  # fmt: skip
    np.testing.assert_array_equal(space.y, space.host_x + 1)


def test_a_launch_without_a_stream_comes_after_all_that_were_launched_before(kernels: ModuleType):
    x, y = arrays(1 << 20)
    s = stream.new()
    for _ in range(3):
        kernels.axpy.on(s)(1.0, x, y)
    kernels.axpy(1.0, x, y)
    np.testing.assert_array_equal(y, 4 * x + 1)


def test_mistakes_in_the_arguments_are_raised_at_once(kernels: ModuleType):
    s = stream.new()
    with pytest.raises(ExtentMismatch):
        kernels.axpy.on(s)(1.0, np.zeros(3, np.float32), np.zeros(4, np.float32))
    with pytest.raises(BadTransfer):
        stream.memcpy_async(dst=np.zeros(3), src=np.zeros(4), stream=s)
    with pytest.raises(NotAnArray):
        stream.memcpy_async(dst=np.zeros(6)[::2], src=np.zeros(3), stream=s)
    with pytest.raises(BadStream):
        stream.memcpy_async(dst=np.zeros(3), src=np.zeros(3), stream="s")
    s.synchronize()


def test_what_a_kernel_does_wrong_is_raised_where_its_stream_is_waited_for():
    racing = tessera.compile_source("""
@kernel(sanitize=True, tile=(32,))
def racing(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    y[0] = x[i]
""").racing
    s = stream.new()
    racing.on(s)(*arrays(32))
    with pytest.raises(Race) as caught:
        s.synchronize()
    assert "line 5" in str(caught.value)
    s.synchronize()


def test_a_cuda_stream_is_no_place_for_the_cpu(kernels: ModuleType):
    with pytest.raises(BadStream, match="cannot order kernels that run on the CPU"):
        kernels.axpy.on(0x1234)(1.0, *arrays())


def test_weights(kernels: ModuleType):
    assert (stream.new(weight=2).weight, stream.new().weight) == (2.0, 1.0)
    with pytest.raises(BadStream):
        stream.new(weight=0)


def test_waiting_is_no_part_of_a_graph(kernels: ModuleType):
    from tessera import graph  # noqa: PLC0415

    s = stream.new()
    event = s.record()
    for wait in (stream.synchronize, s.synchronize, event.wait):
        with pytest.raises(BadCapture, match="cannot be captured"), graph.capture():
            wait()


@pytest.mark.gpu
def test_the_specs_example_on_a_gpu(kernels: ModuleType):
    cp = pytest.importorskip("cupy")
    host_x, device_x = np.arange(1 << 20, dtype=np.float32), cp.zeros(1 << 20, cp.float32)
    y = cp.ones(1 << 20, cp.float32)
    s1, s2 = stream.new(), stream.new()
    stream.memcpy_async(dst=device_x, src=host_x, stream=s1)
    s2.wait(s1.record())
    for _ in range(6):
        kernels.axpy.on(s2)(2.0, device_x, y)
    out = stream.pinned(1 << 20)
    stream.memcpy_async(dst=out, src=y, stream=s2)
    stream.synchronize()
    np.testing.assert_array_equal(out, 12 * host_x + 1)


@pytest.mark.gpu
def test_streams_of_other_libraries_on_a_gpu(kernels: ModuleType):
    cp, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    x, y = torch.arange(1000, device="cuda", dtype=torch.float32), torch.ones(1000, device="cuda")
    torch.cuda.synchronize()
    theirs = torch.cuda.Stream()
    for _ in range(6):
        kernels.axpy.on(theirs)(1.0, x, y)
    theirs.synchronize()
    cupys = cp.cuda.Stream()
    kernels.axpy.on(cupys)(1.0, x, y)
    kernels.axpy.on(cupys.ptr)(1.0, x, y)
    cupys.synchronize()
    assert (y == 8 * x + 1).all()
    assert isinstance(stream.as_stream(cupys), Stream)


@pytest.mark.gpu
def test_our_launches_in_torchs_graph(kernels: ModuleType):
    torch = pytest.importorskip("torch")
    x, y = torch.arange(1000, device="cuda", dtype=torch.float32), torch.ones(1000, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(6):
            kernels.axpy.on(side)(0.0, x, y)
    side.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=side):
        kernels.axpy.on(side)(1.0, x, y)
        kernels.axpy.on(side)(2.0, x, y)
    captured.replay()
    captured.replay()
    torch.cuda.synchronize()
    assert (y == 6 * x + 1).all()
