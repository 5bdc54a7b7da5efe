"""The cost model: the time that a configuration should take, by a roofline with whole waves of groups.

A model this crude ranks, it does not measure.  Its scale comes from the first trials of a search, and what it says is
hopeless is left out only when it would be slower than the best trial even if it were underestimated as badly as any
trial so far: see `Calibration`.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.work import Work
from tessera.performance.device_model import Machine

_TRIALS: Final = 4
"""Trials that tell how wrong predictions are; before that, nothing is left out."""
_DOUBT: Final = 2.0
"""How much worse than the worst so far a prediction may still be."""
_STAGES: Final = 2
"""Steps of K whose operands are in shared memory at a time, at least."""
_ACCUMULATOR: Final = 4
_OVERLAP: Final = 4
"""Groups on one multiprocessor that hide each other's waiting at most."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds, and how much of them each limit accounts for: "memory", "cache", "compute", "steps", "launch"."""

    seconds: float
    parts: Mapping[str, float]

    @property
    def bound(self) -> str:
        """The limit that accounts for most."""
        return max(self.parts, key=lambda name: self.parts[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelError:
    """How many times the predicted time launches take: per kernel the median of its configurations.

    least, median, most: of the kernels; kernels: how many; machine: where, and when
    """

    least: float
    median: float
    most: float
    kernels: int
    machine: str

    @property
    def told(self) -> str:
        """The error in words."""
        return (
            f"measured times are {self.median:.2g} times the predicted ones in the median of {self.kernels} kernels, "
            f"{self.least:.2g} to {self.most:.2g} times ({self.machine})"
        )


def model_error(*, on_gpu: bool) -> ModelError:
    """Return how far predictions are from measured times.  Source: `benchmarks/tuning.py`."""
    return _ON_GPU if on_gpu else _ON_CPU


_ON_GPU: Final = ModelError(least=0.6, median=1.4, most=19.0, kernels=10, machine="H200, 2026-11-30")
_ON_CPU: Final = ModelError(least=0.48, median=1.7, most=3.6, kernels=10, machine="two cores of Zen 4, 2026-11-30")


def predict(work: Work, machine: Machine, lanes: int = 0) -> Prediction:
    """Return the time of a launch: the slowest of memory, cache and arithmetic, then what every step and launch costs.

    lanes: lanes of a group on a GPU, 0 where the compiler chooses
    """
    waves = math.ceil(work.groups / machine.units) * machine.units / max(1, work.groups)
    compute = waves * sum(amount / machine.rate(kind) for kind, amount in work.by_kind.items())
    cache = waves * work.requested_bytes / machine.cache_bandwidth
    memory = work.least_bytes / machine.bandwidth
    beside = overlapping(work, machine, lanes) if machine.on_gpu else 1
    steps = waves * (work.steps + work.groups) / machine.units * machine.step / beside
    parts = {"memory": memory, "cache": cache, "compute": compute, "steps": steps, "launch": machine.launch}
    return Prediction(max(memory, cache, compute) + steps + machine.launch, parts)


def overlapping(work: Work, machine: Machine, lanes: int = 0) -> int:
    """Return how many groups on one multiprocessor hide each other's waiting: at least 1."""
    return min(_OVERLAP, resident(work, machine, lanes))


def resident(work: Work, machine: Machine, lanes: int = 0) -> int:
    """Return the groups that one multiprocessor holds at a time, from what their products need: at least 1."""
    limits = [32]
    if machine.lanes and lanes:
        limits.append(machine.lanes // lanes)
    for dot in work.dots:
        if machine.shared_bytes:
            limits.append(machine.shared_bytes // max(1, _STAGES * dot.operand_bytes))
        if machine.registers:
            limits.append(machine.registers // max(1, dot.m * dot.n))
    return max(1, min(limits))


def impossible(work: Work, machine: Machine) -> str:
    """Return why a group cannot be held by one multiprocessor, however it is compiled; "" when it may be."""
    for dot in work.dots:
        if machine.shared_bytes and dot.operand_bytes > machine.shared_bytes:
            return f"one step needs {dot.operand_bytes} bytes of operands, a multiprocessor has {machine.shared_bytes}"
        if machine.registers and dot.m * dot.n > machine.registers:
            need, has = _ACCUMULATOR * dot.m * dot.n, _ACCUMULATOR * machine.registers
            return f"the sums of {dot.m} x {dot.n} need {need} bytes of registers, a multiprocessor has {has}"
    return ""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How wrong predictions were so far.

    ratios: the measured time over the predicted one, of each trial
    """

    ratios: tuple[float, ...] = ()

    @property
    def scale(self) -> float:
        """The factor of a prediction: the median of the ratios."""
        return statistics.median(self.ratios) if self.ratios else 1.0

    @property
    def error(self) -> float:
        """How far the worst corrected prediction was from its trial: 0.2 says within a fifth."""
        if not self.ratios:
            return 0.0
        return max(max(self.ratios) / self.scale, self.scale / min(self.ratios)) - 1.0

    @property
    def told(self) -> str:
        """The calibration in words; "" where nothing was predicted and measured."""
        if not self.ratios:
            return ""
        count = len(self.ratios)
        kept = f"predictions: corrected by a factor of {self.scale:.2f} after {count} trial{'s' if count > 1 else ''}"
        return f"{kept}, then {self.reach} of all of them" if count > 1 else kept

    @property
    def reach(self) -> str:
        """The error in words: "within 20%", "within a factor of 3"."""
        return f"within {self.error:.0%}" if self.error < 1.0 else f"within a factor of {self.error + 1.0:.1f}"

    def corrected(self, predicted: float) -> float:
        """Return a prediction on the scale of what was measured."""
        return predicted * self.scale

    def hopeless(self, predicted: float, best: float) -> str:
        """Return why a configuration is not worth a try beside a trial that took `best`; "" when it may be faster."""
        if len(self.ratios) < _TRIALS or predicted * min(self.ratios) / _DOUBT <= best:
            return ""
        return f"predicted {self.corrected(predicted) * 1e6:,.1f} us {self.reach}, the best takes {best * 1e6:,.1f}"
