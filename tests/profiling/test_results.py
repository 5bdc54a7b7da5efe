"""The figures of a profile, from made-up launches."""

import json
from typing import Any

import numpy as np
import pytest

from support.profiles import MACHINE, gpu_records, work
from tessera.core.profile import WORDS
from tessera.profiling.records import read_records
from tessera.profiling.results import Profile, roofline


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
