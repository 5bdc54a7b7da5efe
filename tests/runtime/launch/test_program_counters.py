"""Program counters of threads: where they are is seen, and nothing of it stays."""

import ctypes
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tessera
from support.interrupts import ctrl_c_inside
from tessera.core.settings import overridden
from tessera.runtime.launch.object_code import load
from tessera.runtime.launch.program_counters import LEAST, PERIOD, can_sample, sampling
from tessera.runtime.launch.thread_pool import pool

pytestmark = pytest.mark.skipif(not can_sample(), reason="not Linux on x86-64")
KERNEL = """
@kernel
def heavy(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = tile.sin(x[i]) + tile.exp(x[i])
"""


def busy(seconds: float) -> None:
    """Use a core for so long: samples are taken by its time, which a loaded machine gives late."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_the_threads_of_a_kernel_are_seen_in_its_code():
    kernel = tessera.compile_source(KERNEL).heavy
    x = np.linspace(0, 1, 1_000_000, dtype=np.float32)
    y = np.zeros_like(x)
    kernel(x, y)
    artifact = kernel.last.artifact
    loaded = load(artifact)
    with sampling() as addresses:
        for _ in range(60):
            kernel(x, y)
        found = addresses()
    inside = (found >= loaded.address) & (found < loaded.address + len(artifact.code))
    assert inside.sum() > 20
    np.testing.assert_allclose(y, np.sin(x) + np.exp(x), rtol=1e-5)


def test_nothing_is_sampled_afterwards():
    before = signal.getsignal(signal.SIGPROF)
    with sampling() as addresses:
        busy(0.1)
    busy(0.02)  # a signal that was on its way when the timer stopped
    ended = len(addresses())
    assert ended > 0
    busy(0.1)
    assert len(addresses()) == ended
    assert signal.getsignal(signal.SIGPROF) == before


def test_a_handler_of_the_user_is_put_back():
    got: list[int] = []
    before = signal.signal(signal.SIGPROF, lambda number, _: got.append(number))
    try:
        with sampling():
            busy(0.05)
        assert got == []
        signal.raise_signal(signal.SIGPROF)
        assert got == [signal.SIGPROF]
    finally:
        signal.signal(signal.SIGPROF, before)


def test_threads_that_end_meanwhile():
    kernel = tessera.compile_source(KERNEL).heavy
    x = np.linspace(0, 1, 1000, dtype=np.float32)
    with sampling() as addresses:
        for threads in (3, 1, 2):  # each time the threads of before end
            with overridden(threads=threads):
                kernel(x, np.zeros_like(x))
        busy(0.05)
        assert len(addresses()) > 0
    with sampling() as addresses:
        busy(0.05)
        assert len(addresses()) > 0


def test_other_threads_are_left_alone():
    ended, began = threading.Event(), time.monotonic()
    threads = [threading.Thread(target=ended.wait) for _ in range(100)]
    try:
        for thread in threads:
            thread.start()
        with sampling() as addresses:
            busy(0.05)
            found, passed = len(addresses()), time.monotonic() - began
        assert 0 < found <= (len(pool().threads()) + 1) * (passed / PERIOD + 1)
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_an_interrupt_ends_it():
    before = signal.getsignal(signal.SIGPROF)
    with ctrl_c_inside(busy), sampling():
        busy(60.0)
    assert signal.getsignal(signal.SIGPROF) == before
    with sampling() as addresses:
        busy(0.05)
        assert len(addresses()) > 0


def test_children_do_not_ignore_the_signal():
    with sampling():
        busy(0.02)
    code = "import signal; print(signal.getsignal(signal.SIGPROF) == signal.SIG_DFL)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_more_samples_than_there_is_room_for():
    with sampling(period=LEAST) as addresses:
        busy(2.0)
        found = addresses()
    assert 0 < len(found) <= 1 << 16
    with pytest.raises(ValueError, match="at least 20 microseconds"), sampling(period=1e-6):
        busy(60.0)
    assert found.dtype == np.uint64
    assert found.all()
    assert ctypes.sizeof(ctypes.c_void_p) == 8
