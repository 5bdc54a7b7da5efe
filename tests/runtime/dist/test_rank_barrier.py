"""The barrier among threads: rounds, time-outs that name who is missing, and its end."""

import threading
from collections.abc import Callable

import pytest

from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import CollectiveStopped, RanksMissing
from tessera.runtime.dist.rank_barrier import RankBarrier


def run(ranks: list[int], what: Callable[[int], None]) -> dict[int, TesseraError]:
    failures: dict[int, TesseraError] = {}

    def each(rank: int) -> None:
        try:
            what(rank)
        except TesseraError as failure:
            failures[rank] = failure

    threads = [threading.Thread(target=each, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    return failures


def test_rounds():
    barrier, log, lock = RankBarrier(3), list[int](), threading.Lock()

    def three_rounds(rank: int) -> None:
        for number in range(3):
            barrier.wait(rank, 20)
            with lock:
                log.append(number)

    assert run([0, 1, 2], three_rounds) == {}
    assert sorted(log) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_time_out_names_the_missing():
    barrier = RankBarrier(4)
    failures = run([0, 3], lambda rank: barrier.wait(rank, 0.05 if rank == 0 else 20))
    assert isinstance(failures[0], RanksMissing)
    assert failures[0].message == "barrier: ranks 1, 2 did not come within 0.05 s"
    assert isinstance(failures[3], CollectiveStopped)


def test_it_can_be_used_again_after_its_end():
    barrier = RankBarrier(1)
    waiting = RankBarrier(2)
    waiting.end()
    with pytest.raises(CollectiveStopped):
        waiting.wait(0, 20)
    waiting.renew()
    assert run([0, 1], lambda rank: waiting.wait(rank, 20)) == {}
    barrier.wait(0, 20)
