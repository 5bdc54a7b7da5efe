"""Intervals packed into lanes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessera.performance.slot_packing import packed_lanes

INTERVALS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 20)), max_size=40)


@given(INTERVALS)
def test_no_two_tiles_of_a_lane_overlap_and_no_lane_is_wasted(tiles: list[tuple[int, int, int]]):
    unit, start, length = (np.array([tile[n] for tile in tiles], float) for n in range(3))
    end = start + length
    lanes = packed_lanes(unit, start, end)
    assert len(lanes) == len(tiles)
    for each in np.unique(unit):
        mine = np.flatnonzero(unit == each)
        for a in mine:
            for b in mine:
                if a != b and lanes[a] == lanes[b]:
                    assert end[a] <= start[b] or end[b] <= start[a]
        running = [int(((start[mine] <= at) & (at < end[mine])).sum()) for at in start[mine]]
        assert lanes[mine].max() + 1 <= max(1, *running) + int((length[mine] == 0).any())


def test_neighbours_in_time_share_a_lane():
    assert packed_lanes(np.zeros(3), np.array([0, 5, 2]), np.array([5, 9, 4])).tolist() == [0, 0, 1]
