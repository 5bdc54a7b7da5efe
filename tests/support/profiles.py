"""Made-up launches: machines, counted work, records as a GPU writes them, and profiles of these."""

import dataclasses
from typing import Any

import numpy as np

from tessera.core.profile import CYCLES, END, PLACE, RAN, START, WORDS, WORKER
from tessera.core.work import Work
from tessera.performance.device_model import Machine
from tessera.profiling.advice.model import Advice
from tessera.profiling.advice.rules import RULES
from tessera.profiling.records import Tiles
from tessera.profiling.results import Profile

MACHINE = Machine(
    "Made-up", 1, 4, "SM", bandwidth=1e12, cache_bandwidth=2e12, cache_bytes=1, source="made up",
    rates={"f32": 1e13, "dot bf16": 1e15}, on_gpu=True,
)  # fmt: skip


def work(groups: int, **changes: Any) -> Work:  # noqa: ANN401 - fields of any type
    part = np.full(groups, 1000.0)
    made = Work(part, part / 2, part, by_kind={"f32": 1e6}, least_read=1e6, least_written=0.0, steps=0.0)
    return dataclasses.replace(made, **changes)


def gpu_records(starts: list[float], ends: list[float], unit: list[int], tick: int, clock: float = 0.5) -> np.ndarray:
    """What a GPU writes whose global timer ticks every `tick` ns and whose SMs count cycles of `clock` ns."""
    records = np.zeros((len(starts), WORDS), np.uint64)
    for row, (start, end, sm) in enumerate(zip(starts, ends, unit, strict=True)):
        offset = 1_000_000 * (sm + 1)  # every SM counts from somewhere else
        records[row, START] = (10**15 + int(start)) // tick * tick
        records[row, END] = (10**15 + int(end)) // tick * tick
        records[row, WORKER] = int(offset + start / clock)
        records[row, CYCLES] = int(offset + end / clock)
        records[row, PLACE] = RAN + sm
    return records


def profile_of(
    unit: list[int],
    start: list[float],
    end: list[float],
    phases: dict[str, list[float]] | None = None,
    machine: Machine = MACHINE,
    **changes: Any,  # noqa: ANN401 - fields of any type
) -> Profile:
    """A profile whose tiles ran on these units at these times, in ns."""
    made = work(len(unit))
    columns = {name: np.array(values, float) for name, values in (phases or {}).items()}
    tiles = Tiles(
        np.arange(len(unit)),
        np.array(unit, int),
        np.array(start, float),
        np.array(end, float),
        made.read,
        made.written,
        columns,
    )
    seconds = (max(end, default=0.0) * 1e-9 or 1e-9,)
    facts: dict[str, Any] = {"work": made, "plain": seconds, "instrumented": seconds, **changes}
    return Profile("k", "cuda:sm_90a", machine, tiles, **facts)


def turns(durations: list[float], units: int = 4, **changes: Any) -> Profile:  # noqa: ANN401 - fields of any type
    """A profile of tiles that take so many ns, in turns on `units` SMs."""
    ends = [0.0] * units
    start: list[float] = []
    for n, length in enumerate(durations):
        start.append(ends[n % units])
        ends[n % units] += length
    end = [a + length for a, length in zip(start, durations, strict=True)]
    return profile_of([n % units for n in range(len(durations))], start, end, **changes)


def advice_of(profile: Profile) -> dict[str, Advice]:
    """What each rule says, by its kind."""
    return {advice.kind: advice for rule in RULES for advice in rule(profile)}
