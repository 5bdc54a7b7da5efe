"""Rules on how tiles fill the units, on made-up launches."""

import dataclasses

import pytest

from support.profiles import MACHINE, advice_of, profile_of, turns, work
from tessera.performance.launch_geometry import GridAxis


def test_the_tail_of_waves_is_idle_time():
    advice = advice_of(turns([1e5] * 5))["tail effect"]
    assert advice.gain == pytest.approx(3 / 8)
    assert "1 full wave and one of 1" in advice.text
    assert "idle at the end 38%" in map(str, advice.evidence)


def test_one_slow_tile_is_imbalance_and_its_work_is_named():
    durations = [1e5] * 7 + [8e5]
    made = work(8)
    slow = turns(durations, work=made)
    assert "its counted work is that of the others" in advice_of(slow)["imbalance"].text
    made.flops[7] = 8000.0
    advice = advice_of(slow)["imbalance"]
    assert "it has 8.0 times the median's work" in advice.text
    assert advice.gain == pytest.approx((3 * 7e5) / (4 * 9e5))
    assert "tail effect" not in advice_of(slow)


def test_units_that_are_late_without_a_slow_tile():
    late = profile_of([0, 1, 2, 3] * 25, [1e5 * (n // 4) + (3e6 if n % 4 == 3 else 0.0) for n in range(100)],
                      [1e5 * (n // 4) + 1e5 + (3e6 if n % 4 == 3 else 0.0) for n in range(100)])  # fmt: skip
    assert advice_of(late)["uneven units"].gain == pytest.approx(3 * 3e6 / (4 * 5.5e6))


def test_a_unit_that_stands_still_is_no_tail():
    # All but one of 35 tiles ran on one of two units: the last wave, of one tile, has little to do with that.
    still = profile_of([0] * 34 + [1], [1e5 * n for n in range(34)] + [0.0], [1e5 * (n + 1) for n in range(34)] + [1e5])
    assert "tail effect" not in advice_of(still)
    assert "uneven units" in advice_of(still)


def test_units_that_ran_nothing_are_blamed_before_any_tile():
    """One core of two was another program's: all tiles ran on the other, one of them longer than the others."""
    cores = dataclasses.replace(MACHINE, unit="core", units=2, on_gpu=False)
    durations = [1e5] * 6 + [8e5]
    ends = [sum(durations[: n + 1]) for n in range(7)]
    advice = advice_of(profile_of([1] * 7, [0.0, *ends[:-1]], ends, machine=cores))
    assert "1 of 2 cores ran all tiles, though there are groups for each" in advice["idle units"].text
    assert advice["idle units"].gain == 0.5
    assert not {"imbalance", "tail effect", "uneven units"} & set(advice)


def test_a_slow_edge_is_told_from_a_slow_tile(monkeypatch: pytest.MonkeyPatch):
    """The first column of a grid of 8 x 6 reaches outside of an array: 12 times the time, for the same work."""
    durations = [1.2e6 if n % 6 == 0 else 1e5 for n in range(48)]
    edge = turns(durations)
    monkeypatch.setattr(type(edge), "axes", (GridAxis("i", 8, 16), GridAxis("j", 6, 64)))
    advice = advice_of(edge)
    assert "The 8 tiles at the first step along j take 12.0 times the others" in advice["slow edge"].text
    assert advice["slow edge"].gain == pytest.approx(8 * 1.1e6 / sum(durations))
    assert "imbalance" not in advice
    monkeypatch.setattr(type(edge), "axes", (GridAxis("n", 48, 1024),))
    assert "slow edge" not in advice_of(edge), "one tile is no edge"
