"""Launching artifacts: results, the two ways to run, mistakes before anything is written, interrupts."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from support.artifacts import array, endless_artifact, number, object_code, scale_artifact
from support.interrupts import ctrl_c_inside
from tessera.core.artifact import LaunchRule, Slot
from tessera.core.base import dtypes
from tessera.core.errors.catalog import ExtentMismatch, ScalarRange
from tessera.core.settings import overridden
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.cpu import CpuLauncher


@given(st.integers(0, 1000), st.sampled_from([1, 2, 5]), st.booleans())
def test_every_element_is_computed(n: int, threads: int, bounded: bool):
    x = np.arange(n, dtype=np.float32)
    y = np.full(n, -1, np.float32)
    with overridden(threads=threads):
        CpuLauncher(scale_artifact(bounded=bounded))(x, y, 3.0)
    np.testing.assert_array_equal(y, 3 * x)


def test_large_arrays():
    x = np.arange(1 << 18, dtype=np.float32)
    y = np.zeros_like(x)
    CpuLauncher(scale_artifact())(x, y, 2.0)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("elements", "aliased", "quick"), [(40_000, True, True), (40_000, False, False), (100, False, True)]
)
def test_small_launches_wake_no_thread(elements: int, aliased: bool, quick: bool):
    """Parts of one array are parameters each: it counts once."""
    x = np.ones(elements, np.float32)
    y = x[:] if aliased else np.zeros_like(x)
    launch = CpuLauncher(scale_artifact()).prepare((x, y, 2.0))
    assert launch is not None
    assert launch.quick == quick
    launch.run()
    assert (y == 2).all()


def test_an_explicit_grid():
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    CpuLauncher(scale_artifact())(x, y, 2.0, grid=Grid((2,), (128,)))
    assert (y[:256] == 2).all()
    assert not y[256:].any()


def test_other_arrays_are_written_in_place():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    CpuLauncher(scale_artifact())(memoryview(x), memoryview(y), np.float64(2))  # pyright: ignore[reportArgumentType] - NumPy does not tell types that its arrays are buffers
    assert (y == 2).all()


def test_run_declines_what_is_not_exactly_right():
    launcher = CpuLauncher(scale_artifact())
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert launcher.run((x, y, 2.0))
    assert not launcher.run((x, y))
    assert not launcher.run((x, y, 2))
    assert not launcher.run((x, y.astype(np.float64), 2.0))


def test_a_mistake_writes_nothing():
    x, y = np.ones(4, np.float32), np.zeros(5, np.float32)
    with pytest.raises(ExtentMismatch):
        CpuLauncher(scale_artifact())(x, y, 2.0)
    assert not y.any()


def test_a_number_too_large_for_its_slot():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    launcher = CpuLauncher(scale_artifact())
    with pytest.raises(ScalarRange, match=r"alpha = 1e\+39 is too large for f32"):
        launcher(x, y, 1e39)
    launcher(x, y, float("inf"))
    assert np.isinf(y).all()
    launcher(x, y, float("nan"))
    assert np.isnan(y).all()


@pytest.mark.parametrize("value", [1e300, 70000.0])
def test_a_number_too_large_for_half(value: float):
    artifact = scale_artifact(
        key="half", bindings=(array("x", "n"), array("y", "n", mutable=True), number("alpha", dtypes.f16))
    )
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(ScalarRange, match="is too large for f16"):
        CpuLauncher(artifact)(x, y, value)


def test_a_kernel_without_parameters():
    artifact = scale_artifact(
        key="nothing", bindings=(), symbols=(), slots=(), launch=LaunchRule("single"), code=_nothing()
    )
    assert CpuLauncher(artifact).run(())


def _nothing() -> bytes:
    return object_code("define i32 @entry(ptr %a, i64 %b, i64 %c, ptr %d, ptr %e) {\n  ret i32 0\n}\n")


def test_one_slot():
    artifact = scale_artifact(key="one", slots=(Slot("lanes"),), code=_nothing())
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert CpuLauncher(artifact).run((x, y, 1.0))


def test_an_interrupt_ends_a_launch_and_leaves_everything_usable():
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    with ctrl_c_inside(CpuLauncher.__call__, begun=lambda: bool(y[0] == 1.0)):
        CpuLauncher(endless_artifact())(x, y, 1.0)
    CpuLauncher(scale_artifact())(x + 1, y, 5.0)
    assert (y == 5).all()


def test_an_interrupt_ends_loops_of_constant_length():
    """A small launch, which would run in this thread if the length of its loop were not looked at."""
    text = """
@kernel(target="cpu")
def slow(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=64):
        s = tile.zeros((64,), f32)
        for k in range(1 << 40):
            s = s * 0.5 + x[t : t + 64]
        y[t : t + 64] = s
"""
    slow = tessera.compile_source(text).slow
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    slow.compile(x, y)
    with ctrl_c_inside(CpuLauncher.__call__):
        slow(x, y)


def test_many_threads_launch_one_kernel():
    launcher = CpuLauncher(scale_artifact())
    outputs = [np.zeros(3000, np.float32) for _ in range(6)]

    def work(index: int) -> None:
        x = np.full(3000, index, np.float32)
        for _ in range(20):
            launcher(x, outputs[index], 2.0)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, y in enumerate(outputs):
        assert (y == 2 * index).all()
