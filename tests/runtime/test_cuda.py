"""The CUDA launcher on a driver that runs PTX in this process (`ptx_machine`), and, where there is one, on a GPU."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from support import programs
from support.fake_cuda import FakeDriver
from support.simulate import compile_ptx
from tessera.core.mistakes import ArgumentCount, CudaFailure, ExtentMismatch, NotAnArray, ReadOnlyArray, ScalarRange
from tessera.core.targets import Target
from tessera.lowering.compile import compile_program
from tessera.lowering.target.cuda import architectures
from tessera.lowering.target.cuda.architectures import Architecture
from tessera.runtime import cuda, memory
from tessera.runtime.grid import Grid


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver()
    monkeypatch.setattr(cuda, "driver", lambda: driver)
    monkeypatch.setattr(memory.door, "driver", lambda: driver)
    return driver


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_device_arrays_are_used_where_they_lie(fake: FakeDriver):
    x, y = numbers(300), numbers(300) + 1
    dx, dy = fake.device_array(x), fake.device_array(y)
    artifact = compile_ptx(programs.saxpy())
    cuda.CudaLauncher(artifact)(dx, dy, 0.3)
    np.testing.assert_array_equal(dy.get(), np.float32(0.3) * x + y)
    assert fake.sizes == [(-(-300 // artifact.launch.lanes_per_group), artifact.launch.threads, 0)]
    assert fake.waited == 0
    assert len(fake.memory) == 2


def test_numpy_arrays_are_copied_there_and_back(fake: FakeDriver):
    x, y = numbers(300), numbers(300) + 1
    want = np.float32(0.3) * x + y
    before = x.copy()
    cuda.CudaLauncher(compile_ptx(programs.saxpy()))(x, y, 0.3)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(x, before)
    assert fake.waited == 1
    assert not fake.memory


def test_one_numpy_array_for_two_parameters_is_copied_once(fake: FakeDriver):
    y = numbers(40)
    want = np.float32(2) * y + y
    cuda.CudaLauncher(compile_ptx(programs.saxpy()))(y, y, 2.0)
    np.testing.assert_array_equal(y, want)


def test_an_explicit_grid(fake: FakeDriver):
    x, out = numbers(500), np.full(3, np.nan, np.float32)
    cuda.CudaLauncher(compile_ptx(programs.group_sum()))(x, out, grid=Grid((3,), (128,)))
    assert fake.sizes == [(3, 128, 0)]
    assert len(set(out.tolist())) == 1
    np.testing.assert_allclose(out[0], x.astype(np.float64).sum(), rtol=1e-5)


def test_nothing_to_do(fake: FakeDriver):
    cuda.CudaLauncher(compile_ptx(programs.saxpy()))(np.empty(0, np.float32), np.empty(0, np.float32), 1.0)
    assert fake.sizes == []


def test_private_memory_for_as_many_blocks_as_run_at_a_time(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(architectures.ARCHITECTURES, "sm_90a", Architecture("sm_90a", "+ptx80", 1))
    a, b, c = numbers(30, 6), numbers(6, 9), np.full((30, 9), np.nan, np.float32)
    cuda.CudaLauncher(compile_ptx(programs.matmul(8, 8, 4)))(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)
    assert fake.sizes[0][0] == 2  # of 4 x 2 groups
    assert not fake.memory


def test_large_shared_memory_is_asked_for(fake: FakeDriver):
    a, b, c = numbers(8, 8), numbers(8, 8), np.full((8, 8), np.nan, np.float32)
    artifact = compile_ptx(programs.matmul(64, 64, 128))
    cuda.CudaLauncher(artifact)(a, b, c)
    assert fake.sizes[0][2] == artifact.resources.shared_bytes > 48 * 1024


@pytest.mark.parametrize(
    ("arguments", "mistake", "words"),
    [
        ((numbers(4), numbers(5), 1.0), ExtentMismatch, "n = 4"),
        ((numbers(4), numbers(4)), ArgumentCount, "saxpy"),
        ((numbers(4), numbers(4), 1e60), ScalarRange, "alpha"),
        ((numbers(4).tolist(), numbers(4), 1.0), NotAnArray, "x needs an array on the GPU"),
        ((numbers(8)[::2], numbers(4), 1.0), NotAnArray, "x has gaps"),
    ],
)
def test_mistakes_run_nothing_and_leave_nothing(fake: FakeDriver, arguments, mistake, words: str):
    with pytest.raises(mistake, match=words):
        cuda.CudaLauncher(compile_ptx(programs.saxpy()))(*arguments)
    assert fake.sizes == []
    assert not fake.memory


def test_a_result_needs_a_writeable_array(fake: FakeDriver):
    y = numbers(4)
    y.flags.writeable = False
    with pytest.raises(ReadOnlyArray, match="y is written"):
        cuda.CudaLauncher(compile_ptx(programs.saxpy()))(numbers(4), y, 1.0)


@pytest.mark.gpu
def test_saxpy_on_a_gpu():
    cp = pytest.importorskip("cupy")
    x, y = numbers(100_003), numbers(100_003) + 1
    artifact = compile_program(programs.saxpy(), Target("cuda", cuda.device_architecture()), observe=False).artifact
    out = cp.asarray(y)
    cuda.CudaLauncher(artifact)(cp.asarray(x), out, 0.3)
    cuda.synchronize()
    np.testing.assert_array_equal(cp.asnumpy(out), np.float32(0.3) * x + y)
