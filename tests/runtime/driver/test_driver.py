"""The CUDA driver's door: there is one, and on a GPU, what a fault does to the process and how waits end."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tessera.core.errors.catalog import OutOfDeviceMemory
from tessera.runtime.driver import driver as door

ROOT = Path(__file__).parents[3]


def test_nothing_has_used_the_driver_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(door._Only, "driver", None)
    assert door.loaded() is None


def test_threads_that_are_first_at_once_get_one_driver(monkeypatch: pytest.MonkeyPatch):
    """A second one would not know of the faults and launches that the first one has seen."""
    monkeypatch.setattr(door._Only, "driver", None)
    asking = threading.Semaphore(0)

    class Slow:
        forked = False

        def __init__(self) -> None:
            for _ in range(2):  # until both are about to ask
                assert asking.acquire(timeout=60)

    monkeypatch.setattr(door, "Driver", Slow)
    found: list[Any] = []

    def ask() -> None:
        asking.release()
        found.append(door.driver())

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1]
    assert door.loaded() is found[0]


class Scarce(door.Driver):
    """A driver with a GPU with `available` bytes free, beside what caches hold, `cached`."""

    def __init__(self, available: int, cached: int, monkeypatch: pytest.MonkeyPatch, *, captures: bool = False) -> None:
        self.lost, self.available, self.cached, self.captures = None, available, cached, captures
        self.waited: list[int] = []
        self._api: Any = SimpleNamespace(cuMemAllocAsync=self._allocate)
        monkeypatch.setattr(door, "CACHES", [self._release])

    def _release(self) -> None:
        self.available, self.cached = self.available + self.cached, 0

    def _allocate(self, size: int, stream: int) -> tuple[int, int | None]:
        if size > self.available:
            return 2, None
        self.available -= size
        return 0, 0x1000

    def _call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - as the one that it stands for
        return {"cuMemGetInfo": (self.available, 141 * 10**9), "cuDeviceGetName": b"Fake"}.get(name, 0)

    @contextmanager
    def relaxed(self) -> Generator[None]:
        yield

    def capturing(self, stream: int) -> bool:
        return self.captures

    def wait(self, stream: int) -> None:
        self.waited.append(stream)

    def trim(self) -> None:
        pass


def test_caches_make_way_for_an_allocation(monkeypatch: pytest.MonkeyPatch):
    driver = Scarce(100, 60, monkeypatch)
    assert driver.allocate(90, 5) == 0x1000
    assert (driver.cached, driver.waited) == (60, [])
    assert driver.allocate(70, 5) == 0x1000
    assert (driver.cached, driver.waited) == (0, [0, 5])


def test_too_little_memory_is_said_with_figures(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(OutOfDeviceMemory) as caught:
        Scarce(3_200_000_000, 10**9, monkeypatch).allocate(68_700_000_000, 0)
    assert caught.value.message == "68.7 GB are needed, and 4.2 GB of the 141 GB of GPU 0 (Fake) are free"


def test_nothing_waits_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch):
    driver = Scarce(100, 60, monkeypatch, captures=True)
    with pytest.raises(OutOfDeviceMemory):
        driver.allocate(130, 5)
    assert (driver.cached, driver.waited) == (60, [])


def run_on_gpu(text: str) -> subprocess.Popen[str]:
    program = "import sys; sys.path[:0] = ['tests']\nfrom support import raw_kernels\nfrom tessera.runtime.launch import cuda\n"
    program += "from tessera.runtime.memory.owned import to_device\nimport numpy as np\n" + textwrap.dedent(text)
    return subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)  # fmt: skip


@pytest.mark.gpu
def test_a_fault_on_a_gpu_loses_the_context_and_everything_says_so():
    process = run_on_gpu("""
        from tessera.core.errors.catalog import ContextLost
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
