"""Time the configurations of a search: each a little, the hopeful in turns, the best against the default.

Taking turns means that a slow spell of the machine meets all of them.  The last word has a comparison of the best few
with the default, round by round, once nothing else runs.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import ContextLost
from tessera.core.targets import TargetKind
from tessera.performance.device_model import last_cache_bytes
from tessera.profiling.argument_clones import CloneRing
from tessera.profiling.timing import Timer, timer_for
from tessera.runtime.binding.grid import Grid
from tessera.tuning.disturbance import REPEATS, Watch, nothing
from tessera.tuning.results import ILLEGAL, MEASURED, Config, Trial, beats, config_key, median_of
from tessera.tuning.search_space import Proposal, headline

FIRST_ROUNDS: Final = 3
HEATS: Final = (3, 3)
"""Launches of each hopeful candidate in each heat."""
_HOPELESS: Final = 2.0
"""How many times the best time a candidate's may be after the first rounds, to be timed further."""
_DISTURBED: Final = 3.0
"""The same where the launches shared the processor with compilers."""
_BEATEN: Final = 1.3
"""How many times the shortest time a candidate's may be after a heat.  Noise only lengthens times."""
FINALISTS: Final = 6
COMPARED: Final = 15
MOST_COMPARED: Final = 200
"""Rounds of a comparison; more, up to the most, where they are short or the best does not clearly beat the default."""
_FEWEST: Final = 5
_SHORT: Final = 0.3
_LONG: Final = 3.0
"""Seconds that a comparison takes if it has rounds for them, and those after which the fewest rounds are enough."""


@dataclass
class Candidate:
    """A configuration that compiled.

    code: identity of its code; mutable: which arguments it may write, None where that is not known
    seconds: one time a launch; compared: those of the last comparison
    at: when it was measured first, seconds since 1970; disturbed: launches that others disturbed
    """

    proposal: Proposal
    code: str
    mutable: tuple[bool, ...] | None
    seconds: list[float] = field(default_factory=list[float])
    compared: list[float] = field(default_factory=list[float])
    at: float = 0.0
    disturbed: int = 0

    @property
    def config(self) -> Config:
        """The configuration."""
        return self.proposal.config

    def trial(self) -> Trial:
        """Return the trial as far as it is known."""
        one = self.proposal
        return Trial(
            one.config, MEASURED, tuple(self.seconds), self.code, "", None, one.predicted, tuple(self.compared),
            one.flops, one.traffic, self.at, self.disturbed,
        )  # fmt: skip

    def refused(self, error: TesseraError) -> Trial:
        """Return the outcome where a launch raises `error`."""
        return self.proposal.trial(ILLEGAL, error=headline(error), code=self.code)


@dataclass(slots=True)
class Bench:
    """Times candidates on copies of `values`.

    target: what the candidates run on
    enough: whether no further launch should be begun; record: keeps a trial, and gives it back
    tell: called with a candidate after each of its launches, and with what the search is doing
    checkpoint: called before each launch: it may wait, or raise
    pinned: whether a configuration is timed to the end and compared, however slow it is
    watch: what else the process does; a launch that it disturbed is repeated
    """

    target: TargetKind
    values: Sequence[object]
    grid: Grid | None
    enough: Callable[[], bool]
    record: Callable[[Trial], Trial]
    tell: Callable[[Candidate, str], None] = lambda _candidate, _phase: None
    checkpoint: Callable[[], object] = lambda: None
    pinned: Callable[[Config], bool] = lambda _config: False
    watch: Watch = nothing
    _timer: Timer | None = None
    _ring: CloneRing | None = None

    def first(self, candidate: Candidate) -> Trial:
        """Run once without counting it (pages, caches and threads get ready), then a few times; record the trial.

        Raises ContextLost when the launch faults on a GPU, which is recorded.
        """
        try:
            self._launch(candidate, [])
            for _ in range(FIRST_ROUNDS):
                self._launch(candidate, candidate.seconds)
            candidate.at = time.time()
        except ContextLost as error:
            self.record(candidate.refused(error))  # after a restart, the search goes on without this one
            raise
        except TesseraError as error:
            return self.record(candidate.refused(error))
        return self.record(candidate.trial())

    def heats(self, candidates: Sequence[Candidate], *, disturbed: bool) -> Iterator[Trial]:
        """Time the hopeful candidates in turns; give their trials.

        disturbed: the first launches of each shared the processor with compilers, so they do not count any more
        """
        bar = (_DISTURBED if disturbed else _HOPELESS) * min((min(c.seconds) for c in candidates), default=0.0)
        hopeful = [c for c in candidates if min(c.seconds) <= bar or self.pinned(c.config)]
        if len(hopeful) < 2:
            return
        fresh: dict[str, list[float]] = {c.code: [] if disturbed else c.seconds for c in hopeful}
        running = hopeful
        try:
            for launches in HEATS:
                self._interleave(running, launches, fresh)
                shortest = {c.code: min(fresh[c.code], default=math.inf) for c in running}
                least = _BEATEN * min(shortest.values())
                running = [c for c in running if shortest[c.code] <= least or self.pinned(c.config)]
        finally:
            for candidate in hopeful:
                candidate.seconds = fresh[candidate.code] or candidate.seconds
                self.record(candidate.trial())
        for candidate in hopeful:
            yield candidate.trial()

    def _interleave(self, candidates: Sequence[Candidate], launches: int, times: dict[str, list[float]]) -> None:
        for number in range(launches):
            for candidate in _alternating(candidates, number):
                if self.enough():
                    return
                self._launch(candidate, times[candidate.code])
                self.tell(candidate, f"timing {len(candidates)} in turns")

    def compare(self, candidates: Sequence[Candidate], default: Candidate | None) -> Iterator[Trial]:
        """Time the best few and the default in turns, round by round; give their trials.

        It is what decides, so it happens even when the time is up, and counts only when it has its fewest rounds.
        """
        best = sorted(candidates, key=lambda c: min(c.seconds))[:FINALISTS]
        best += [c for c in candidates if c not in best and (c is default or self.pinned(c.config))]
        if len(best) < 2:
            return
        times: dict[str, list[float]] = {candidate.code: [] for candidate in best}
        begun = time.monotonic()
        try:
            for number in range(MOST_COMPARED):
                for candidate in _alternating(best, number):
                    self._launch(candidate, times[candidate.code])
                    self.tell(candidate, f"comparing the best {len(best)}")
                seconds = time.monotonic() - begun
                if seconds > _LONG and number + 1 >= _FEWEST:
                    break
                if seconds >= _SHORT and number + 1 >= COMPARED and _decided(times, default):
                    break
        finally:
            rounds = min(map(len, times.values()))
            if rounds >= _FEWEST:
                for candidate in best:
                    candidate.compared = times[candidate.code][:rounds]
                    self.record(candidate.trial())
        for candidate in best:
            yield candidate.trial()

    def _launch(self, candidate: Candidate, seconds: list[float]) -> None:
        """Time one launch; one that other work of the process disturbed is repeated, a few times at most."""
        timer, ring = self._ready(candidate)
        kernel = candidate.proposal.kernel
        repeats = 0
        while True:
            self.checkpoint()
            with timer.inside():
                arguments = ring.take()
                before = self.watch()
                taken = timer.time(lambda values=arguments.values: kernel.launch(values, grid=self.grid))
                disturbed = self.watch().disturbs(before, taken)
                arguments.restore()
            if not disturbed or repeats == REPEATS:
                break
            repeats += 1
        candidate.disturbed += disturbed
        seconds.append(taken)

    def _ready(self, candidate: Candidate) -> tuple[Timer, CloneRing]:
        if self._timer is None:
            self._timer = timer_for(self.target, self.values)
        if self._ring is None:
            mutable = candidate.mutable or (True,) * len(self.values)
            on_device = self.target.on_gpu
            with self._timer.inside():
                cache = last_cache_bytes(self.target, self.values)
                self._ring = CloneRing(self.values, mutable, on_device=on_device, cache_bytes=cache)
        return self._timer, self._ring

    def close(self) -> None:
        """Give copies and timer back."""
        timer, ring = self._timer, self._ring
        self._timer = self._ring = None
        if timer is None:
            return
        try:
            if ring is not None:
                with timer.inside():
                    ring.close()
        finally:
            timer.close()


def _decided(times: Mapping[str, Sequence[float]], default: Candidate | None) -> bool:
    """Return whether more rounds would not change the choice: the fastest beats the default."""
    fastest = min(times, key=lambda code: median_of(times[code]))
    return default is None or (fastest != default.code and beats(times[fastest], times[default.code]))


def fastest_seconds(trials: Sequence[Trial]) -> float:
    """Return the shortest single time of any trial: what a prediction is held against; infinite where there is none."""
    return min((min(trial.seconds) for trial in trials if trial.seconds), default=math.inf)


def same(one: Config, other: Config) -> bool:
    """Do two configurations give the same values to the same names?"""
    return config_key(one) == config_key(other)


def _alternating(candidates: Sequence[Candidate], number: int) -> Sequence[Candidate]:
    """Return the candidates, every other round in the opposite order: what one leaves behind then meets another."""
    return candidates if number % 2 == 0 else candidates[::-1]
