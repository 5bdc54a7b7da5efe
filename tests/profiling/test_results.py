"""Records to tiles, and the figures of a profile, from made-up launches."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.profile import CYCLES, END, NO_PLACE, PLACE, RAN, START, WORDS, WORKER
from tessera.core.work import Work
from tessera.performance.device_model import Machine
from tessera.profiling.results import Profile, read_records, roofline

MACHINE = Machine(
    "Made-up", 1, 4, "SM", bandwidth=1e12, cache_bandwidth=2e12, cache_bytes=1, source="made up",
    rates={"f32": 1e13, "dot bf16": 1e15}, on_gpu=True,
)  # fmt: skip


def work(groups: int, **changes: Any) -> Work:
    part = np.full(groups, 1000.0)
    facts = {"by_kind": {"f32": 1e6}, "least_read": 1e6, "least_written": 0.0, "steps": 0.0, **changes}
    return Work(part, part / 2, part, **facts)


def gpu_records(starts: list[float], ends: list[float], unit: list[int], tick: int, clock: float = 0.5) -> np.ndarray:
    """What a GPU writes whose global timer ticks every `tick` ns and whose SMs count cycles of `clock` ns."""
    records = np.zeros((len(starts), WORDS), np.uint64)
    for row, (start, end, sm) in enumerate(zip(starts, ends, unit, strict=True)):
        offset = 1_000_000 * (sm + 1)  # every SM counts from somewhere else
        records[row, START] = (10**15 + int(start)) // tick * tick
        records[row, END] = (10**15 + int(end)) // tick * tick
        records[row, WORKER] = int(offset + start / clock)
        records[row, CYCLES] = int(offset + end / clock)
        records[row, PLACE] = RAN + sm
    return records


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


def profile(**changes: Any) -> Profile:
    records = gpu_records([0, 100, 400, 0], [300, 500, 500, 200], [0, 0, 0, 1], 1)
    made = work(4)
    facts: dict[str, Any] = {
        "kernel": "k", "target": "cuda:sm_90a", "machine": MACHINE, "tiles": read_records(records, made, on_gpu=True),
        "work": made, "plain": (4e-6, 2e-6, 3e-6), "instrumented": (2.1e-6, 5e-6, 3e-6), **changes,
    }  # fmt: skip
    return Profile(**facts)


def test_figures():
    found = profile()
    assert found.wall == 3e-6
    assert found.overhead == pytest.approx(0.05)
    assert found.noise == pytest.approx(0.5)
    assert found.bandwidth == pytest.approx(1e6 / 3e-6)
    assert found.flops == pytest.approx(1e6 / 3e-6)
    assert found.span == pytest.approx(500, rel=1e-3)
    assert found.busy == pytest.approx({0: 500, 1: 200}, rel=1e-2)
    assert found.attained == pytest.approx(1e-6 / 3e-6)
    assert profile(plain=(1e-6,), instrumented=(2e-6,)).noise == 0.0


def test_roofline():
    low = roofline(work(1), MACHINE)
    assert (low.bound, low.floor, low.intensity, low.ridge) == ("memory", 1e-6, 1.0, 10.0)
    high = roofline(work(1, by_kind={"dot bf16": 1e12, "f32": 1e10}), MACHINE)
    assert (high.bound, high.floor) == ("compute", pytest.approx(2e-3))
    nothing = roofline(work(1, by_kind={}, least_read=0.0), MACHINE)
    assert (nothing.floor, nothing.intensity, nothing.ridge) == (0.0, 0.0, 10.0)


def test_plain_data():
    document = json.loads(profile().to_json())
    assert document["device"] == "Made-up x1"
    assert document["roofline"]["bound"] == "memory"
    assert document["tiles"]["unit"] == [0, 0, 0, 1]
    assert document["tiles"]["read"] == [1000.0] * 4
    assert document["groups"] == 4
    assert "tiles" not in profile().to_dict(tiles=False)


def test_the_summary_says_it_in_words():
    lines = profile(registers=40, shared_bytes=1024, spill_bytes=0).summary().splitlines()
    assert lines[0] == "kernel       k for cuda:sm_90a on Made-up"
    assert lines[1] == "time         3 µs (median of 3 launches, fastest 2 µs)"
    assert lines[2].startswith("memory       333 GB/s: 1 MB that have to be moved (the tiles ask for")
    assert (
        "33.3% of the speed that memory allows (at best 1 µs); 1 FLOP per byte, where memory is the limit" in lines[4]
    )
    assert lines[7] == "balance      the SMs that ran tiles were busy for 40% to 100% of the 500 ns"
    assert lines[8] == "overhead     not measurable: launches vary by 50.0%, more than writing the records takes"
    assert lines[9] == "resources    40 registers, 1024 B shared, 0 B spilled"
    assert repr(profile()) == "<profile of k on Made-up x1: 3 µs, 4 tiles, 33% of the speed that memory allows>"


def test_what_writing_the_records_takes():
    slower = profile(plain=(2e-6, 2e-6), instrumented=(2.1e-6, 2.1e-6))
    assert "overhead     writing the records takes 5.0% of a launch (launches vary by 0.0%)" in slower.summary()
    faster = profile(plain=(2e-6, 2.1e-6, 2.1e-6), instrumented=(1.9e-6, 1.9e-6, 2e-6))
    assert faster.overhead == 0.0  # what is faster with more to do was lucky
    assert "overhead     not measurable: launches vary by 5.0%" in faster.summary()


def test_one_of_something():
    one = work(1)
    alone = profile(tiles=read_records(gpu_records([0], [300], [0], 1), one, on_gpu=True), work=one)
    assert "balance      the one SM that ran tiles was busy for 100% of the 300 ns" in alone.summary()
    assert "1 on 1 of 4 SMs" in alone.summary()
    assert ", 1 tile, " in repr(alone)


def test_one_record_for_several_groups():
    records = gpu_records([0, 100, 400, 0], [300, 500, 500, 200], [0, 0, 0, 1], 1)
    records[1::2] = 0
    made = work(4)
    found = profile(tiles=read_records(records, made, on_gpu=True), work=made, every=2)
    assert [tile.index for tile in found.tiles] == [0, 2]
    assert found.to_dict()["tiles"]["index"] == [0, 2]
    assert (found.to_dict()["groups"], found.to_dict()["every"]) == (4, 2)
    assert "4, too short to record each: one in 2 is recorded, on 1 of 4 SMs" in found.summary()
    assert "balance" not in found.summary()


def test_a_launch_without_tiles():
    nothing = read_records(np.zeros((0, WORDS), np.uint64), work(0), on_gpu=True)
    found = profile(tiles=nothing, work=work(0, by_kind={}, least_read=0.0))
    assert (found.span, dict(found.busy), dict(found.phase_share)) == (0.0, {}, {})
    assert "balance      nothing ran" in found.summary()
