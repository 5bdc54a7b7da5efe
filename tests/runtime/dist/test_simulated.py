"""Simulated ranks: the virtual clock, overlap, timelines, and values."""

import numpy as np
import pytest

from tessera.core.base import dtypes
from tessera.core.placement.reduction_rules import reduction
from tessera.core.placement.reduction_trees import ReductionTree
from tessera.core.placement.topology import HOSTS, RACKS
from tessera.runtime.dist.collectives import Group, all_reduce
from tessera.runtime.dist.engine import Done, Exchange, Move
from tessera.runtime.dist.simulated import Declared, SimulatedEngine, fold_nothing

MIB = 1 << 20


def close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def test_tasks_of_a_rank_are_one_after_the_other():
    engine = SimulatedEngine(3, overhead=1e-6)
    assert engine.launch(lambda rank: rank * rank).result() == [0, 1, 4]
    engine.launch(None, seconds=2e-3)
    engine.launch(None, [1], seconds=3e-3)
    assert close(engine.busy(0)[0], 2e-3 + 2e-6)
    assert close(engine.busy(1)[0], 5e-3 + 3e-6)
    assert close(engine.clock, 5e-3 + 3e-6)
    assert engine.stats().launches == 3


def test_a_transfer_overlaps_tasks_and_a_launch_after_it_waits():
    engine = SimulatedEngine(4, HOSTS)
    engine.launch(None, seconds=1e-3)
    cost = HOSTS.cost("all_reduce", 4, 64 * MIB).seconds
    moved = engine.transfer(Exchange("all_reduce", (0, 1, 2, 3), 64 * MIB))
    engine.launch(None, seconds=1e-4)  # meanwhile
    assert close(engine.busy(0)[0], 1.1e-3)
    assert close(engine.busy(0)[1], 1e-3 + cost)
    engine.launch(None, seconds=1e-5, after=[moved])
    assert close(engine.clock, max(1.1e-3, 1e-3 + cost) + 1e-5)
    engine.launch(None, [2], seconds=1e-5, after=[Done([])])
    assert close(engine.busy(2)[0], max(1.1e-3, 1e-3 + cost) + 2e-5)


def test_groups_communicate_side_by_side():
    engine = SimulatedEngine(8, HOSTS)
    for ranks in ((0, 1, 2, 3), (4, 5, 6, 7)):
        engine.transfer(Exchange("all_gather", ranks, MIB))
    assert close(engine.clock, HOSTS.cost("all_gather", 4, MIB).seconds)


def test_the_timeline_says_what_each_figure_rests_on():
    engine = SimulatedEngine(72, record=True)
    engine.launch(None, seconds=1e-3)
    engine.transfer(Exchange("all_reduce", tuple(range(72)), 1 << 30))
    task, moved = engine.timeline
    assert (task.name, task.start, task.end) == ("task", 0.0, 1e-3)
    assert moved.name == "all_reduce"
    assert moved.cost == RACKS.cost("all_reduce", 72, 1 << 30)
    assert close(moved.end - moved.start, RACKS.cost("all_reduce", 72, 1 << 30).seconds)


def test_values_are_copied_where_a_place_is_given():
    engine = SimulatedEngine(2)
    x, place = np.arange(4.0), engine.empty(1, 4, dtypes.f64)
    lying, moved = engine.transfer(Exchange("send", (0, 1), 32, (Move(0, 1, x), Move(0, 1, x, place)))).result()
    assert lying is x
    assert moved is place
    assert np.array_equal(place, x)
    assert engine.stats().sent == {0: 64}


def test_an_all_reduce_of_any_size_costs_no_memory():
    engine = SimulatedEngine(72, shapes_only=True, record=True)
    mine = [[Declared(10**12, np.dtype(np.float32))] for _ in range(72)]
    what, tree = reduction("sum", dtypes.f32), ReductionTree.binary(72)
    found = all_reduce(Group(engine, tuple(range(72))), mine, what, tree, fold_nothing)
    assert found[5] == Declared(10**12, np.dtype(np.float32))
    assert [span.name for span in engine.timeline] == ["all_to_all", "task", "all_gather"]
    expected = RACKS.tree_all_reduce(72, 4e12).seconds
    assert abs(engine.clock / expected - 1) < 0.05
    assert not any(span.cost.measured for span in engine.timeline if span.cost is not None)


def test_a_barrier_brings_all_clocks_to_the_last():
    engine = SimulatedEngine(2)
    engine.launch(None, [1], seconds=1.0)
    engine.barrier()
    assert engine.busy(0) == engine.busy(1) == (1.0, 1.0)


def test_nothing_but_the_protocols_rest():
    engine = SimulatedEngine(2)
    engine.start()
    engine.cancel()
    engine.stop()
    assert engine.stream(0) is None
    assert engine.pieces(1 << 30) == 1
    assert engine.fold_seconds(4_800_000_000_000) == pytest.approx(1.0)  # pyright: ignore[reportUnknownMemberType]
