"""Compare the finalists of a search by the rounds that decided it: ratios of times that were taken in turns.

Times of one round share the state of the machine, so their ratio says more than two medians.  The interval around the
median ratio is that of the sign test, which supposes nothing of how times are distributed (Hollander, Wolfe, Chicken,
Nonparametric Statistical Methods, 3.6).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.tuning.results import Trial

_OUTSIDE: Final = 0.05
"""Probability that the interval around a median does not hold it."""


@dataclass(frozen=True, slots=True)
class Finalist:
    """A configuration that was timed in turns with the best.

    row: of the trial; seconds: the median of its times; rounds: how many; wins: in how many it was faster than the best
    ratio: the median of its time over the best one's, with an interval from `low` to `high` at 95 per cent, or of all
           ratios where there are fewer than six; all 1 for the best
    """

    row: int
    seconds: float
    ratio: float
    low: float
    high: float
    wins: int
    rounds: int


def final_rounds(trials: Sequence[Trial], best: int) -> tuple[Finalist, ...]:
    """Return the finalists, the best first and the others by their ratio to it; none where no rounds decided.

    best: row of the trial that was chosen; -1: none was
    """
    if best < 0 or not trials[best].compared:
        return ()
    times = trials[best].compared
    compared = [row for row, trial in enumerate(trials) if len(trial.compared) == len(times)]
    finalists = [_finalist(row, trials[row].compared, times) for row in compared]
    return tuple(sorted(finalists, key=lambda each: (each.row != best, each.ratio, each.row)))


def _finalist(row: int, seconds: Sequence[float], times: Sequence[float]) -> Finalist:
    ratios = sorted(own / best for own, best in zip(seconds, times, strict=True))
    outside = _ranks_outside(len(ratios))
    return Finalist(
        row, statistics.median(seconds), statistics.median(ratios), ratios[outside], ratios[-1 - outside],
        sum(ratio < 1.0 for ratio in ratios), len(ratios),
    )  # fmt: skip


def _ranks_outside(count: int) -> int:
    """Return how many of the least, and of the greatest, ratios the interval around the median leaves out."""
    outside, below = 0, 1 / 2**count  # the probability of no ratio below the median
    while 2 * (below := below + math.comb(count, outside + 1) / 2**count) <= _OUTSIDE:
        outside += 1
    return outside
