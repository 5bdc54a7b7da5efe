"""The CUDA driver's door: what failures become, how waits end, and what a fault on a GPU does to the process."""

import signal
import subprocess
import sys
import textwrap
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

from tessera.core.mistakes import ContextLost, CudaFailure
from tessera.core.source import Source, Span
from tessera.runtime import driver as door
from tessera.runtime.driver import Driver
from tessera.runtime.driver_data import Launched

ROOT = Path(__file__).parents[2]
SOURCE = Source("cell.py", "@kernel\ndef first(x): ...\n@kernel\ndef second(x): ...\n")
FIRST = Launched("first", Span("cell.py", 2, 5, 2, 10), SOURCE)
SECOND = Launched("second", Span("cell.py", 4, 5, 4, 11), SOURCE)


class Statuses:
    """cuda-bindings' enumeration of statuses."""

    CUDA_SUCCESS = 0

    def __call__(self, status: int) -> int:
        return status


def failing(**calls) -> Driver:
    """A driver whose functions give these statuses."""
    driver = Driver.__new__(Driver)
    driver.lost, driver.launched, driver.used = None, deque(), set()
    driver._api = SimpleNamespace(
        CUresult=Statuses(), CUstream=int, CUevent=int,
        cuGetErrorString=lambda status: (0, b"an illegal memory access was encountered"),
        **{name: (lambda *given, status=status: (status,)) for name, status in calls.items()},
    )  # fmt: skip
    return driver


def test_without_cuda_bindings_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(CudaFailure, match="cuda-bindings is not installed") as caught:
        Driver()
    assert "pip install 'tessera[cuda13]'" in caught.value.hint


def test_what_the_driver_refuses_is_said_in_its_words():
    with pytest.raises(CudaFailure, match="cuStreamDestroy: 1: an illegal memory access"):
        failing(cuStreamDestroy=1).close_stream(5)


def test_a_fault_of_the_kernel_is_reported_where_it_is_waited_for():
    driver = failing(cuStreamQuery=700)
    driver.launched.append((FIRST, 0))
    with pytest.raises(ContextLost, match="kernel first: an illegal memory access was encountered") as caught:
        driver.wait(0)
    assert "the process's CUDA context is lost" in caught.value.message
    assert caught.value.span == FIRST.span
    assert "line 2, column 5" in str(caught.value)


def test_the_kernels_it_may_have_been():
    driver = failing(cuStreamQuery=700)
    driver.launched.extend([(FIRST, 0), (SECOND, 0), (FIRST, 0), (SECOND, 7)])
    with pytest.raises(ContextLost, match="one of the kernels first, second") as caught:
        driver.wait(0)
    assert caught.value.span == SECOND.span
    assert [note.message for note in caught.value.notes] == ["kernel first, line 2 of cell.py"]


def test_kernels_whose_end_was_seen_are_not_suspected():
    driver = failing(cuStreamQuery=0)
    driver.launched.extend([(FIRST, 0), (SECOND, 7)])
    driver.wait(0)
    assert list(driver.launched) == [(SECOND, 7)]


def test_after_a_fault_everything_says_so():
    driver = failing(cuStreamQuery=700, cuCtxGetCurrent=0)
    driver.launched.append((FIRST, 0))
    with pytest.raises(ContextLost):
        driver.wait(0)
    with pytest.raises(ContextLost, match="an earlier fault cost this process its CUDA context"):
        driver.enter()
    with pytest.raises(ContextLost, match=r"earlier fault.*kernel first"):
        driver.failed(1, "cuLaunchKernelEx")


def test_nothing_has_used_the_driver_here(monkeypatch: pytest.MonkeyPatch):
    door.driver.cache_clear()
    assert door.loaded() is None


def run_on_gpu(text: str, **options) -> subprocess.Popen:
    program = (
        "import sys; sys.path[:0] = ['tests']\nfrom support import raw_kernels\nfrom tessera.runtime import cuda\n"
    )
    program += "from tessera.runtime.memory import to_device\nimport numpy as np\n" + textwrap.dedent(text)
    return subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)  # fmt: skip


@pytest.mark.gpu
def test_a_fault_on_a_gpu_loses_the_context_and_everything_says_so():
    process = run_on_gpu("""
        from tessera.core.mistakes import ContextLost
        launcher, null = cuda.CudaLauncher(raw_kernels.fault()), cuda.CudaLauncher(raw_kernels.null())
        x = to_device(np.zeros(8, np.float32))
        for _ in range(6):
            null(x)
        cuda.synchronize()
        launcher(x)
        try:
            cuda.synchronize()
        except ContextLost as error:
            print("first:", error)
        for number in range(3):
            try:
                null(x)
            except ContextLost as error:
                print("later:", error.message)
        try:
            to_device(np.zeros(8, np.float32))
        except ContextLost as error:
            print("memory:", error.message)
    """)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "TSR-E710" in out
    assert "kernel fault: an illegal memory access was encountered" in out
    assert "raw.py, line 1" in out
    assert out.count("later: an earlier fault cost this process its CUDA context") == 3
    assert "memory: an earlier fault" in out


@pytest.mark.gpu
def test_ctrl_c_ends_a_wait_for_a_kernel_within_half_a_second():
    process = run_on_gpu("""
        import time
        spin = cuda.CudaLauncher(raw_kernels.spin())
        x = to_device(np.zeros(8, np.float32))
        spin(x, 20_000_000_000)  # 10 s
        print("waiting", flush=True)
        try:
            cuda.synchronize()
        except KeyboardInterrupt:
            print("interrupted", time.time(), flush=True)
            import os
            os._exit(0)
    """)
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.5)
    sent = time.time()
    process.send_signal(signal.SIGINT)
    words = process.stdout.readline().split()
    process.communicate(timeout=60)
    assert words[0] == "interrupted"
    assert float(words[1]) - sent < 0.5
