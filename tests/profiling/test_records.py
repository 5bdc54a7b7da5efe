"""Words of records to tiles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import gpu_records, work
from tessera.core.profile import CYCLES, END, NO_PLACE, PLACE, RAN, START, WORDS, WORKER
from tessera.profiling.records import read_records


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 32, 1000]))
def test_cycle_counters_refine_a_coarse_timer(seed: int, tick: int):
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.uniform(0, 100_000, 200))
    ends = starts + rng.uniform(50, 3000, 200)
    unit = rng.integers(0, 4, 200)
    records = gpu_records(starts.tolist(), ends.tolist(), unit.tolist(), tick)
    tiles = read_records(records, work(200), on_gpu=True)
    assert tiles.unit.tolist() == unit.tolist()
    assert tiles.start.min() == 0.0
    np.testing.assert_allclose(tiles.duration, ends - starts, rtol=0.02, atol=2)
    # Of 50 readings a multiprocessor, the mean error is far below a tick.
    np.testing.assert_allclose(tiles.start, starts - starts.min(), atol=2 + tick * 0.6)


def test_phases_are_cycles_times_their_length():
    records = gpu_records([0, 1000], [1000, 3000], [0, 0], 1)
    records[:, 4], records[:, 6] = [400, 1000], [100, 200]
    tiles = read_records(records, work(2), on_gpu=True)
    assert list(tiles.phases) == ["load", "compute", "store"]
    np.testing.assert_allclose(tiles.phases["load"], [200, 500], rtol=1e-6)
    np.testing.assert_allclose(tiles.phases["compute"], [1000 - 250, 2000 - 600], rtol=1e-6)
    assert tiles[1].phases["store"] == pytest.approx(100)
    assert not read_records(gpu_records([0], [5], [0], 1), work(1), on_gpu=True).phases


def test_a_counter_that_makes_no_sense_is_left_alone():
    records = gpu_records([0, 1000, 2000], [500, 1500, 2500], [0, 1, 0], 1)
    records[:, [WORKER, CYCLES]] = 7
    tiles = read_records(records, work(3), on_gpu=True)
    assert tiles.start.tolist() == [0, 1000, 2000]
    assert tiles.end.tolist() == [500, 1500, 2500]


def test_groups_that_did_not_run_are_left_out():
    records = gpu_records([0, 0, 10], [5, 0, 20], [1, 0, 2], 1)
    records[1] = 0
    made = work(3)
    made.read[:] = [1, 2, 3]
    tiles = read_records(records, made, on_gpu=True)
    assert tiles.read.tolist() == [1, 3]
    assert len(read_records(np.zeros((3, WORDS), np.uint64), made, on_gpu=True)) == 0


def test_cpu_records_without_a_core_are_told_apart_by_thread():
    records = np.zeros((3, WORDS), np.uint64)
    records[:, START], records[:, END] = [100, 150, 200], [150, 180, 260]
    records[:, WORKER], records[:, PLACE] = [7000, 9000, 7000], RAN + NO_PLACE
    tiles = read_records(records, work(3), on_gpu=False)
    assert tiles.unit.tolist() == [0, 1, 0]
    assert [(tile.start, tile.end) for tile in tiles] == [(0, 50), (50, 80), (100, 160)]
    records[:, PLACE] = RAN + np.array([5, 3, 5])
    assert read_records(records, work(3), on_gpu=False).unit.tolist() == [5, 3, 5]
