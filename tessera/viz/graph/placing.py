"""Rows of boxes that do not overlap, and coordinates of them: what every engine's layout comes to.

An engine decides which row a box stands in, and at what x.  `spread` moves the boxes of a row apart, as little as
possible (isotonic regression by pooling adjacent violators).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

COLUMN_GAP, ROW_GAP = 22, 34
"""Pixels between boxes of a row, and between rows."""
LINK_GAP: Final = 10
"""Between a box and an edge that passes it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A box that is laid out: a node, or a region as a whole."""

    id: str
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Scope:
    """Unit of layout: the boxes in one region, in the order of the program, and what joins them."""

    items: tuple[Item, ...]
    links: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a row: the middle of the box `id`, or where the edge from `id` to `to` passes."""

    id: str
    x: float
    to: str = ""


Rows = tuple[tuple[Slot, ...], ...]


def spread(wanted: Sequence[float], widths: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return middles as near to `wanted` as boxes of `widths` allow, in this order; `gaps[i]` is in front of box i."""
    offsets = [0.0]
    for i in range(1, len(wanted)):
        offsets.append(offsets[-1] + (widths[i - 1] + widths[i]) / 2 + gaps[i])
    pools: list[tuple[float, int]] = []  # sum of places, and how many boxes move together
    for place, offset in zip(wanted, offsets, strict=True):
        total, count = place - offset, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / count:
            before, number = pools.pop()
            total, count = total + before, count + number
        pools.append((total, count))
    places = [total / count for total, count in pools for _ in range(count)]
    return [place + offset for place, offset in zip(places, offsets, strict=True)]


def straightened(rows: Rows, sizes: Mapping[str, Item]) -> Rows:
    """Move the boxes of each row apart where they overlap, and everything to begin at 0."""
    moved: list[tuple[Slot, ...]] = []
    for row in rows:
        widths = [0.0 if slot.to else sizes[slot.id].width for slot in row]
        places = spread([slot.x for slot in row], widths, gaps_of(row))
        moved.append(tuple(Slot(slot.id, place, slot.to) for slot, place in zip(row, places, strict=True)))
    left = min((slot.x - (0 if slot.to else sizes[slot.id].width / 2) for row in moved for slot in row), default=0)
    return tuple(tuple(Slot(slot.id, round(slot.x - left, 1), slot.to) for slot in row) for row in moved)


def gaps_of(row: Sequence[Slot]) -> list[float]:
    """Return the gap in front of each place of a row."""
    return [LINK_GAP if slot.to or (i and row[i - 1].to) else COLUMN_GAP for i, slot in enumerate(row)]


def extent(rows: Rows, sizes: Mapping[str, Item]) -> tuple[float, float]:
    """Return the width and the height of rows."""
    right = max((slot.x + (0 if slot.to else sizes[slot.id].width / 2) for row in rows for slot in row), default=0)
    heights = [max((sizes[slot.id].height for slot in row if not slot.to), default=0) for row in rows]
    return right, sum(heights) + ROW_GAP * max(0, len(heights) - 1)
