"""The CUDA driver's door: there is one, and on a GPU, what a fault does to the process and how waits end."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

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
