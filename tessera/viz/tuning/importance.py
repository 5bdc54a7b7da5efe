"""Main effects: which parameter matters most, as the share of the variance of the times that it explains alone.

The times are taken as logarithms, since parameters act as factors.  On a full grid, where every combination was
measured once, the shares are those of an analysis of variance: with the interactions they sum to one.  Where the grid
has holes (pruned, illegal, not yet tried) the shares of different parameters may overlap, which is said.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.viz.tuning.model import Column, Parameter, TuningModel, measured_rows

_FEWEST: Final = 3


@dataclass(frozen=True, slots=True)
class MainEffect:
    """Main effect of one parameter.

    share: of the variance, 0 to 1; best: the value with the shortest times on average, as text
    """

    name: str
    share: float
    best: str


@dataclass(frozen=True, slots=True)
class Importance:
    """The main effects of all parameters.

    effects: the largest first; rows: how many trials they come from; full: these are a full grid, see above
    """

    effects: tuple[MainEffect, ...]
    rows: int
    full: bool

    @property
    def rest(self) -> float | None:
        """The share that no parameter explains alone: interactions and noise; None where shares may overlap."""
        return max(0.0, 1.0 - sum(effect.share for effect in self.effects)) if self.full and self.effects else None


def importance(model: TuningModel) -> Importance:
    """Return the main effect of every parameter with several values among the rows that have a time."""
    rows = measured_rows(model)
    rows = rows[~np.isnan(model.seconds[rows]) & (model.seconds[rows] > 0)]
    times = np.log(model.seconds[rows])
    varied = [each for each in model.parameters if len(np.unique(each.codes[rows])) > 1]
    if len(rows) < _FEWEST or not varied or math.isclose(float(np.ptp(times)), 0.0):
        return Importance((), len(rows), full=False)
    effects = [_effect(each, each.codes[rows], times) for each in varied]
    combinations = np.zeros(len(rows), np.int64)
    for each in varied:
        combinations = combinations * (len(each.values) + 1) + each.codes[rows] + 1
    wanted = math.prod(len(np.unique(each.codes[rows])) for each in varied)
    full = len(np.unique(combinations)) == len(rows) == wanted
    return Importance(tuple(sorted(effects, key=lambda each: (-each.share, each.name))), len(rows), full)


def _effect(
    parameter: Parameter, codes: "np.ndarray[tuple[int, ...], np.dtype[np.int32]]", times: Column
) -> MainEffect:
    mean, between, means = float(times.mean()), 0.0, dict[int, float]()
    for code in np.unique(codes):
        group = times[codes == code]
        means[int(code)] = float(group.mean())
        between += len(group) * (float(group.mean()) - mean) ** 2
    fastest = min(means, key=lambda code: means[code])
    return MainEffect(
        parameter.name,
        between / float(((times - mean) ** 2).sum()),
        parameter.values[fastest] if fastest >= 0 else "not given",
    )
