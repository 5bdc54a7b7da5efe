"""`tessera.profile`: real launches on the CPU, the driver that runs PTX in this process, and, where there is one, a GPU."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
import pytest

import tessera
from support import fake_libraries
from support.fake_cuda import FakeDriver
from tessera import autotune, graph, ops
from tessera.core.errors.catalog import (
    ArgumentCount,
    BadCapture,
    BadKernelOption,
    ExtentMismatch,
    NotAvailableYet,
    WrongDevice,
)
from tessera.core.events import TileRan, subscribe
from tessera.core.program.program import Program
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.lowering.artifact_cache.store import CacheEntry, entry_of
from tessera.lowering.driver.compile import compile_program
from tessera.performance import device_model
from tessera.profiling.profile import Profiler, sparser, with_possible_peaks
from tessera.profiling.results import Profile
from tessera.runtime.binding.grid import Grid
from tessera.runtime.driver import driver
from tessera.runtime.launch import cuda
from tessera.runtime.memory import device_arrays
from tessera.session.session import Session

SOURCE = """
@kernel
def gemm(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=32, BN=32, BK=32):
        tile.mma_sync(i, j, l)

@kernel
def added(x: f32[n], y: mut f32[n], a: f32 = 2.0):
    for t in tile.range(n, step=64):
        y[t:t+64] = y[t:t+64] + x[t:t+64] * a

@kernel(tile=(32,))
def doubled(x: f32[n], y: mut f32[n]):
    i = tile.group_id(0) * 32 + tile.linear_id()
    if i < n:
        y[i] = 2.0 * x[i]

@kernel
def rows(x: f32[n, m], y: mut f32[n, m]):
    y[:, :] = tile.softmax(x[:, :], axis=-1)

@kernel.autotune(space=dict(STEP=[16, 64]))
def phased(x: f32[n, 16], y: mut f32[n, 16], total: mut f32[16]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP, :] = x[t:t+STEP, :] * 2.0
    for r in tile.range(n):
        total[:] += y[r, :]

@kernel.autotune(space=dict(STEP=[32, 64]))
def tuned(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = y[t:t+STEP] + x[t:t+STEP]
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with overridden(cache_dir=tmp_path_factory.mktemp("cache")):
        yield tessera.compile_source(SOURCE)


def arrays(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32)


def check(profile: Profile, groups: int) -> None:
    tiles = profile.tiles
    assert len(tiles) == profile.work.groups == groups
    assert min(tile.start for tile in tiles) == 0.0
    assert all(0 <= tile.start < tile.end <= profile.span for tile in tiles)
    assert len(profile.plain) == len(profile.instrumented) >= 3
    assert json.loads(profile.to_json())["groups"] == groups
    assert len(profile.to_dict()["tiles"]["start"]) == groups
    assert "tiles" not in profile.to_dict(tiles=False)


def test_the_call_is_made_once(module: ModuleType):
    x, y = arrays(1000)
    profile = tessera.profile(module.added)(x, y, a=3.0)
    np.testing.assert_array_equal(y, 1 + 3 * x)
    check(profile, 16)
    assert profile.target.startswith("cpu:")
    assert sum(tile.read for tile in profile.tiles) == 8000
    assert profile.tiles[15].read == 8 * 40
    assert profile.tiles[-1].written == 4 * 40
    assert profile.tiles[2:4] == [profile.tiles[2], profile.tiles[3]]
    assert profile.work.least_bytes == 12000
    assert profile.work.total_flops == 2048


def test_every_tile_is_told(module: ModuleType):
    x = np.ones(256, np.float32)
    told: list[TileRan] = []
    with subscribe(told.append, TileRan):
        found = tessera.profile(module.added)(x, x.copy())
    assert len(told) == len(found.tiles) > 0
    assert told == [TileRan("added", tile.index, tile.unit, tile.start, tile.end, tile.phases) for tile in found.tiles]


def test_products_and_their_roofline(module: ModuleType):
    a, b = (np.random.default_rng(0).standard_normal((128, 96)).astype(np.float32) for _ in range(2))
    c = np.zeros((128, 128), np.float32)
    profile = tessera.profile(module.gemm)(a, b.T.copy(), c)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-4)
    check(profile, 16)
    assert profile.work.by_kind == {"dot f32": 2 * 128 * 128 * 96}
    assert profile.roofline.intensity == pytest.approx(2 * 128 * 128 * 96 / (4 * (2 * 128 * 96 + 128 * 128)))
    assert profile.flops == pytest.approx(profile.work.total_flops / profile.wall)
    assert profile.attained == pytest.approx(profile.roofline.floor / profile.wall)
    assert all(0 < busy <= profile.span for busy in profile.busy.values())


def test_a_grid_of_the_users(module: ModuleType):
    x, y = arrays(100)
    for profiler in (tessera.profile(module.doubled, grid=2), tessera.profile(module.doubled)[2, 32]):
        y[:] = 0
        check(profiler(x, y), 2)
        np.testing.assert_array_equal(y, np.where(x < 64, 2 * x, 0.0))
    assert tessera.profile(module.doubled, grid=((2,), (32,))) == Profiler(module.doubled, Grid((2,), (32,)))


def test_rows_that_the_compiler_spreads(module: ModuleType):
    x = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    y = np.zeros_like(x)
    profile = tessera.profile(module.rows)(x, y)
    np.testing.assert_allclose(y.sum(1), 1.0, rtol=1e-5)
    assert profile.work.least_bytes == 2 * x.nbytes
    assert sum(tile.read for tile in profile.tiles) == pytest.approx(x.nbytes)


def test_a_tuned_kernel(module: ModuleType):
    x, y = arrays(300)
    profile = tessera.profile(module.tuned)(x, y)
    np.testing.assert_array_equal(y, 1 + x)
    check(profile, -(-300 // dict(module.tuned.last.program.options)["STEP"]))


def test_strided_and_repeated_arguments(module: ModuleType):
    x, y = np.zeros(400, np.float32)[::2], np.ones(400, np.float32)
    tessera.profile(module.added)(x, y[::2], 1.0)
    np.testing.assert_array_equal(y, np.ones(400))
    z = np.ones(100, np.float32)
    tessera.profile(module.added)(z, z, 2.0)
    np.testing.assert_array_equal(z, np.full(100, 3.0))


def test_mistakes_write_nothing(module: ModuleType):
    x, y = arrays(100)
    with pytest.raises(ArgumentCount):
        tessera.profile(module.added)(x)
    with pytest.raises(ExtentMismatch):
        tessera.profile(module.added)(x[:50], y, 2.0)
    with overridden(target="interpret"), pytest.raises(NotAvailableYet, match="interpret has no profile"):
        tessera.profile(module.added)(x, y, 2.0)
    np.testing.assert_array_equal(y, np.ones(100))


def test_a_capture_does_not_note_the_launches_of_a_profile(module: ModuleType):
    x, y = arrays(1000)
    with pytest.raises(BadCapture, match="profiling a kernel cannot be captured"), graph.capture():
        tessera.profile(module.added)(x, y, a=3.0)
    np.testing.assert_array_equal(y, np.ones(1000))


def test_a_function_that_launches_kernels_has_no_profile():
    with pytest.raises(BadKernelOption, match="softmax is no kernel") as caught:
        tessera.profile(ops.softmax)  # type: ignore[arg-type]
    assert "@kernel" in caught.value.hint


def test_no_launch_is_faster_than_its_peaks(module: ModuleType, monkeypatch: pytest.MonkeyPatch):
    """A machine that was busy when it was measured is measured again; what is faster even then is the peak."""
    x, y = arrays(1000)
    slow = tessera.profile(module.added)(x, y, 2.0)
    nominal = dataclasses.replace(slow.machine, bandwidth=slow.bandwidth * 2, rates={"f32": slow.flops * 2})
    assert with_possible_peaks(dataclasses.replace(slow, machine=nominal)).machine is nominal
    busy = dataclasses.replace(slow.machine, bandwidth=slow.bandwidth / 4, rates={"f32": slow.flops / 2})
    impossible = dataclasses.replace(slow, machine=busy)
    assert impossible.attained == pytest.approx(4)
    monkeypatch.setattr("tessera.profiling.profile.measured_again", lambda found: device_model.raised(found, 8.0, 4.0))
    again = with_possible_peaks(impossible)
    assert again.attained == pytest.approx(0.5)
    assert again.machine.source == busy.source
    monkeypatch.setattr("tessera.profiling.profile.measured_again", lambda found: found)
    own = with_possible_peaks(impossible)
    assert own.attained == pytest.approx(1.0)
    assert own.roofline.compute <= own.wall * 1.000001
    assert own.machine.source.endswith("; raised to what this launch reached, as it was faster")


@pytest.mark.parametrize(
    ("overhead", "noise", "groups", "every"),
    [(0.04, 0.0, 10_000, 1), (0.3, 0.4, 10_000, 1), (0.3, 0.01, 10_000, 16), (3.0, 0.01, 10_000, 256),
     (3.0, 0.01, 100, 4), (3.0, 0.01, 15, 1)],
)  # fmt: skip
def test_how_many_groups_there_are_to_a_record(overhead: float, noise: float, groups: int, every: int):
    found = mock.Mock(overhead=overhead, noise=noise, **{"work.groups": groups})
    assert sparser(found) == every


def test_short_groups_do_not_all_write_records(module: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tessera.profiling.profile.sparser", lambda found: 4)
    x, y = arrays(1000)
    profile = tessera.profile(module.added)(x, y, 3.0)
    np.testing.assert_array_equal(y, 1 + 3 * x)
    assert profile.every == 4
    assert profile.work.groups == 16
    assert [tile.index for tile in profile.tiles] == [0, 4, 8, 12]


def test_ordinary_kernels_write_no_records(module: ModuleType):
    x, y = arrays(100)
    tessera.profile(module.added)(x, y, 2.0)
    module.added(x, y, 2.0)
    assert all(slot.kind != "profile" for slot in module.added.last.artifact.slots)


# -- CUDA ------------------------------------------------------------------------------------------------------------


def fetch(self: Session, key: str, program: Program, target: Target, observe: bool) -> tuple[CacheEntry, str]:
    """Compile in this process and without ptxas: the fake driver runs PTX."""
    with mock.patch("tessera.lowering.cuda.to_nvvm.find_tool", return_value=None):
        return entry_of(compile_program(program, target, observe=False)), "compiler"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    made = FakeDriver()
    for place in (driver, cuda):
        monkeypatch.setattr(place, "driver", lambda: made)
    monkeypatch.setattr(Session, "_fetch", fetch)
    monkeypatch.setattr(device_model, "_COPY_BYTES", 1 << 16)
    device_model._gpu.cache_clear()
    with overridden(cache_dir=tmp_path):
        yield made
    device_model._gpu.cache_clear()


@pytest.mark.parametrize(("on_device", "target"), [(True, "cpu"), (True, "cuda:sm_90a"), (False, "cuda")])
def test_on_cuda(fake: FakeDriver, on_device: bool, target: str):
    """Arrays on a GPU mean that GPU where no target is named ("cpu" is the setting's default)."""
    x, y = arrays(700)
    kernel = tessera.compile_source(SOURCE).doubled
    there = [fake.device_array(array) for array in (x, y)] if on_device else []
    values = there or [x, y]
    kept = len(fake.memory)
    with overridden(target=target):
        profile = tessera.profile(kernel)(*values)
    np.testing.assert_array_equal(there[1].get() if on_device else y, 2 * x)
    check(profile, 22)
    assert {tile.unit for tile in profile.tiles} == {0, 1}
    assert profile.target == "cuda:sm_90a"
    assert profile.wall == 0.5
    assert profile.machine.units == 132
    assert len(fake.memory) == kept
    assert not fake.events
    assert device_arrays.is_on_device(values[0]) is on_device


def test_arrays_that_lie_apart_are_found_before_they_are_copied(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    others = fake_libraries.install(monkeypatch, fake)
    x, _ = arrays(64)
    kernel, kept = tessera.compile_source(SOURCE).doubled, len(fake.memory)
    here, host = others.tensor(x), fake_libraries.Tensor(4096, (64,), device=-1)
    measures: list[Callable[[object, object], object]] = [
        tessera.profile(kernel),
        lambda *args: autotune.search(kernel=kernel, params={"threads_per_block": [32, 64]}, args=args),
    ]
    for measure in measures:
        with pytest.raises(
            WrongDevice, match="y, of type Tensor, lies in the memory of the CPU, and x lies on cuda:0"
        ) as caught:
            measure(here, host)
        assert "-->" in str(caught.value)
    assert len(fake.memory) == kept + 1
    assert not fake.sizes


@pytest.mark.gpu
def test_on_a_gpu(module: ModuleType):
    cp = pytest.importorskip("cupy")
    x = cp.arange(1 << 24, dtype=cp.float32)
    y = cp.ones_like(x)
    profile = tessera.profile(module.added)(x, y, 2.0)
    assert profile.machine.on_gpu
    cp.testing.assert_array_equal(y, 2 * x + 1)
    check(profile, (1 << 24) // 64)
    assert len(profile.busy) <= profile.machine.units
    assert profile.overhead < 0.05 + profile.noise
    assert profile.span < 2e9 * min(profile.instrumented)


def test_each_phase_of_a_kernel_has_its_profile(module: ModuleType):
    x, y, total = np.ones((640, 16), np.float32), np.zeros((640, 16), np.float32), np.zeros(16, np.float32)
    found = tessera.profile(module.phased)(
        x, y, total
    )  # after a search, which measures kernels of several launches too
    assert total.tolist() == [1280] * 16
    launches = (found, *found.next_phases)
    assert [one.work.groups for one in launches] == [phase.groups for phase in module.phased.last.phases]
    assert found.work.groups in (10, 40)
    assert [one.work.groups for one in found.next_phases] == [128, 1, 1]
    assert found.work.least_written == 640 * 16 * 4
    assert repr(found).count("<profile of phased") == 4
