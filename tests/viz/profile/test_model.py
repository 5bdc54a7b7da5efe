"""Launches as columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.profiles import profile_of
from tessera.viz.profile import model
from tessera.viz.profile.model import launch_text, measured_launch


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000), st.integers(1, 400)), max_size=50))
def test_columns_hold_every_tile_once_and_lanes_do_not_overlap(tiles: list[tuple[int, int, int]]):
    unit, start = [tile[0] for tile in tiles], [float(tile[1]) for tile in tiles]
    found = measured_launch(profile_of(unit, start, [a + tile[2] for a, tile in zip(start, tiles, strict=True)]))
    columns = found.measured
    assert columns is not None
    assert sorted(columns.group.tolist()) == list(range(len(tiles)))
    key = np.lexsort((columns.start, columns.lane, columns.row))
    assert key.tolist() == list(range(len(tiles)))
    same = (np.diff(columns.row) == 0) & (np.diff(columns.lane) == 0)
    assert np.all((columns.end[:-1] <= columns.start[1:])[same])
    assert [found.rows[row] for row in columns.row] == [f"SM {unit[group]}" for group in columns.group]


def test_tables_say_what_is_drawn():
    found = measured_launch(profile_of([0, 0, 2], [0, 500, 250], [400, 1000, 1000]))
    assert found.table == (("SM 0", "2", "90%", ""), ("SM 2", "1", "75%", ""))
    assert [(tile.tile, tile.row, tile.duration) for tile in found.slowest] == [
        (2, "SM 2", 750.0), (1, "SM 0", 500.0), (0, "SM 0", 400.0),
    ]  # fmt: skip
    assert found.predicted is None


def test_a_unit_that_is_not_known_has_a_row():
    assert measured_launch(profile_of([-1], [0], [5])).rows == ("SM ?",)


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(model, "MOST_TILES", 4)
    found = measured_launch(profile_of([0] * 10, [float(n) for n in range(10)], [n + 1.0 for n in range(10)], every=2))
    assert found.measured is not None
    assert found.measured.group.tolist() == [0, 3, 6, 9]
    assert found.remarks == (
        "one tile in 2 is recorded and drawn", "4 of 10 recorded tiles are in this page",
    )  # fmt: skip


def test_the_text_has_no_times():
    assert launch_text(profile_of([0, 1], [0, 0], [5, 9])) == (
        "profile of k for cuda: 2 tiles, 1,000,000 bytes of memory, 1,000,000 operations"
    )
