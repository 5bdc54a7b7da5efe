"""Ranks on GPUs, with a driver and an NCCL that do at once what they are told: values, paths, order, time-outs."""

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera.core.base import dtypes
from tessera.core.errors.catalog import RanksMissing
from tessera.core.placement.fold_plans import even_shares
from tessera.core.placement.fold_reference import reduce_leaves
from tessera.core.placement.reduction_rules import RankReduction, reduction
from tessera.core.placement.reduction_trees import Fold, ReductionTree
from tessera.runtime.dist import gpus
from tessera.runtime.dist.collectives import Group, all_gather, all_reduce, broadcast, fold_with_numpy
from tessera.runtime.dist.engine import Buffer, Exchange, Move
from tessera.runtime.dist.gpus import GpuEngine
from tessera.runtime.dist.nccl_library import Communicator
from tessera.runtime.memory.owned import DeviceArray, to_device


class FakeCommunicator:
    """Sends and receives of one rank, matched when the group ends."""

    def __init__(self, rank: int, home: "FakeNccl") -> None:
        self.rank, self.home = rank, home

    def send(self, sendbuf: Buffer, peer: int, *, stream: int) -> None:
        assert self.home.open
        self.home.sent.append((self.rank, peer, sendbuf))

    def recv(self, recvbuf: Buffer, peer: int, *, stream: int) -> None:
        assert self.home.open
        self.home.received.append((peer, self.rank, recvbuf))

    def allreduce(self, sendbuf: Buffer, recvbuf: Buffer, op: int, *, stream: int) -> None:
        assert op == 0
        self.home.reduced.append((sendbuf, recvbuf))

    def abort(self) -> None:
        self.home.aborted += 1


class FakeNccl:
    """NCCL in this process's memory."""

    def __init__(self, devices: Sequence[int]) -> None:
        self.communicators: Sequence[Communicator] = [FakeCommunicator(rank, self) for rank in range(len(devices))]
        self.sent: list[tuple[int, int, Buffer]] = []
        self.received: list[tuple[int, int, Buffer]] = []
        self.reduced: list[tuple[Buffer, Buffer]] = []
        self.groups, self.aborted, self.open = 0, 0, False

    @contextmanager
    def group(self) -> Generator[None]:
        self.open = True
        yield
        self.open = False
        self.groups += 1
        for source, target, buffer in self.sent:
            place = next(n for n, (a, b, _) in enumerate(self.received) if (a, b) == (source, target))
            into = self.received.pop(place)[2]
            assert into.nbytes == buffer.nbytes
            ctypes.memmove(into.address, buffer.address, buffer.nbytes)
        assert not self.received
        self.sent.clear()
        total = sum(host(value) for value, _ in self.reduced)
        for _, out in self.reduced:
            host(out)[...] = total
        self.reduced.clear()

    def operator(self, op: str, dtype: np.dtype) -> int | None:
        return 0 if op == "sum" else None

    def abort(self) -> None:
        self.aborted += 1


def host(array: Buffer) -> np.ndarray:
    """The elements of an array of the fake driver, where they lie."""
    memory = (ctypes.c_char * array.nbytes).from_address(array.address)
    return np.frombuffer(memory, array.dtype).reshape(array.shape)


def fold_in_place(
    parts: Sequence[Buffer], fold: Fold, what: RankReduction, root_of: int | None, outs: Sequence[Buffer],
    stream: object,
) -> None:  # fmt: skip
    assert stream is not None
    assert len({array.device for array in (*parts, *outs)}) == 1  # memory of peers is seen from where the kernel runs
    fold_with_numpy([host(part) for part in parts], fold, what, root_of, [host(out) for out in outs], None)


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(4, run=False))


@pytest.fixture
def made() -> list[FakeNccl]:
    return []


@pytest.fixture
def engine(fake: FakeDriver, made: list[FakeNccl]) -> GpuEngine:
    def make(devices: Sequence[int]) -> FakeNccl:
        made.append(FakeNccl(devices))
        return made[-1]

    return GpuEngine(range(4), make)


def dealt(x: list[np.ndarray], ranks: int) -> list[list[DeviceArray]]:
    return [
        [to_device(leaf, rank) for leaf in x[first:stop]]
        for rank, (first, stop) in enumerate(even_shares(len(x), ranks))
    ]


@pytest.mark.parametrize("path", ["one shot", "peers", "nccl", "pieces"])
@pytest.mark.parametrize(("ranks", "count"), [(4, 4), (4, 6), (2, 8), (3, 3), (1, 2)])
def test_every_path_gives_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, fake: FakeDriver, engine: GpuEngine, made: list[FakeNccl], path: str, ranks: int,
    count: int,
):  # fmt: skip
    fake.linked = path in ("one shot", "peers")
    monkeypatch.setattr(gpus, "ONE_SHOT_BYTES", 1 << 30 if path == "one shot" else 0)
    monkeypatch.setattr(gpus, "PIECE_BYTES", 1000 if path == "pieces" else 1 << 30)
    rng = np.random.default_rng(count)
    x = [(rng.standard_normal(1003) * 2.0 ** rng.integers(-9, 9, 1003)).astype(np.float32) for _ in range(count)]
    what, tree = reduction("sum", dtypes.f32), ReductionTree.binary(count)
    found = all_reduce(Group(engine, tuple(range(ranks))), dealt(x, ranks), what, tree, fold_in_place)
    expected = reduce_leaves(x, tree, what)
    assert [array.device for array in found] == list(range(ranks))
    assert all(np.array_equal(bits(host(array)), bits(expected)) for array in found)
    assert len(made) == (path in ("nccl", "pieces") and ranks > 1)
    if path == "pieces" and ranks > 1:
        assert made[0].groups == 2 * engine.pieces(4 * 1003)


def test_movement(engine: GpuEngine, made: list[FakeNccl]):
    values = [to_device(np.arange(3, dtype=np.float32) + rank, rank) for rank in range(4)]
    group = Group(engine, (0, 1, 2, 3))
    whole = np.concatenate([host(value) for value in values])
    assert all(np.array_equal(host(each), whole) for each in all_gather(group, values, dtypes.f32))
    sent = broadcast(group, values[2], 2)
    assert [each.device for each in sent] == [0, 1, 2, 3]
    assert all(np.array_equal(host(each), host(values[2])) for each in sent)
    assert made == []


def test_fast_is_the_librarys(engine: GpuEngine, made: list[FakeNccl]):
    x = [[to_device(np.full(5, rank + 1, np.float32), rank)] for rank in range(4)]
    group, tree = Group(engine, (0, 1, 2, 3)), ReductionTree.binary(4)
    found = all_reduce(group, x, reduction("sum", dtypes.f32, "fast"), tree, fold_in_place)
    assert [host(each).tolist() for each in found] == [[10.0] * 5] * 4
    assert made[0].groups == 1
    largest = all_reduce(group, x, reduction("max", dtypes.f32, "fast"), tree, fold_in_place)  # it has no such operator
    assert host(largest[3]).tolist() == [4.0] * 5
    assert engine.library_all_reduce((0, 1), [x[0][0], x[1][0]], "sum") is None


def test_a_copy_waits_for_the_kernels_before_it_and_for_its_target(fake: FakeDriver, engine: GpuEngine):
    value = to_device(np.arange(4.0), 0)
    engine.start()
    fake.log.clear()
    moved = engine.transfer(Exchange("send", (0, 1), 32, (Move(0, 1, value),)))
    kernels = [stream.handle(device) for device, stream in enumerate(engine._kernels)]
    transfers = [stream.handle(device) for device, stream in enumerate(engine._transfers)]
    order = [entry[:2] for entry in fake.log if entry[0] in ("record", "follow", "copy")]
    copy = order.index(("copy", transfers[0]))
    assert order.index(("record", kernels[0])) < order.index(("follow", transfers[0])) < copy
    assert order.index(("record", transfers[1])) < copy
    after = order[copy + 1 :]
    assert after.index(("record", transfers[0])) < after.index(("follow", transfers[1]))  # the target's stream follows
    fake.log.clear()
    engine.launch(lambda _: None, [1], after=[moved])
    followed = [entry for entry in fake.log if entry[0] == "follow"]
    assert {entry[1] for entry in followed} == {kernels[1]}
    assert len(followed) == 1  # its own transfers, which come after those of the source


def test_gpus_may_write_each_others_memory(fake: FakeDriver, engine: GpuEngine):
    engine.start()
    engine.start()
    assert sorted(entry[1:] for entry in fake.log if entry[0] == "let peer") == [
        (a, b) for a in range(4) for b in range(4) if a != b
    ]


def test_without_links_between_gpus_all_goes_by_nccl(
    monkeypatch: pytest.MonkeyPatch, fake: FakeDriver, engine: GpuEngine, made: list[FakeNccl]
):
    monkeypatch.setattr(fake, "let_peer", lambda *_: False)
    assert not engine.one_shot(8)
    broadcast(Group(engine, (0, 1)), to_device(np.arange(4.0), 0))
    assert made[0].groups == 1


def test_a_barrier_names_gpus_that_are_late(
    monkeypatch: pytest.MonkeyPatch, fake: FakeDriver, engine: GpuEngine, made: list[FakeNccl]
):
    engine.start()
    engine.barrier()
    monkeypatch.setattr(gpus, "PEER_BYTES", 0)
    broadcast(Group(engine, (0, 1)), to_device(np.arange(4.0), 0))
    fake.held.add(engine._kernels[2].handle(2))
    with pytest.raises(RanksMissing) as mistake:
        engine.barrier(timeout=0.05)
    assert mistake.value.message == "barrier: rank 2 did not come within 0.05 s"
    assert made[0].aborted == 1
    fake.held.clear()
    engine.barrier()
    broadcast(Group(engine, (0, 1)), to_device(np.arange(4.0), 0))
    assert len(made) == 2  # new communicators after the others were ended


def test_a_barrier_before_anything_has_nothing_to_wait_for(engine: GpuEngine):
    engine.barrier()
    engine.stop()
    assert engine.stats().launches == 0
    assert engine.fold_seconds(1 << 30) == 0.0


def test_pieces_and_one_shot(engine: GpuEngine):
    assert [engine.pieces(size << 20) for size in (1, 64, 1024)] == [1, 1, 1]
    assert engine.one_shot(64 << 10)
    assert not engine.one_shot((64 << 10) + 1)


def test_pieces_without_links(fake: FakeDriver, engine: GpuEngine):
    fake.linked = False
    assert [engine.pieces(size << 20) for size in (1, 64, 256, 1024)] == [1, 2, 8, 8]
    assert not engine.one_shot(1)


def test_kernels_that_read_peers_begin_and_end_together(fake: FakeDriver, engine: GpuEngine):
    engine.start()
    fake.log.clear()
    engine.meet((0, 1, 2))
    assert [entry[0] for entry in fake.log] == ["record"] * 3 + ["follow"] * 6
    value = to_device(np.arange(3.0), 1)
    assert engine.seen(1, value) is value
    peer = engine.seen(2, value)
    assert (peer.device, peer.address, peer.owner) == (2, value.address, value)
