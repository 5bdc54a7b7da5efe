"""Pack intervals into lanes in which none overlap: what a timeline draws of units that run several tiles at once."""

import heapq

import numpy as np

from tessera.core.work import Numbers


def packed_lanes(unit: Numbers, start: Numbers, end: Numbers) -> Numbers:
    """Return the lane of each tile inside its unit: the lowest one that is free when the tile begins.

    Clocks tick coarsely: a tile that begins at the instant another ends may take its lane.
    """
    lanes = np.zeros(len(unit), np.int32)
    for each in np.unique(unit):
        mine = np.flatnonzero(unit == each)
        mine = mine[np.lexsort((end[mine], start[mine]))]
        if np.all(end[mine][:-1] <= start[mine][1:]):  # nothing overlaps: one lane
            continue
        lanes[mine] = _lanes_of(start[mine].tolist(), end[mine].tolist())
    return lanes


def _lanes_of(start: list[float], end: list[float]) -> list[int]:
    """Return the lanes of intervals that are sorted by their beginning."""
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    lanes: list[int] = []
    most = 0
    for begin, last in zip(start, end, strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, most = most, most + 1
        lanes.append(lane)
        heapq.heappush(busy, (last, lane))
    return lanes
