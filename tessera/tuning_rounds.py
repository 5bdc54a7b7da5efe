"""The configurations of a search that compiled, timed in turns: a slow spell of the machine meets all of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.copies import Ring
from tessera.core.errors import TesseraError
from tessera.core.mistakes import ContextLost
from tessera.machine import Machine
from tessera.runtime.grid import Grid
from tessera.timing import Timer, timer_for
from tessera.tuning import ILLEGAL, MEASURED, Config, Trial
from tessera.tuning_space import Proposal, headline

ROUNDS: Final = 9
FIRST_ROUNDS: Final = 3
_HOPELESS: Final = 2.0
"""How many times the best time a candidate's may be after the first rounds, to be timed further."""


@dataclass
class Candidate:
    """A configuration that compiled.

    code: identity of its code; mutable: which arguments it may write, None where that is not known
    seconds: one time a launch
    """

    proposal: Proposal
    code: str
    mutable: tuple[bool, ...] | None
    seconds: list[float] = field(default_factory=list[float])

    @property
    def config(self) -> Config:
        """The configuration."""
        return self.proposal.config

    def trial(self) -> Trial:
        """What is known of it so far."""
        return Trial(self.config, MEASURED, tuple(self.seconds), self.code, predicted=self.proposal.predicted)

    def refused(self, error: TesseraError) -> Trial:
        """The outcome where a launch raises `error`."""
        return Trial(self.config, ILLEGAL, code=self.code, error=headline(error), predicted=self.proposal.predicted)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Times candidates on copies of `values`.

    target: what the candidates run on; machine: None for interpreted kernels
    enough: whether no further launch should be begun; record: keeps a trial, and gives it back
    """

    target: str
    values: Sequence[object]
    grid: Grid | None
    machine: Machine | None
    enough: Callable[[], bool]
    record: Callable[[Trial], Trial]

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Trial]:
        """Time each candidate a little, then the hopeful ones in turns; give each trial, and again at its end.

        Raises ContextLost when one of them faults on a GPU, which is recorded.
        """
        if not candidates:
            return
        machine = self.machine
        timer = timer_for(self.target, self.values)
        mutable = candidates[0].mutable or (True,) * len(self.values)
        try:
            with timer.inside():
                cache = machine.cache_bytes if machine is not None else 0
                on_device = machine is not None and machine.kind == "cuda"
                ring = Ring(self.values, mutable, on_device=on_device, cache_bytes=cache)
                try:
                    yield from self._rounds(candidates, timer, ring)
                finally:
                    ring.close()
        finally:
            timer.close()

    def _rounds(self, candidates: Sequence[Candidate], timer: Timer, ring: Ring) -> Iterator[Trial]:
        running: list[Candidate] = []
        for candidate in candidates:
            if self.enough():
                break
            trial = self._begin(candidate, timer, ring)
            if trial.status == MEASURED:
                running.append(candidate)
            yield self.record(trial)
        hopeful = _hopeful(running)
        try:
            for _ in range(ROUNDS - FIRST_ROUNDS):
                for candidate in hopeful:
                    if self.enough():
                        return
                    self._launch(candidate, timer, ring)
        finally:
            for candidate in hopeful:
                if len(candidate.seconds) > FIRST_ROUNDS:
                    self.record(candidate.trial())
        for candidate in hopeful:
            yield candidate.trial()

    def _begin(self, candidate: Candidate, timer: Timer, ring: Ring) -> Trial:
        """Run once without counting it (pages, caches and threads get ready), then a few times."""
        try:
            self._launch(candidate, timer, ring)
        except ContextLost as error:
            self.record(candidate.refused(error))  # after a restart, the search goes on without this one
            raise
        except TesseraError as error:
            return candidate.refused(error)
        candidate.seconds.clear()
        for _ in range(FIRST_ROUNDS):
            self._launch(candidate, timer, ring)
        return candidate.trial()

    def _launch(self, candidate: Candidate, timer: Timer, ring: Ring) -> None:
        arguments = ring.take()
        kernel = candidate.proposal.kernel
        candidate.seconds.append(timer.time(lambda: kernel.launch(arguments.values, grid=self.grid)))
        arguments.restore()


def _hopeful(candidates: Sequence[Candidate]) -> list[Candidate]:
    bar = _HOPELESS * min((min(candidate.seconds) for candidate in candidates), default=0.0)
    return [candidate for candidate in candidates if min(candidate.seconds) <= bar]
