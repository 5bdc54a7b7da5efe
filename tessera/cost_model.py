"""What a configuration should take, before it runs: a roofline with whole waves of groups.

A model this crude ranks, it does not measure: what it says is hopeless is left out only when it is slower than the best
prediction by more than `FACTOR`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.work import Work
from tessera.machine import Machine

FACTOR: Final = 3.0
"""A configuration predicted within this factor of the best prediction is never left out."""
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


def predict(work: Work, machine: Machine, lanes: int = 0) -> Prediction:
    """The time of a launch: the slowest of memory, cache and arithmetic, then what every step and launch costs.

    lanes: lanes of a group on a GPU, 0 where the compiler chooses
    """
    waves = math.ceil(work.groups / machine.units) * machine.units / max(1, work.groups)
    compute = waves * sum(amount / machine.rate(kind) for kind, amount in work.by_kind.items())
    cache = waves * work.requested_bytes / machine.cache_bandwidth
    memory = work.least_bytes / machine.bandwidth
    beside = min(_OVERLAP, resident(work, machine, lanes)) if machine.kind == "cuda" else 1
    steps = waves * (work.steps + work.groups) / machine.units * machine.step / beside
    parts = {"memory": memory, "cache": cache, "compute": compute, "steps": steps, "launch": machine.launch}
    return Prediction(max(memory, cache, compute) + steps + machine.launch, parts)


def resident(work: Work, machine: Machine, lanes: int = 0) -> int:
    """Groups that one multiprocessor holds at a time, from what their products need: at least 1."""
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
    """Why a group cannot be held by one multiprocessor, however it is compiled; "" when it may be."""
    for dot in work.dots:
        if machine.shared_bytes and dot.operand_bytes > machine.shared_bytes:
            return f"one step needs {dot.operand_bytes} bytes of operands, a multiprocessor has {machine.shared_bytes}"
        if machine.registers and dot.m * dot.n > machine.registers:
            need, has = _ACCUMULATOR * dot.m * dot.n, _ACCUMULATOR * machine.registers
            return f"the sums of {dot.m} x {dot.n} need {need} bytes of registers, a multiprocessor has {has}"
    return ""


def hopeless(predicted: float, all_predictions: Iterable[float]) -> str:
    """Why a configuration is not worth a try; "" when it is."""
    best = min(all_predictions, default=predicted)
    if predicted <= FACTOR * best:
        return ""
    return f"predicted {predicted * 1e6:,.1f} us, {predicted / best:.1f} times the best prediction"
