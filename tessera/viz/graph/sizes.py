"""Sizes of boxes, by the number of characters in them: the frontend draws with these, so that layouts fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.viz.graph.model import Badge, Node, Region

_LABEL, _NOTE, _CHIP = 7.4, 6.3, 6.1
"""Pixels of a character: monospaced 12 px bold, 10.5 px, and 10 px."""
LINE, CHIP_HEIGHT, GAP, PADDING = 17, 16, 4, 9
WIDEST: Final = 250
"""Of a node; longer texts end in an ellipsis."""
HEAD: Final = 26
"""Of an open region, without its badges."""
_HEAD_WIDEST: Final = 560
_CHIPS_WIDEST: Final = 262
_RING: Final = 18
_BUTTON: Final = 58
"""Of a region's head: the button, and the sign of what changed."""


@dataclass(frozen=True, slots=True)
class Box:
    """Width and height, and the place of each badge: x, y from the top left corner, and width."""

    width: float
    height: float
    chips: tuple[tuple[float, float, float], ...] = ()


def box_of(node: Node) -> Box:
    """Return the size of a node."""
    lines = [len(node.label) * _LABEL, len(node.note) * _NOTE]
    text = min(WIDEST, max(lines) + 2 * PADDING + 14)
    top = PADDING - 2 + LINE + (LINE - 3 if node.note else 0)
    chips, wide, bottom = _flow(node.badges, max(text, _CHIPS_WIDEST), PADDING, top + 3)
    return Box(round(max(text, wide + PADDING, 54)), round(bottom + PADDING - 2 if chips else top + PADDING - 3), chips)


def closed_box(region: Region) -> Box:
    """Return the size of a region that is closed."""
    return Box(round(min(WIDEST + 60, max(130, len(region.label) * _LABEL + _BUTTON + 14))), 44)


def head_of(region: Region) -> Box:
    """Return the size of the head of a region that is open: its least width, and its height."""
    chips, wide, bottom = _flow(region.badges, _HEAD_WIDEST, PADDING, HEAD)
    return Box(
        round(max(wide + PADDING, len(region.label) * _LABEL + _BUTTON)), round(bottom + 4) if chips else HEAD, chips
    )


def _flow(
    badges: Sequence[Badge], widest: float, left: float, top: float
) -> tuple[tuple[tuple[float, float, float], ...], float, float]:
    """Place badges in rows; return places, the right end, and the bottom."""
    places: list[tuple[float, float, float]] = []
    x, y, right = left, top, 0.0
    for badge in badges:
        width = round(len(badge.text) * _CHIP + 12 + (_RING if badge.ring else 0), 1)
        if x > left and x + width > widest:
            x, y = left, y + CHIP_HEIGHT + GAP - 1
        places.append((round(x, 1), y, width))
        x += width + GAP
        right = max(right, x - GAP)
    return tuple(places), right, y + CHIP_HEIGHT if badges else top


def largest(boxes: Iterable[Box]) -> Box:
    """Return a size that holds each of `boxes`."""
    known = list(boxes)
    return Box(max(box.width for box in known), max(box.height for box in known))
