"""How the GPU benchmarks measure and report, without touching a GPU: what is compared, statistics, goals, the table.

Importing this needs nothing but Python; `gpu_cases.py` knows torch and Tessera.
"""

from __future__ import annotations

import math
import statistics
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

OURS: Final = "tessera"
HIGHER_IS_BETTER: Final = ("TFLOP/s", "GB/s")
_TRIAL_RUNS: Final = 3


@dataclass(frozen=True)
class Goal:
    """What a row is to reach.

    base: "best" (of the peers in the row), a peer's name, "row:NAME" (our own rate in another row), "peer:NAME:PEER" (a
    peer's rate in another row), or "limit"; factor: our rate divided by the base's is to be this or more.  With
    "limit", our time in microseconds is to be `factor` or less.
    """

    base: str
    factor: float


@dataclass
class Ready:
    """A contender on its buffers.

    run: launches once, on the buffers numbered by its argument (modulo their number)
    result: gives what run(0) computed; clock: "device" times between device events, "host" from the first launch until
    `wait` returns, "issue" the host's time for the launches alone; each run counts as `share` units of work
    """

    run: Callable[[int], object]
    result: Callable[[], Any] | None = None
    clock: str = "device"
    wait: Callable[[], object] | None = None
    share: int = 1
    notes: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Case:
    """One row: `work` operations (TFLOP/s) or bytes (GB/s) a run, and a maker for each contender.

    error: the largest relative error of a contender's result; `tolerance` is the most it may be
    """

    name: str
    unit: str
    work: float
    contenders: Mapping[str, Callable[[], Ready]]
    error: Callable[[Any], float] | None = None
    tolerance: float = 0.0
    goal: Goal | None = None


@dataclass
class Outcome:
    """What became of one contender: samples in milliseconds a run, or why there are none."""

    samples: list[float] = field(default_factory=list[float])
    rate: float | None = None
    error: float | None = None
    failure: str = ""
    notes: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def median(self) -> float | None:
        """Median of the samples, in milliseconds."""
        return statistics.median(self.samples) if self.samples else None


@dataclass
class Row:
    """One measured row.  ratio: our rate divided by the goal's base; met: whether the goal is reached, None if open."""

    name: str
    unit: str
    outcomes: dict[str, Outcome]
    goal: Goal | None = None
    ratio: float | None = None
    met: bool | None = None


class Clock(Protocol):
    """Times runs on a device."""

    def milliseconds(self, ready: Ready, runs: int, first: int) -> float:
        """The time of one of `runs` runs in a row, on the buffers from number `first` on."""
        ...

    def settle(self) -> None:
        """Wait until the device is idle; raises when it was lost."""
        ...


@dataclass(frozen=True)
class Effort:
    """rounds: samples of each contender, taken in turns; sample_ms: about how long one lasts; most_runs: in one.

    settle: samples that are thrown away in front of each: a card at its power limit first runs at the clock that the
    contender before has left it, for some tens of milliseconds
    """

    rounds: int = 9
    sample_ms: float = 20.0
    most_runs: int = 1000
    settle: int = 0


class DeviceLost(Exception):
    """The device does not answer after a contender failed: what follows needs a new process."""


def measure(
    case: Case, clock: Clock, effort: Effort, *, excluded: Mapping[str, str] | None = None,
    begins: Callable[[str], object] = lambda _: None,
) -> Row:  # fmt: skip
    """Prepare and check each contender, then time them in turns.

    excluded: contenders not to be run, with the reason; begins: told each contender's name before it is touched.
    Raises DeviceLost.
    """
    outcomes = {name: Outcome(failure=(excluded or {}).get(name, "")) for name in case.contenders}
    ready: dict[str, Ready] = {}
    runs: dict[str, int] = {}
    for name, make in case.contenders.items():
        if outcomes[name].failure:
            continue
        begins(name)
        try:
            made = _checked(case, make, outcomes[name], clock)
            once = clock.milliseconds(made, _TRIAL_RUNS, 0)
            runs[name] = max(1, min(effort.most_runs, math.ceil(effort.sample_ms / max(once, 1e-6))))
            ready[name] = made
        except Exception as error:  # noqa: BLE001 - one failing contender must not hide the others
            outcomes[name].failure = _describe(error)
            _still_there(clock)
    _take_samples(ready, runs, outcomes, clock, effort, begins)
    for name, outcome in outcomes.items():
        if outcome.samples:
            outcome.rate = rate(case, statistics.median(outcome.samples) / ready[name].share)
    return Row(case.name, case.unit, outcomes, case.goal)


def _checked(case: Case, make: Callable[[], Ready], outcome: Outcome, clock: Clock) -> Ready:
    """A contender whose result was right.  Raises ValueError for one that is not."""
    made = make()
    made.run(0)
    clock.settle()
    outcome.notes = made.notes
    if case.error is not None and made.result is not None:
        outcome.error = case.error(made.result())
        if not outcome.error <= case.tolerance:  # NaN is wrong, too
            raise ValueError(f"wrong by {outcome.error:.2e}, more than {case.tolerance:.0e}")
    return made


def _take_samples(
    ready: Mapping[str, Ready], runs: Mapping[str, int], outcomes: Mapping[str, Outcome], clock: Clock, effort: Effort,
    begins: Callable[[str], object],
) -> None:  # fmt: skip
    names = list(ready)
    for number in range(effort.rounds):
        turn = number % max(1, len(names))
        for name in names[turn:] + names[:turn]:  # nobody is always the one after the hottest
            if outcomes[name].failure:
                continue
            begins(name)
            try:
                for _ in range(effort.settle):
                    clock.milliseconds(ready[name], runs[name], number * runs[name])
                outcomes[name].samples.append(clock.milliseconds(ready[name], runs[name], number * runs[name]))
            except Exception as error:  # noqa: BLE001 - as above
                outcomes[name].failure = _describe(error)
                outcomes[name].samples.clear()
                _still_there(clock)


def _still_there(clock: Clock) -> None:
    try:
        clock.settle()
    except Exception as error:
        raise DeviceLost(_describe(error)) from error


def _describe(error: BaseException) -> str:
    """Kind, message and the innermost places of an exception."""
    places = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{place.name}:{place.lineno}" for place in reversed(places))
    return f"{type(error).__name__}: {str(error)[:1500]} ({where})"


def rate(case: Case, milliseconds: float) -> float:
    """TFLOP/s, GB/s or microseconds of a run that takes so long."""
    if case.unit == "TFLOP/s":
        return case.work / milliseconds / 1e9
    return case.work / milliseconds / 1e6 if case.unit == "GB/s" else milliseconds * 1e3


def judge(rows: Iterable[Row]) -> None:
    """Fill in `ratio` and `met` of every row; a base may stand in another row."""
    table = {row.name: row for row in rows}
    for row in table.values():
        ours = _rate_of(row, OURS)
        if row.goal is None or ours is None:
            continue
        if row.goal.base == "limit":
            row.met = ours <= row.goal.factor
            continue
        base = _base(row, row.goal.base, table)
        if base:
            row.ratio = ours / base
            row.met = row.ratio >= row.goal.factor


def _rate_of(row: Row | None, contender: str) -> float | None:
    outcome = row.outcomes.get(contender) if row is not None else None
    return outcome.rate if outcome is not None else None


def _base(row: Row, base: str, table: Mapping[str, Row]) -> float | None:
    kind, _, rest = base.partition(":")
    if kind == "row":
        return _rate_of(table.get(rest), OURS)
    if kind == "peer":
        name, _, peer = rest.rpartition(":")
        return _rate_of(table.get(name), peer)
    if base != "best":
        return _rate_of(row, base)
    rates = [o.rate for name, o in row.outcomes.items() if not is_ours(name) and o.rate is not None]
    return max(rates, default=None)


def is_ours(contender: str) -> bool:
    """Whether a contender is Tessera in some configuration."""
    return contender.startswith(OURS)


def table(rows: Sequence[Row]) -> str:
    """One line a row: us, the peers, the ratio that counts and the goal; failures below."""
    lines = [f"{'':28}{'tessera':>9}  {'ratio':>6} {'goal':>15}     others"]
    for row in rows:
        ours = _rate_of(row, OURS)
        shown = f"{ours:9.1f}" if ours is not None else f"{'--':>9}"
        ratio = f"{row.ratio:6.3f}" if row.ratio is not None else " " * 6
        mark = {True: "ok ", False: "no ", None: "   "}[row.met]
        others = "  ".join(
            f"{name} {outcome.rate:.1f}" if outcome.rate is not None else f"{name} --"
            for name, outcome in row.outcomes.items()
            if name != OURS
        )
        lines.append(f"{row.name:28}{shown}  {ratio} {_goal_text(row.goal):>15} {mark} {others}  {row.unit}".rstrip())
    for row in rows:
        for name, outcome in row.outcomes.items():
            if outcome.failure:
                lines.append(f"  {row.name}, {name}: {outcome.failure.splitlines()[0][:300]}")
    return "\n".join(lines)


def _goal_text(goal: Goal | None) -> str:
    if goal is None:
        return ""
    if goal.base == "limit":
        return f"<= {goal.factor:g} us"
    return f">= {goal.factor:g} {goal.base.rpartition(':')[2]}"


def as_json(row: Row) -> dict[str, Any]:
    """A row for the JSON file: every sample, medians in milliseconds, errors, failures."""
    found = asdict(row)
    for name, outcome in row.outcomes.items():
        found["outcomes"][name]["median_ms"] = outcome.median
    return found


def from_json(stored: Mapping[str, Any]) -> Row:
    """The row that `as_json` wrote."""
    outcomes = {
        name: Outcome(**{key: value for key, value in outcome.items() if key != "median_ms"})
        for name, outcome in stored["outcomes"].items()
    }
    goal = Goal(**stored["goal"]) if stored["goal"] else None
    return Row(stored["name"], stored["unit"], outcomes, goal, stored["ratio"], stored["met"])


def read_constants(text: str) -> dict[str, int | float]:
    """`BM=128,BN=256` as a dictionary.  Raises ValueError."""
    found: dict[str, int | float] = {}
    for part in filter(None, text.split(",")):
        name, sign, value = part.partition("=")
        if not sign or not name.strip().isidentifier():
            raise ValueError(f"{part!r} is not NAME=NUMBER")
        number = float(value)
        found[name.strip()] = int(number) if number.is_integer() and "." not in value else number
    return found


def issue_time(ready: Ready, runs: int, first: int) -> float:
    """Milliseconds of the host for one of `runs` launches, without waiting for them."""
    start = time.perf_counter()
    for number in range(first, first + runs):
        ready.run(number)
    return (time.perf_counter() - start) * 1e3 / runs
