"""Longest common and longest increasing subsequences: what stayed in order between two versions of anything."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence


def longest_rising(numbers: Sequence[int]) -> set[int]:
    """Return the places of a longest rising subsequence (patience sorting)."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        pile = bisect_left(ends, number)
        before.append(at[pile - 1] if pile else -1)
        ends[pile : pile + 1] = [number]
        at[pile : pile + 1] = [place]
    found: set[int] = set()
    place = at[-1] if at else -1
    while place >= 0:
        found.add(place)
        place = before[place]
    return found


def longest_common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return a longest common subsequence as pairs of places, in order.

    Bit-parallel (Hyyrö 2004): one row of the table is one integer, so that 5,000 by 5,000 take some 20 ms, also where
    many elements are equal, for which `difflib` needs a time that is quadratic in their number.
    """
    shortest = min(len(a), len(b))
    if not shortest:
        return []
    head = 0
    while head < shortest and a[head] == b[head]:
        head += 1
    tail, most = 0, shortest - head
    while tail < most and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    middle = _common(a[head : len(a) - tail], b[head : len(b) - tail])
    return [
        *((place, place) for place in range(head)),
        *((head + i, head + j) for i, j in middle),
        *((len(a) - place, len(b) - place) for place in range(tail, 0, -1)),
    ]


def _common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    where: dict[Hashable, int] = defaultdict(int)
    for place, item in enumerate(a):
        where[item] |= 1 << place
    every = (1 << len(a)) - 1
    state, states = every, [every]
    for item in b:
        hit = state & where.get(item, 0)
        state = ((state + hit) | (state - hit)) & every
        states.append(state)
    found: list[tuple[int, int]] = []
    i, j = len(a), len(b)
    while i and j:
        if states[j] >> (i - 1) & 1:
            i -= 1
        elif not states[j - 1] >> (i - 1) & 1:
            j -= 1
        else:
            i, j = i - 1, j - 1
            found.append((i, j))
    return found[::-1]
