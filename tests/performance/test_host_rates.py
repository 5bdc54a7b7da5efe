"""Rates of the host: kept where they were measured on an idle machine, and never lowered."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tessera.performance.host_rates import (
    HostRates,
    kept_rates,
    measure_rates,
    raised_rates,
    rates_path,
    read_rates,
    write_rates,
)

CALM = HostRates(40e9, 100e9, 0.02, 0.01, "2026-11-30")
BUSY = replace(CALM, bandwidth=20e9, product=30e9, disturbance=0.5)


class Measurements:
    """Gives one after the other, and counts."""

    def __init__(self, rates: Sequence[HostRates]) -> None:
        self._rates: Iterator[HostRates] = iter(rates)
        self.count = 0

    def __call__(self) -> HostRates:
        self.count += 1
        return next(self._rates)


def test_rates_of_an_idle_machine_are_measured_once(tmp_path: Path):
    path, measure = tmp_path / "machines" / "a.json", Measurements([CALM])
    assert kept_rates(path, measure) == CALM
    assert kept_rates(path, measure) == CALM == read_rates(path)
    assert measure.count == 1


def test_a_busy_machine_is_measured_until_it_is_idle(tmp_path: Path):
    path = tmp_path / "a.json"
    assert kept_rates(path, Measurements([BUSY, BUSY, CALM])) == CALM
    assert read_rates(path) == CALM


def test_what_stayed_busy_is_measured_again_by_the_next_process(tmp_path: Path):
    path = tmp_path / "a.json"
    faster = replace(BUSY, bandwidth=30e9, disturbance=0.4)
    assert kept_rates(path, Measurements([BUSY, faster, BUSY])) == faster
    assert kept_rates(path, Measurements([CALM])) == CALM


def test_the_highest_rates_are_kept(tmp_path: Path):
    path = tmp_path / "a.json"
    write_rates(path, replace(BUSY, bandwidth=60e9))
    assert kept_rates(path, Measurements([CALM])) == replace(CALM, bandwidth=60e9)
    assert raised_rates(path, Measurements([BUSY])) == replace(CALM, bandwidth=60e9)
    higher = replace(CALM, product=200e9, disturbance=0.0)
    assert raised_rates(path, Measurements([higher])) == replace(higher, bandwidth=60e9) == read_rates(path)


@pytest.mark.parametrize(
    "stored",
    [b"", b"[1]", b"{", b'{"bandwidth": 1.0}', b'{"bandwidth": 0, "product": 1, "spread": 0, "disturbance": 0, "date": ""}'],
)  # fmt: skip
def test_damaged_files_are_measured_anew(tmp_path: Path, stored: bytes):
    path = tmp_path / "a.json"
    path.write_bytes(stored)
    path.chmod(0o600)
    assert read_rates(path) is None
    assert kept_rates(path, Measurements([CALM])) == CALM


def test_where_nothing_can_be_written_they_are_measured(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "a.json"
    assert kept_rates(path, Measurements([CALM])) == CALM
    assert read_rates(path) is None


def test_machines_and_numbers_of_threads_have_files_of_their_own(tmp_path: Path):
    assert len({rates_path(tmp_path, name, threads) for name in ("a", "b") for threads in (1, 2)}) == 4


def test_circumstances_in_words():
    assert CALM.circumstances == "2026-11-30, idle, runs differ by 2%"
    assert BUSY.circumstances == "2026-11-30, other programs had 50% of the processors' time, runs differ by 2%"


def test_a_measurement():
    rates = measure_rates(1, 1 << 20)
    assert rates.bandwidth > 0
    assert rates.product > 0
    assert rates.spread >= 0
    assert 0 <= rates.disturbance < 1
    assert len(rates.date) == len("2026-11-30")
