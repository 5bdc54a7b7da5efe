"""The native loop of the CPU's threads: launches that overlap, wait, and are withdrawn."""

import ctypes
import threading
from collections.abc import Callable, Iterator

import pytest

from tessera.runtime.launch.worker_loop import POOL_BYTES, NativeLaunch, worker_loop

CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)
SECOND = 1_000_000_000


class Crew:
    """Some threads in the native loop, which look for work `looks` times before they sleep."""

    def __init__(self, count: int, looks: int) -> None:
        self.loop = worker_loop()
        self.memory = (ctypes.c_uint64 * (POOL_BYTES // 8))()
        self.at = ctypes.addressof(self.memory)
        self.loop.open(self.at)
        self.threads = [
            threading.Thread(target=self.loop.serve, args=(self.at, looks), daemon=True) for _ in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, launch: NativeLaunch, looks: int = 0, ns: int = 20 * SECOND) -> int:
        return self.loop.run(self.at, ctypes.addressof(launch), looks, ns)

    def end(self) -> None:
        self.loop.close(self.at)
        for thread in self.threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in self.threads)


@pytest.fixture(params=[0, 1000], ids=["sleeps", "looks"])
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    made = Crew(3, request.param)
    yield made
    made.end()


def launch_of(entry: Callable[..., int], groups: int, chunk: int = 1, threads: int = 3) -> tuple[NativeLaunch, object]:
    """Return a launch, and what keeps its code."""
    code = CALLBACK(entry)
    made = NativeLaunch(ctypes.cast(code, ctypes.c_void_p).value, b"", groups, chunk, 0)
    made.to_start = threads
    return made, code


def test_the_layout_is_that_of_the_code():
    assert ctypes.sizeof(NativeLaunch) == 320
    places = {name: getattr(NativeLaunch, name).offset for name in ("to_start", "begun", "cancel")}
    assert places == {"to_start": 48, "begun": 128, "cancel": 256}


def test_many_short_launches(crew: Crew):
    counts: list[int] = []

    def count(_: bytes, first: int, past: int, *__: object) -> int:
        counts.append(past - first)
        return 0

    for number in range(1, 300):
        counts.clear()
        launch, _code = launch_of(count, number, 4)
        assert crew.run(launch, looks=number % 2 * 1000)
        assert sum(counts) == number
        assert (launch.working, launch.to_start) == (0, 0)


def test_a_launch_does_not_wait_for_one_that_has_enough_threads(crew: Crew):
    begun, go = threading.Event(), threading.Event()

    def wait(*_: object) -> int:
        begun.set()
        go.wait(20)
        return 0

    slow, _slow_code = launch_of(wait, 1, threads=1)
    caller = threading.Thread(target=crew.run, args=(slow,), daemon=True)
    caller.start()
    assert begun.wait(20)
    quick, _quick_code = launch_of(lambda *_: 0, 5)
    assert crew.run(quick)
    assert not slow.finished
    go.set()
    caller.join(20)
    assert slow.finished


def test_a_wait_ends_by_its_time(crew: Crew):
    go = threading.Event()
    launch, _code = launch_of(lambda *_: int(not go.wait(20)), 2)
    assert crew.run(launch, ns=1000) == 0
    assert crew.loop.wait(crew.at, ctypes.addressof(launch), 10, 1000) == 0
    go.set()
    assert crew.loop.wait(crew.at, ctypes.addressof(launch), 0, 20 * SECOND) == 1


def test_what_is_withdrawn_before_it_begins_never_begins(crew: Crew):
    calls: list[int] = []
    launch, _code = launch_of(lambda *_: calls.append(1) or 0, 4)
    assert crew.loop.withdraw(crew.at, ctypes.addressof(launch)) == 0
    assert launch.cancel == 1
    launch.to_start = 3
    assert crew.run(launch)
    assert calls == []


def test_what_is_withdrawn_in_the_queue_leaves_the_others_there(crew: Crew):
    """Three launches wait for threads that are busy; the one in the middle is taken out."""
    ran: list[int] = []
    go = threading.Event()
    busy, _busy_code = launch_of(lambda *_: int(not go.wait(20)), 3)
    assert crew.run(busy, ns=1000) == 0
    waiting = [launch_of(lambda *_, number=number: ran.append(number) or 0, 1, threads=1) for number in range(3)]
    for launch, _ in waiting:
        assert crew.run(launch, ns=1000) == 0
    assert crew.loop.withdraw(crew.at, ctypes.addressof(waiting[1][0])) == 0
    go.set()
    for launch in (busy, waiting[0][0], waiting[2][0]):
        assert crew.loop.wait(crew.at, ctypes.addressof(launch), 0, 20 * SECOND)
    assert sorted(ran) == [0, 2]


def test_callers_at_once(crew: Crew):
    done: list[int] = []

    def call() -> None:
        for _ in range(50):
            launch, _code = launch_of(lambda *_: 0, 6)
            done.append(crew.run(launch))

    callers = [threading.Thread(target=call, daemon=True) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert done == [1] * 200
