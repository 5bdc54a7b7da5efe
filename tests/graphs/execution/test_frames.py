"""Frames: lent to one call at a time, given back, and let go where idle arenas hold too much."""

import gc
import threading

import numpy as np
import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import Plan
from tessera.graphs.execution import frames
from tessera.graphs.execution.frames import Frame, FramePool, Workspace, idle_bytes, release_idle
from tessera.graphs.execution.supply import LibrarySupply
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.runtime.driver.driver import CACHES
from tessera.runtime.memory.operands import operand

SUPPLY = LibrarySupply.of(operand(np.empty(0, np.float32), "x"))


@pytest.fixture(autouse=True)
def nothing_idle(monkeypatch: pytest.MonkeyPatch):
    """Count this test's arenas alone: those of earlier tests' graphs go whenever the collector finds them."""
    monkeypatch.setattr(frames, "_IDLE", frames._Idle())  # pyright: ignore[reportPrivateUsage]


def plan(side: int = 32, length: int = 3) -> Plan:
    """Sums of rows and of columns in turn, each a kernel that needs the one before."""

    def make(b: GraphBuilder, value: Value) -> Value:
        for _ in range(length):
            body = apply("sub", Argument(0, f32), Argument(1, f32))
            value = b.map(body, [value, b.reduce(value, (1,))], [(1, 0), (1,)], (side, side))
        return value

    return plan_graph(graph_of(make, (f32, (side, side))))


def test_a_frame_is_used_again_and_never_by_two():
    pool = FramePool(plan())
    with pool.lent(SUPPLY) as first:
        with pool.lent(SUPPLY) as second:
            assert first is not second
        with pool.lent(SUPPLY) as third:
            assert third is second
    with pool.lent(SUPPLY) as again:
        assert again is first


def test_what_fails_is_not_given_back():
    pool, before = FramePool(plan()), idle_bytes()
    with pytest.raises(KeyboardInterrupt), pool.lent(SUPPLY):
        raise KeyboardInterrupt
    assert idle_bytes() == before


def test_threads_at_once_have_frames_of_their_own():
    pool, together, found = FramePool(plan()), threading.Barrier(4), list[Frame]()

    def call() -> None:
        with pool.lent(SUPPLY) as frame:
            together.wait(10)
            found.append(frame)
            together.wait(10)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(map(id, found))) == 4


def test_frames_go_with_their_graph():
    pool, before = FramePool(plan()), idle_bytes()
    with pool.lent(SUPPLY):
        pass
    assert idle_bytes() > before
    del pool
    gc.collect()
    assert idle_bytes() == before


def test_what_was_used_longest_ago_is_let_go(monkeypatch: pytest.MonkeyPatch):
    pools = [FramePool(plan()) for _ in range(4)]
    size = plan().arena_bytes
    assert size > 0
    monkeypatch.setattr(frames, "_ALL_IDLE_BYTES", 2 * size)
    lent = list[Frame]()
    for pool in (*pools, pools[3]):
        with pool.lent(SUPPLY) as frame:
            lent.append(frame)
    assert lent[3] is lent[4]
    assert idle_bytes() == 2 * size
    with pools[0].lent(SUPPLY) as frame:
        assert frame is not lent[0]


def test_the_last_one_stays_whatever_its_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(frames, "_ALL_IDLE_BYTES", 1)
    pool = FramePool(plan())
    with pool.lent(SUPPLY) as first:
        pass
    with pool.lent(SUPPLY) as second:
        assert first is second


def test_idle_frames_make_way_where_a_gpu_has_too_little_memory():
    pool = FramePool(plan())
    with pool.lent(SUPPLY) as first:
        pass
    with pool.lent(SUPPLY) as busy:
        assert busy is first
        release_idle()
    with pool.lent(SUPPLY) as again:
        assert again is busy
    assert idle_bytes() > 0
    release_idle()
    assert idle_bytes() == 0
    assert release_idle in CACHES
    with pool.lent(SUPPLY) as other:
        assert other is not busy


def test_captured_frames_are_of_one_call():
    pool, before = FramePool(plan()), idle_bytes()
    with pool.lent(SUPPLY, captured=True) as first, pool.lent(SUPPLY, captured=True) as second:
        assert first is not second
    assert idle_bytes() == before


def test_a_workspace_gives_places_then_the_arena_then_arrays():
    made = plan()
    frame, place = Frame(made, SUPPLY), operand(np.empty((32, 32), np.float32), "mine")
    inside, given, other = made.buffers[0].value, made.graph.outputs[0], made.graph.inputs[0]
    space = Workspace(frame, {given: place})
    assert space(given) is place
    assert space(inside) is frame.views[inside]
    assert space(other) is not space(other)
    repeated = space.inner(made, {})
    assert repeated(other) is repeated(other)
    assert repeated.frame is frame.inner(made)
    assert frame.bytes == 2 * made.arena_bytes
