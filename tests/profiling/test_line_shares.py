"""The share of time of each line: the line that works has it, in every phase, and nothing is written."""

import dataclasses
import gc
import threading

import numpy as np
import pytest

import tessera
from support.profiles import MACHINE
from tessera.kernels.kernel import Kernel
from tessera.profiling.line_shares import LineShares, line_shares
from tessera.runtime.launch.program_counters import can_sample

pytestmark = pytest.mark.skipif(not can_sample(), reason="not Linux on x86-64")
ONE = """
@kernel
def one(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        a = x[i] + 1.0
        for k in range(60):
            a = tile.sin(a)
        y[i] = a
"""
TWO = """
@kernel
def two(x: f32[rows, cols], h: mut f32[rows, cols], y: mut f32[rows, cols]):
    for r in tile.range(rows):
        h[r, :] = tile.sin(tile.exp(tile.cos(tile.exp(x[r, :]))))
    for r in tile.range(rows):
        y[r, :] = tile.cos(tile.exp(tile.sin(tile.exp(h[rows - 1 - r, :]))))
"""


def kernel_of(text: str, name: str = "<source>") -> Kernel:
    return next(value for value in vars(tessera.compile_source(text, name)).values() if isinstance(value, Kernel))


def shares_of(text: str, *arrays: np.ndarray, name: str = "<source>") -> LineShares:
    kernel = kernel_of(text, name)
    profile = tessera.profile(kernel)(*arrays)
    before = [array.copy() for array in arrays]
    found = line_shares(profile)
    for array, then in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, then)
    assert found is not None
    assert found.samples >= 50
    assert sum(found.lines.values()) + found.unattributed == pytest.approx(1.0)
    assert sum(found.counts) == found.samples
    assert list(found.assembly) == [line.text for line in kernel.last.listing("asm").lines if not is_head(line.text)]
    return found


def is_head(text: str) -> bool:
    """Whether a line of a listing says which phase begins."""
    return text.startswith(("phase ", "// phase "))


def test_the_line_that_works_has_the_time():
    x = np.linspace(0, 1, 200_000, dtype=np.float32)
    found = shares_of(ONE, x, np.zeros_like(x))
    assert max(found.lines, key=lambda line: found.lines[line]) == 8
    assert found.lines[8] > 0.7


def test_instructions_of_the_line_that_works_have_the_samples():
    x = np.linspace(0, 1, 200_000, dtype=np.float32)
    found = shares_of(ONE, x, np.zeros_like(x))
    hottest = max(range(len(found.counts)), key=lambda line: found.counts[line])
    assert not found.assembly[hottest].endswith(":")
    assert found.counts[hottest] >= found.samples / len(found.counts)


@pytest.mark.parametrize("name", ["/tmp/ipykernel_17/1423463107.py", "folder/kernels.py"])
def test_a_kernel_that_was_compiled_elsewhere_before(name: str):
    """Cells and modules have paths; a kernel that is known keeps its code when lines are added above it."""
    x = np.linspace(0, 1, 200_000, dtype=np.float32)
    for moved in (0, 3):
        found = shares_of("\n" * moved + ONE, x, np.zeros_like(x), name=f"{moved}{name}" if moved else name)
        assert max(found.lines, key=lambda line: found.lines[line]) == 8 + moved


def test_every_phase_is_seen():
    x = np.linspace(0, 1, 400_000, dtype=np.float32).reshape(400, 1000)
    found = shares_of(TWO, x, np.zeros_like(x), np.zeros_like(x))
    assert min(found.lines[5], found.lines[7]) > 0.15


def test_threads_that_wait_for_something_else_cost_nothing():
    ended = threading.Event()
    threads = [threading.Thread(target=ended.wait) for _ in range(200)]
    try:
        for thread in threads:
            thread.start()
        test_every_phase_is_seen()
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_there_is_nothing_to_say():
    x = np.linspace(0, 1, 50_000, dtype=np.float32)
    y = np.zeros_like(x)
    kernel = kernel_of(ONE)
    profile = tessera.profile(kernel)(x, y)
    assert MACHINE.on_gpu
    assert line_shares(dataclasses.replace(profile, machine=MACHINE)) is None
    del y
    gc.collect()
    assert line_shares(profile) is None  # the arguments are gone
    short = np.zeros(4, np.float32)
    assert line_shares(tessera.profile(kernel)(short[:0], short[:0])) is None
