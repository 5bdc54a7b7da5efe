"""Ranks as threads: order, failures, time-outs that name ranks, barriers in tasks, and interrupts."""

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from support.interrupts import ctrl_c_inside
from tessera.core.base import dtypes
from tessera.core.base.interrupts import raise_if_stopped
from tessera.core.errors.catalog import CollectiveStopped, RanksMissing
from tessera.runtime.dist.engine import Exchange, Move
from tessera.runtime.dist.threaded import ThreadedEngine


@pytest.fixture
def engine() -> Iterator[ThreadedEngine]:
    made = ThreadedEngine(4)
    yield made
    made.stop()


def until_stopped(_: int) -> None:
    while True:
        raise_if_stopped()


def test_each_rank_does_its_tasks_in_order(engine: ThreadedEngine):
    log: dict[int, list[int]] = {rank: [] for rank in range(4)}
    for number in range(20):
        engine.launch(lambda rank, number=number: log[rank].append(number))
    engine.barrier()
    assert all(mine == list(range(20)) for mine in log.values())
    assert engine.launch(lambda rank: rank + 1, [2, 0]).result() == [3, 1]
    assert engine.stats().launches == 21


def test_ranks_run_side_by_side(engine: ThreadedEngine):
    meeting = threading.Barrier(4)
    engine.launch(lambda _: meeting.wait(20)).result()
    assert not meeting.broken


def test_a_task_waits_for_what_it_comes_after(engine: ThreadedEngine):
    go, log = threading.Event(), list[str]()
    first = engine.launch(lambda _: (go.wait(20), log.append("first")), [0])
    second = engine.launch(lambda _: log.append("second"), [1], after=[first])
    go.set()
    second.result()
    assert log == ["first", "second"]


def test_a_failure_is_raised_and_ends_the_others(engine: ThreadedEngine):
    def task(rank: int) -> None:
        if rank == 2:
            raise ValueError("rank 2 has no money")
        until_stopped(rank)

    with pytest.raises(ValueError, match="no money"):
        engine.launch(task).result()
    assert engine.launch(lambda rank: rank).result() == [0, 1, 2, 3]


def test_a_time_out_names_the_missing_ranks(engine: ThreadedEngine):
    pending = engine.launch(lambda rank: None if rank % 2 else until_stopped(rank))
    with pytest.raises(RanksMissing) as mistake:
        pending.result(timeout=0.1)
    assert mistake.value.message == "launch: ranks 0, 2 did not come within 0.1 s"
    assert engine.launch(lambda rank: rank).result() == [0, 1, 2, 3]


def test_a_barrier_of_the_caller_names_them_too(engine: ThreadedEngine):
    engine.launch(until_stopped, [3])
    with pytest.raises(RanksMissing, match="barrier: rank 3 did not come within"):
        engine.barrier(timeout=0.1)


def test_a_barrier_in_tasks(engine: ThreadedEngine):
    before, after = list[int](), list[int]()

    def task(rank: int) -> None:
        before.append(rank)
        engine.barrier()
        after.append(len(before))

    engine.launch(task).result()
    assert after == [4, 4, 4, 4]

    def three_come(rank: int) -> None:
        if rank != 1:
            engine.barrier(timeout=0.1)

    with pytest.raises((RanksMissing, CollectiveStopped)) as mistake:
        engine.launch(three_come).result()
    assert "rank 1 did not come" in str(mistake.value) or isinstance(mistake.value, CollectiveStopped)
    engine.launch(lambda _: engine.barrier()).result()


def test_cancelling_ends_what_runs_and_what_waits(engine: ThreadedEngine):
    running = engine.launch(until_stopped, [0])
    waiting = engine.launch(lambda _: None, [0])
    engine.cancel()
    with pytest.raises(CollectiveStopped):
        waiting.result()
    with pytest.raises(CollectiveStopped, match="rank 0 was stopped"):
        running.result()
    assert engine.launch(lambda rank: rank).result() == [0, 1, 2, 3]


def test_a_task_that_does_not_look_is_left_behind(engine: ThreadedEngine):
    end = threading.Event()
    engine.launch(lambda _: end.wait(30), [1])
    engine.cancel()
    assert engine.launch(lambda rank: rank).result() == [0, 1, 2, 3]
    end.set()


def test_an_interrupt_ends_all_ranks(engine: ThreadedEngine):
    stopped = list[int]()

    def task(rank: int) -> None:
        try:
            until_stopped(rank)
        finally:
            stopped.append(rank)

    pending = engine.launch(task)
    with ctrl_c_inside(ThreadedEngine.wait_for):
        pending.result()
    assert sorted(stopped) == [0, 1, 2, 3]


def test_values_are_read_where_they_lie(engine: ThreadedEngine):
    x = engine.empty(0, 8, dtypes.f32)
    part = engine.part(x, 2, 4)
    assert np.shares_memory(x, part)
    (moved,) = engine.transfer(Exchange("send", (0, 1), 8, (Move(0, 1, part),))).result()
    assert moved is part
    assert engine.stats().sent == {0: 8}
    assert engine.stream(0) is None
    assert (engine.pieces(1 << 30), engine.fold_seconds(1 << 30)) == (1, 0.0)


def test_a_forked_child_starts_threads_of_its_own(engine: ThreadedEngine, monkeypatch: pytest.MonkeyPatch):
    assert engine.launch(lambda rank: rank).result() == [0, 1, 2, 3]
    parents = engine._threads
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert engine.launch(lambda rank: rank).result() == [0, 1, 2, 3]
    assert engine._threads is not parents
    for thread in parents:
        thread.close()
