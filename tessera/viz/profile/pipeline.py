"""A software pipeline as a Gantt chart: what copies and products of a tile's first iterations do when."""

from dataclasses import dataclass
from typing import Final

from tessera.core.work import Work
from tessera.performance.device_model import Machine

_BEYOND: Final = 3
"""Iterations drawn after the pipeline is full."""


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A stretch of one role's time, in ns from the tile's beginning: iteration `number`, in buffer `stage`."""

    role: str
    name: str
    number: int
    stage: int
    start: float
    end: float


def pipeline_steps(work: Work, machine: Machine, stages: int, *, producer: bool) -> tuple[PipelineStep, ...]:
    """Return the first iterations of a tile's main loop, as the cost model sees them; none without a product.

    A copy waits for its buffer, `stages` iterations back, and for the copy before it; a product for its operands and
    the product before it.  producer: whether copies are a warp's of their own
    """
    if not work.dots or stages < 1 or not work.groups:
        return ()
    dot = max(work.dots, key=lambda each: each.m * each.n * each.k)
    flops = 2.0 * dot.m * dot.n * dot.k
    copy = dot.operand_bytes / (machine.cache_bandwidth / machine.units) * 1e9
    multiply = flops / (machine.rate(f"dot {dot.dtype}") / machine.units) * 1e9
    iterations = max(1, round(float(work.flops.mean()) / flops))
    copier = "producer warp" if producer else "asynchronous copies"
    user = "consumer warps" if producer else "warps"
    copied: list[float] = []
    used: list[float] = []
    found: list[PipelineStep] = []
    for number in range(min(iterations, stages + _BEYOND)):
        free = used[number - stages] if number >= stages else 0.0
        begin = max(free, copied[-1] if copied else 0.0)
        copied.append(begin + copy)
        found.append(PipelineStep(copier, "load", number, number % stages, begin, copied[-1]))
        begin = max(copied[-1], used[-1] if used else 0.0)
        used.append(begin + multiply)
        found.append(PipelineStep(user, "product", number, number % stages, begin, used[-1]))
    return tuple(found)
