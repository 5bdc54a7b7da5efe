"""The CUDA launcher on a driver that runs PTX in this process (`ptx_machine`), and, where there is one, on a GPU."""

import ctypes
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support import fake_cuda, programs, raw_kernels
from support.architectures import limit_shared_memory
from support.fake_cuda import FakeDriver
from support.simulate import compile_ptx
from tessera.core.errors.catalog import (
    ArgumentCount,
    CudaFailure,
    ExtentMismatch,
    NotAnArray,
    OverlappingArrays,
    ReadOnlyArray,
    ScalarRange,
    UnfitForBulkCopy,
    WrongDevice,
)
from tessera.core.targets import Target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.binding.grid import Grid
from tessera.runtime.driver.devices import count
from tessera.runtime.launch import cuda
from tessera.runtime.memory.device_arrays import standing_for
from tessera.runtime.memory.owned import DeviceArray, to_device


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver())


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver that runs nothing."""
    return fake_cuda.install(monkeypatch, FakeDriver(2, run=False))


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


def test_one_memory_under_two_names_is_copied_once(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    y, upload = numbers(40), fake.upload
    copied: list[int] = []
    want = np.float32(2) * y + y

    def noted(address: int, array: np.ndarray, stream: int) -> None:
        copied.append(address)
        upload(address, array, stream)

    monkeypatch.setattr(fake, "upload", noted)
    cuda.CudaLauncher(compile_ptx(programs.saxpy()))(y.view(), y, 2.0)
    np.testing.assert_array_equal(y, want)
    assert len(copied) == 1


def test_numpy_arrays_that_overlap_are_refused_as_they_are_on_the_cpu(fake: FakeDriver):
    y = numbers(41)
    before = y.copy()
    with pytest.raises(OverlappingArrays, match="y is written, and y and x overlap"):
        cuda.CudaLauncher(compile_ptx(programs.saxpy()))(y[:-1], y[1:], 2.0)
    np.testing.assert_array_equal(y, before)
    assert not fake.memory


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
    limit_shared_memory(monkeypatch, 1)
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
def test_mistakes_run_nothing_and_leave_nothing(
    fake: FakeDriver, arguments: tuple[np.ndarray | float | list[float], ...], mistake: type[Exception], words: str
):
    with pytest.raises(mistake, match=words):
        cuda.CudaLauncher(compile_ptx(programs.saxpy()))(*arguments)
    assert fake.sizes == []
    assert not fake.memory


def test_a_result_needs_a_writeable_array(fake: FakeDriver):
    y = numbers(4)
    y.flags.writeable = False
    with pytest.raises(ReadOnlyArray, match="y is written"):
        cuda.CudaLauncher(compile_ptx(programs.saxpy()))(numbers(4), y, 1.0)


def test_a_tensor_map_is_a_parameter_of_128_bytes_made_once_an_array(noting: FakeDriver):
    noting.keep = [128, 8]
    launcher = cuda.CudaLauncher(raw_kernels.window())
    x = to_device(np.zeros((20, 64), np.float32))
    out = to_device(np.zeros((2, 16, 64), np.float32))
    launcher(x, out)
    launcher(x, out)
    assert len(noting.encoded) == 1
    encoding = noting.encoded[0]
    assert (encoding.element, encoding.address) == ("FLOAT32", x.address)
    assert (encoding.extents, encoding.strides, encoding.box) == ((64, 20), (256,), (64, 16))
    assert noting.parameters[0] == [b"\1" * 128, out.address.to_bytes(8, "little")]
    assert noting.sizes == [(2, 32, 0)] * 2
    other = to_device(np.zeros((20, 64), np.float32))
    launcher(other, out)
    launcher(x, out)
    assert [given[0][:1] for given in noting.parameters] == [b"\1", b"\1", b"\2", b"\1"]
    assert len(noting.encoded) == 2


def test_the_map_of_an_array_without_elements_does_not_follow_its_address(noting: FakeDriver):
    noting.keep = [128, 8]
    launcher = cuda.CudaLauncher(raw_kernels.window())
    out = to_device(np.zeros((2, 16, 64), np.float32))
    arrays = [to_device(np.zeros((20, 0), np.float32)) for _ in range(3)]
    for x in arrays:
        launcher(x, out)
    assert len(noting.encoded) == 1
    assert noting.encoded[0].address not in {x.address for x in arrays}
    assert [given[0] for given in noting.parameters] == [b"\1" * 128] * 3


@pytest.mark.parametrize("rows", [0, 20])
def test_nothing_is_launched_for_no_groups(noting: FakeDriver, rows: int):
    launcher = cuda.CudaLauncher(raw_kernels.window())
    x, out = to_device(np.zeros((rows, 64), np.float32)), to_device(np.zeros((0, 16, 64), np.float32))
    launcher(x, out)
    assert launcher.prepare((x, out)) is None
    assert noting.sizes == []


def test_maps_are_aligned_to_64_bytes(noting: FakeDriver):
    seen: list[int] = []
    start = noting.start

    def looking(
        config_address: ctypes.c_void_p, function: ctypes.c_void_p, addresses: ctypes.c_void_p, null: object
    ) -> int:
        assert addresses.value is not None
        seen.append((ctypes.c_uint64 * 2).from_address(addresses.value)[0] % 64)
        return start(config_address, function, addresses, null)

    noting.start = looking
    launcher = cuda.CudaLauncher(raw_kernels.window())
    launcher(to_device(np.zeros((20, 64), np.float32)), to_device(np.zeros((2, 16, 64), np.float32)))
    assert seen == [0]


def test_an_array_that_bulk_copies_cannot_read_is_refused_by_name(noting: FakeDriver):
    launcher = cuda.CudaLauncher(raw_kernels.window())
    with pytest.raises(UnfitForBulkCopy, match="x: rows along axis 0 are 264 bytes apart"):
        launcher(to_device(np.zeros((20, 66), np.float32)), to_device(np.zeros((2, 16, 64), np.float32)))
    assert noting.sizes == []


@pytest.mark.parametrize(("groups", "blocks"), [(1, 1), (2, 2), (5, 2)])
def test_a_persistent_kernel_gets_as_many_blocks_as_fit(noting: FakeDriver, groups: int, blocks: int):
    cuda.CudaLauncher(raw_kernels.stride())(to_device(np.zeros(groups, np.float32)))
    assert noting.sizes == [(blocks, 32, 0)]


def test_clusters_are_whole(noting: FakeDriver):
    cuda.CudaLauncher(raw_kernels.cluster(4))(to_device(np.zeros(6, np.float32)))
    assert noting.sizes == [(8, 32, 0)]
    assert noting.clusters == [4]


def test_profile_records_are_written_where_the_launcher_says(noting: FakeDriver):
    noting.keep = [8, 8]
    launcher, x = cuda.CudaLauncher(raw_kernels.profiled()), to_device(np.zeros(6, np.float32))
    launcher(x)
    launcher(x, profile=standing_for(0x700, (8,), np.dtype(np.uint8), None))
    launcher(x)
    assert [int.from_bytes(given[1], "little") for given in noting.parameters] == [0, 0x700, 0]


def test_no_launch_is_given_memory_that_it_cannot_reach(noting: FakeDriver):
    launcher, x = cuda.CudaLauncher(raw_kernels.profiled()), to_device(np.zeros(6, np.float32))
    with pytest.raises(WrongDevice, match="memory that it cannot reach"):
        launcher(x, profile=np.zeros(8, np.uint8))
    assert not noting.sizes


def test_a_call_like_the_last_one_is_not_bound_again(noting: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    noting.keep = [8, 8]
    launcher = cuda.CudaLauncher(raw_kernels.spin())
    first, second = (to_device(np.zeros(4, np.float32)) for _ in range(2))
    launcher(first, 7)
    monkeypatch.setattr(launcher, "_launch_in_full", None)  # what follows must do without
    launcher(second, -9)
    launcher(first, 7)
    given = [(int.from_bytes(a, "little"), int.from_bytes(b, "little", signed=True)) for a, b in noting.parameters]
    assert given == [(first.address, 7), (second.address, -9), (first.address, 7)]


def test_after_some_launches_they_are_graphs_of_one_node(noting: FakeDriver):
    noting.keep = [8, 8]
    launcher = cuda.CudaLauncher(raw_kernels.spin())
    first, second = (to_device(np.zeros(4, np.float32)) for _ in range(2))
    for _ in range(6):
        launcher(first, 1)
    noting.log.clear()
    launcher(first, 1)
    launcher(second, 1)
    launcher(second, 2)
    launcher(second, 2)
    kinds = [entry[0] for entry in noting.log]
    assert kinds == ["replay", "launch", *["set parameters", "replay", "launch"] * 2, "replay", "launch"]
    assert len(noting.parameters) == 10
    noting.log.clear()
    assert launcher.run((second, 2), None, 0x77)  # somebody else's stream, which may be capturing
    assert [entry[0] for entry in noting.log] == ["launch"]
    noting.statuses = [400, 400]  # the graph's launch in another context, then the kernel's
    launcher(second, 2)
    assert noting.statuses == []
    assert len(noting.parameters) == 12


def test_launches_on_large_arrays_stay_kernels(noting: FakeDriver):
    """Their host time is hidden, and kernels may begin early."""
    launcher = cuda.CudaLauncher(raw_kernels.spin())
    for size, kind in ((1 << 20, "replay"), (1 << 24, "launch")):
        x = to_device(np.zeros(size, np.float32))
        for _ in range(6):
            launcher(x, 1)
        noting.log.clear()
        launcher(x, 1)
        assert noting.log[0][0] == kind


def test_small_launches_that_may_begin_early_become_graphs(noting: FakeDriver):
    """Of these the host's time counts more."""
    artifact = raw_kernels.spin()
    launcher = cuda.CudaLauncher(replace(artifact, launch=replace(artifact.launch, early=True, persistent=True)))
    x = to_device(np.zeros(4, np.float32))
    for _ in range(6):
        launcher(x, 1)
    noting.log.clear()
    launcher(x, 1)
    assert noting.log[0][0] == "replay"


def test_other_shapes_types_and_numbers_are_looked_at_in_full(noting: FakeDriver):
    launcher = cuda.CudaLauncher(raw_kernels.spin())
    x = to_device(np.zeros(4, np.float32))
    launcher(x, 7)
    assert not launcher.run((to_device(np.zeros(5, np.float32)), 7))
    assert not launcher.run((x, 7.0))
    assert not launcher.run((x, 1 << 70))
    assert not launcher.run((x,))
    assert not launcher.run((np.zeros(4, np.float32), 7))
    assert not launcher.run((x, 7), Grid((2,)))
    with pytest.raises(ScalarRange, match="cycles"):
        launcher(x, 1 << 70)
    assert launcher.run((x, 8))
    assert len(noting.sizes) == 2


def test_several_kinds_of_calls_stay_ready(noting: FakeDriver):
    launcher = cuda.CudaLauncher(raw_kernels.null())
    arrays = [to_device(np.zeros(n, np.float32)) for n in (4, 5, 6)]
    for x in arrays:
        launcher(x)
    assert all(launcher.run((x,)) for x in arrays * 2)


def test_arrays_that_come_to_overlap_are_looked_at_in_full(noting: FakeDriver):
    launcher = cuda.CudaLauncher(compile_ptx(programs.saxpy()))
    x, y = (to_device(np.zeros(64, np.float32)) for _ in range(2))
    launcher(x, y, 1.0)
    assert launcher.run((y, y, 1.0))  # one array, read and written in place
    shifted = DeviceArray.__new__(DeviceArray)
    shifted.layout, shifted.device, shifted.address = y.layout, 0, y.address + 16
    assert not launcher.run((shifted, y, 1.0))
    with pytest.raises(OverlappingArrays):
        launcher(shifted, y, 1.0)
    assert launcher.run((x, y, 1.0))
    assert len(noting.sizes) == 3


def test_arrays_of_two_devices(noting: FakeDriver):
    launcher = cuda.CudaLauncher(compile_ptx(programs.saxpy()))
    here, there = (to_device(np.zeros(64, np.float32), device) for device in (0, 1))
    with pytest.raises(WrongDevice, match="x lies on cuda:0, y on cuda:1"):
        launcher(here, there, 1.0)
    launcher(there, there, 1.0)
    launcher(here, here, 1.0)
    assert noting.loads == [0, 1]  # the first one at once
    assert noting.used == {0, 1}
    assert not launcher.run((here, there, 1.0))


def test_an_older_fault_is_told_at_once(noting: FakeDriver):
    launcher, x = cuda.CudaLauncher(raw_kernels.null()), to_device(np.zeros(4, np.float32))
    launcher(x)
    noting.statuses = [700]
    with pytest.raises(CudaFailure, match="700"):
        launcher(x)


def test_launches_of_several_threads_do_not_share_their_parameters(noting: FakeDriver):
    noting.keep = [8, 8]
    launcher = cuda.CudaLauncher(raw_kernels.spin())
    arrays = [to_device(np.zeros(4, np.float32)) for _ in range(4)]

    def work(x: DeviceArray) -> None:
        for number in range(50):
            launcher(x, number)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    given = sorted((int.from_bytes(a, "little"), int.from_bytes(b, "little")) for a, b in noting.parameters)
    assert given == sorted((x.address, number) for x in arrays for number in range(50))


def test_the_architecture_of_a_device(noting: FakeDriver):
    assert cuda.device_architecture() == "sm_90a"
    assert cuda.device_architecture(1, "cuda_tile") == "sm_90"
    noting.capability = lambda device: (7, 0)
    with pytest.raises(CudaFailure, match=r"compute capability 7\.0"):
        cuda.device_architecture()


@pytest.mark.gpu
def test_saxpy_on_a_gpu():
    cp = pytest.importorskip("cupy")
    x, y = numbers(100_003), numbers(100_003) + 1
    artifact = compile_program(programs.saxpy(), Target("cuda", cuda.device_architecture()), observe=False).artifact
    out = cp.asarray(y)
    cuda.CudaLauncher(artifact)(cp.asarray(x), out, 0.3)
    cuda.synchronize()
    np.testing.assert_array_equal(cp.asnumpy(out), np.float32(0.3) * x + y)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "padded_rows"), [((0, 64), False), ((20, 0), False), ((0, 31), True), ((20, 0), True)]
)
def test_windows_on_nothing_give_zeros_on_a_gpu(shape: tuple[int, int], padded_rows: bool):
    launcher = cuda.CudaLauncher(raw_kernels.window(padded_rows=padded_rows))
    x, out = to_device(np.zeros(shape, np.float32)), to_device(np.full((2, 16, 64), np.nan, np.float32))
    for _ in range(6):
        launcher(x, out)
        assert (out.get() == 0).all()


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [16, 20, 40])
def test_a_tensor_map_on_a_gpu(rows: int):
    x = numbers(rows, 64)
    blocks = -(-rows // 16)
    out = to_device(np.full((blocks, 16, 64), np.nan, np.float32))
    cuda.CudaLauncher(raw_kernels.window())(to_device(x), out)
    want = np.zeros((blocks * 16, 64), np.float32)
    want[:rows] = x
    np.testing.assert_array_equal(out.get().reshape(-1, 64), want)


@pytest.mark.gpu
def test_persistent_blocks_on_a_gpu():
    out = to_device(np.zeros(100_000, np.float32))
    launcher = cuda.CudaLauncher(raw_kernels.stride())
    for _ in range(3):
        launcher(out)
    assert (out.get() == 3).all()


@pytest.mark.gpu
@pytest.mark.parametrize("size", [1, 2, 8])
def test_clusters_on_a_gpu(size: int):
    out = to_device(np.zeros(16, np.float32))
    cuda.CudaLauncher(raw_kernels.cluster(size))(out)
    assert (out.get() == size).all()


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["cupy", "torch", "jax", "own"])
def test_arrays_of_every_library_are_used_where_they_lie(library: str):
    artifact = compile_program(programs.saxpy(), Target("cuda", cuda.device_architecture()), observe=False).artifact
    launcher = cuda.CudaLauncher(artifact)
    host = numbers(1000)
    make: Callable[[np.ndarray], Any]  # the library's array
    back: Callable[[Any], np.ndarray]  # from it
    if library == "cupy":
        cp = pytest.importorskip("cupy")
        make, back = cp.asarray, cp.asnumpy
    elif library == "torch":
        torch = pytest.importorskip("torch")
        make, back = (lambda a: torch.from_numpy(a).cuda()), (lambda a: a.cpu().numpy())
    elif library == "jax":
        jax = pytest.importorskip("jax")
        make, back = jax.device_put, np.asarray
    else:
        make, back = to_device, lambda a: a.get()
    for alpha in (2.0, 2.0, 3.0):
        x, y = make(host), make(host + 1)
        again = make(host + 1)
        if library == "jax":
            pytest.importorskip("jax").block_until_ready((x, y, again))
        launcher(x, y, alpha)
        assert launcher.run((x, y, 0.0))
        launcher(x, again, alpha)
        cuda.synchronize()
        for out in (y, again):
            np.testing.assert_array_equal(back(out), np.float32(alpha) * host + (host + 1))


@pytest.mark.gpu
def test_two_gpus_in_one_process():
    if count() < 2:
        pytest.skip("one GPU")
    cp = pytest.importorskip("cupy")
    artifact = compile_program(programs.saxpy(), Target("cuda", cuda.device_architecture()), observe=False).artifact
    launcher, host = cuda.CudaLauncher(artifact), np.arange(1000, dtype=np.float32)
    places: list[tuple[Any, Any]] = []  # arrays of cupy
    for device in (0, 1):
        with cp.cuda.Device(device):
            places.append((cp.asarray(host), cp.asarray(host)))
    for _ in range(6):  # with device 0 current
        for x, y in places:
            launcher(x, y, 1.0)
    for device, (_, y) in enumerate(places):
        with cp.cuda.Device(device):
            cp.cuda.Device().synchronize()
            np.testing.assert_array_equal(cp.asnumpy(y), 7 * host)
    with pytest.raises(WrongDevice, match="x lies on cuda:0, y on cuda:1"):
        launcher(places[0][0], places[1][1], 1.0)
    assert cp.cuda.Device().id == 0
