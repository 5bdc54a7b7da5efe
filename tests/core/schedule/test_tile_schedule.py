"""What is said of a tile kernel as a whole: written, read back, and refused where it is not legal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.schedule.tile_schedule import LEGAL, TileSchedule

ENTRIES = st.fixed_dictionaries({}, optional={name: st.sampled_from(legal) for name, legal in LEGAL.items()})


@given(ENTRIES)
def test_what_is_written_is_read_back(entries: dict[str, int]):
    schedule = TileSchedule.parse(entries)
    assert TileSchedule.parse(schedule.entries()) == schedule
    assert all(getattr(schedule, name) == value for name, value in entries.items())


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"num_warps": 3}, "`num_warps = 3` is not legal: it is one of 0, 1, 2, 4, 8, 16, 32"),
        ({"stages": 9}, "`stages = 9` is not legal: it is a number from 0 to 8"),
        ({"pingpong": 1}, "`pingpong = 1` is not legal: it is one of false, true"),
        ({"cluster": True}, "`cluster = true` is not legal: it is one of 1, 2"),
        ({"depth": 4}, "`depth` is no entry of a schedule: choose of num_warps, min_blocks_per_sm"),
    ],
)
def test_what_is_not_legal_is_refused(entries: dict[str, int], words: str):
    with pytest.raises(ValueError, match=words):
        TileSchedule.parse(entries)


def test_a_schedule_shows_what_was_chosen():
    assert dict(TileSchedule().marks()) == {}
    schedule = TileSchedule(num_warps=8, producer_warp=True, persistent=True, raster_group=16, stages=4)
    assert dict(schedule.marks()) == {
        "num_warps": "8", "producer": "warp", "grid": "persistent", "raster_group": "16", "stages": "4",
    }  # fmt: skip
