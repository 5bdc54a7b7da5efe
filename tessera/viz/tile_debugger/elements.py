"""Sets of an array's elements: as runs, short to send and quick to search, and as slices in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = np.ndarray[tuple[int, ...], np.dtype[Any]]  # of any type
Elements = NDArray[np.int64]
Flags = NDArray[np.bool_]
Runs = NDArray[np.int32]
"""One row for each run of row-major numbers: the first, how many, and the distance from one to the next."""


def runs_of(elements: NDArray[np.integer[Any]]) -> Runs:  # of any width
    """Return elements, in their order, as runs of equal distances.

    Runs of length 2 are made only where the distance is 1: of numbers without order each is a run of its own.
    """
    steps = np.diff(elements)
    changes = np.flatnonzero(np.diff(steps)) + 1  # where the distance is no longer that of the pair before
    rows: list[tuple[int, int, int]] = []
    first = 0
    while first < len(elements):
        place = int(np.searchsorted(changes, first, "right"))
        last = int(changes[place]) if place < len(changes) else len(elements) - 1
        step = int(steps[first]) if last > first else 1
        if last - first == 1 and step != 1:
            last, step = first, 1
        rows.append((int(elements[first]), last - first + 1, step))
        first = last + 1
    return np.asarray(rows, np.int32).reshape(-1, 3)


def elements_of(runs: Runs) -> Elements:
    """Return the elements of runs, in order."""
    parts = [first + step * np.arange(count, dtype=np.int64) for first, count, step in runs.tolist()]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def slice_text(shape: Sequence[int], elements: Elements) -> str:
    """Return a set of elements as a slice such as `[0:64, 32:64]`, with steps; else within which slice they lie."""
    unique = np.unique(elements)
    if not len(unique):
        return "nothing"
    places = np.unravel_index(unique, tuple(shape))
    parts: list[str] = []
    inside = 1
    for along in places:
        used = np.unique(along)
        first, last = int(used[0]), int(used[-1])
        step = int(used[1]) - first if len(used) > 1 else 1
        even = bool(np.all(np.diff(used) == step)) if len(used) > 1 else True
        step = step if even else 1
        inside *= (last - first) // step + 1
        parts.append(_along(first, last, step))
    text = f"[{', '.join(parts)}]"
    return text if inside == len(unique) else f"{len(unique):,} elements of {text}"


def _along(first: int, last: int, step: int) -> str:
    if first == last:
        return str(first)
    return f"{first}:{last + 1}" if step == 1 else f"{first}:{last + 1}:{step}"
