"""One search over a space of tuning parameters: proposals, compilations ahead, timing, and what is written down."""

import ast
import contextlib
import dataclasses
import heapq
import itertools
import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import CompilerCrash, CompileTimeout, ToolMissing
from tessera.core.events import TrialMeasured, publish, wanted
from tessera.core.program.program import Attribute
from tessera.core.settings import current
from tessera.kernels.kernel import Kernel
from tessera.performance.device_model import Machine, this_machine
from tessera.runtime.binding.current_stream import forbid_in_capture
from tessera.runtime.binding.grid import Grid
from tessera.runtime.streams.graph_capture import forbid
from tessera.tuning.compile_pipeline import Outcome, Pipeline
from tessera.tuning.disturbance import nothing, rest_of_process
from tessera.tuning.progress import Progress, Status
from tessera.tuning.record import BEGIN, END, TRIAL, append, load, log_path, source_digest, store
from tessera.tuning.results import (
    DUPLICATE,
    FAILED,
    ILLEGAL,
    MEASURED,
    PASSING,
    PRUNED,
    SKIPPED,
    Config,
    Trial,
    Tuning,
    calibration,
    choose,
    config_key,
)
from tessera.tuning.rounds import FINALISTS, Bench, Candidate, fastest_seconds, same
from tessera.tuning.search_space import Plan, Proposal, beyond, headline, plan_search, predicted, propose
from tessera.tuning.setup import device_name, record_of
from tessera.tuning.steering import TURN, UNSTEERED, Steering

Listener = Callable[[Trial], object]

_COMPILER: Final = (CompilerCrash, CompileTimeout, ToolMissing)
"""What is not the configuration's fault, and may be otherwise the next time."""
_NUMBERS: Final = itertools.count(1)
"""Of the searches of this process."""
_LOOKAHEAD: Final = 16
"""Predictions from which the best is compiled next, before all are known."""


class Search:
    """One search: iterating over it makes it go on, and gives every trial when it is settled.

    The default is compiled and measured first; then several configurations at once are compiled, the most promising
    first, and each is timed when it is ready.  At the end the hopeful take turns, and the best few are compared with
    the default.

    plan: what it tries; kernel, values: what it runs, on copies of these; device: what it measures on
    log: path of the log that other processes can read meanwhile, None where nothing is kept on disk
    """

    def __init__(
        self, kernel: Kernel, space: Mapping[str, tuple[Attribute, ...]], values: tuple[object, ...],
        grid: Grid | None, budget: float, again: bool, steering: Steering = UNSTEERED,
    ) -> None:  # fmt: skip
        kernel.require_together(values)
        self.kernel, self.values, self._grid = kernel, values, grid
        self._budget, self._begun = budget, time.monotonic()
        self.steering = steering
        self._by_hand: dict[str, Config] = {}
        self._target = kernel.target_for(values)
        self.plan: Plan = plan_search(kernel, space, self._target.name)
        self.device = device_name(self._target, values)
        self._path = record_of(kernel, values, space, self.device)
        self._again = again
        self._known = {} if again or not current().cache else load(self._path)
        self._trials: dict[str, Trial] = {}
        self._interrupted = False
        self._number, self._phase = next(_NUMBERS), "compiling and timing"
        self.log = log_path(self._path) if current().cache else None

    @cached_property
    def _machine(self) -> Machine | None:
        """The machine that the kernel runs on; None for interpreted kernels.  A CPU is measured when first needed."""
        return this_machine(self._target.kind, self.values) if self._target.kind.backend else None

    def __iter__(self) -> Generator[Trial]:
        """Try what is not recorded yet; the outcome is saved however this ends.

        Raises BadCapture while a graph is captured, which would note the launches of the search.
        """
        forbid("a search for a configuration")
        self._begun = time.monotonic()
        missing = self._recall()
        yield from list(self._trials.values())
        if not missing and self._settled():
            return
        forbid_in_capture(self.values, "a search for a configuration")
        source = self.kernel.source
        self._note(BEGIN, kernel=source.name, source=source_digest(ast.unparse(source.function)), device=self.device,
                   configurations=len(self.plan.configs), default=self.plan.default, again=self._again)  # fmt: skip
        try:
            yield from self._try(missing)
        except KeyboardInterrupt:
            self._interrupted = True
            raise
        finally:
            self._save()

    def run(self, on_trial: Listener | None = None, progress: bool | None = None) -> Tuning:
        """Search to the end, or to Ctrl-C, and return the outcome; see `search`."""
        self._interrupted = False
        shown = Progress(self._number, self._status, progress)
        try:
            with shown.watching(), contextlib.closing(iter(self)) as trials:
                for trial in trials:
                    if on_trial is not None:
                        on_trial(trial)
        except KeyboardInterrupt:
            self._interrupted = True
            if not self._measured() and self.plan.default is None:
                raise
        finally:
            shown.close()
        return self.outcome

    @property
    def outcome(self) -> Tuning:
        """Everything found so far.

        Raises TuningFailed when nothing was measured, unless that is because of Ctrl-C: then the default is the best.
        """
        tuning = self.so_far()
        if not self._measured() and not (self._interrupted and tuning.default is not None):
            raise tuning.failure()
        return tuning

    def so_far(self) -> Tuning:
        """Return everything found so far, whatever it is; from any thread."""
        trials = tuple(self._trials.get(config_key(c), Trial(c, SKIPPED)) for c in self.plan.configs)
        complete = all(trial.status != SKIPPED for trial in trials)
        return Tuning(
            self.kernel.source.name, self.device, trials, complete, str(self.log or ""), self.plan.default,
            self.plan.notes, self._interrupted,
        )  # fmt: skip

    @property
    def phase(self) -> str:
        """The current work, in words."""
        return self._phase

    @property
    def seconds(self) -> float:
        """Seconds since the search began, without those that it was paused for."""
        return time.monotonic() - self._begun

    @property
    def budget(self) -> float:
        """Seconds after which no further configuration is begun."""
        return self._budget

    def _status(self, phase: str) -> Status:
        return Status(self.so_far(), phase, self.seconds)

    # -- what is known ----------------------------------------------------------------------------------------------

    def _recall(self) -> list[Config]:
        """Use what is recorded; give what is not.

        What was left out for want of a chance is looked at again when what was measured is not among these any more.
        """
        self._known = {**self._known, **self._trials}  # what an earlier round of this search found
        known = {config_key(c): self._known.get(config_key(c)) for c in self.plan.configs}
        measured = any(trial is not None and trial.status == MEASURED for trial in known.values())
        missing: list[Config] = []
        for config in self.plan.configs:
            trial = known[config_key(config)]
            if trial is None or trial.status in PASSING or (trial.status == PRUNED and not measured):
                missing.append(config)
            else:
                self._trials[config_key(config)] = trial
        return missing

    def _settled(self) -> bool:
        """Return whether the fastest trial was compared with the default: not where they are of several searches."""
        measured = [trial for trial in self._trials.values() if trial.status == MEASURED]
        best = min(measured, key=lambda trial: trial.median or 0.0, default=None)
        return best is None or len(measured) == 1 or bool(best.compared)

    # -- trying -----------------------------------------------------------------------------------------------------

    def _try(self, missing: Sequence[Config]) -> Iterator[Trial]:
        steering = self.steering
        watch = rest_of_process if steering.background else nothing
        bench = Bench(
            self._target.kind, self.values, self._grid, self._enough, self._record, self._tell_more, self._checkpoint,
            steering.pinned, watch,
        )  # fmt: skip
        try:
            with (
                TURN.held(background=steering.background),
                Pipeline(self.kernel, self.values, compiles=bool(self._target.kind.backend)) as pipeline,
            ):
                candidates: list[Candidate] = []
                yield from self._tried(missing, pipeline, bench, candidates)
                disturbed = pipeline.compiled > 1
                yield from self._decide(pipeline, bench, candidates, disturbed=disturbed)
        finally:
            bench.close()

    def _checkpoint(self) -> None:
        self._begun += self.steering.checkpoint()

    def _tried(
        self, missing: Sequence[Config], pipeline: Pipeline, bench: Bench, candidates: list[Candidate]
    ) -> Iterator[Trial]:
        """Yield each configuration's first trial, in the order in which they are ready; `candidates` gets what ran."""
        waiting = deque(missing)
        if waiting:  # the default, before a CPU is measured for the cost model, and before compilers disturb that
            yield from self._first(waiting.popleft(), pipeline, bench, candidates)
        promising: list[tuple[float, int, Proposal]] = []
        while not self._enough():
            self._checkpoint()
            yield from self._added(waiting, promising, pipeline)
            done = pipeline.take()
            if done is None and self._submit(promising, pipeline, all_known=not waiting):
                continue
            if done is None and waiting:
                made = self._propose(waiting.popleft(), self._machine)
                if isinstance(made, Trial):
                    yield self._record(made)
                else:
                    heapq.heappush(promising, (made.predicted or 0.0, -len(waiting), made))
                continue
            done = done or pipeline.take(waiting=True)
            if done is None:
                break
            self._checkpoint()
            yield self._settle(*done, bench, candidates)
        for _, _, proposal in sorted(promising):
            reason = self._hopeless(proposal)
            if reason:
                yield self._record(proposal.trial(PRUNED, error=reason))

    def _added(
        self, waiting: deque[Config], promising: list[tuple[float, int, Proposal]], pipeline: Pipeline
    ) -> Iterator[Trial]:
        """Put the configurations that were added by hand before all others; yield those that cannot be compiled."""
        for config in self.steering.by_hand():
            key = config_key(config)
            self.extend(config)
            if key in self._trials or pipeline.holds(config):
                continue
            for one in [one for one in waiting if config_key(one) == key]:
                waiting.remove(one)
            promising[:] = [entry for entry in promising if config_key(entry[2].config) != key]
            made = self._propose(config, self._machine)
            if isinstance(made, Trial):
                yield self._record(made)
            else:
                promising.append((-math.inf, len(self._by_hand), made))
            heapq.heapify(promising)

    def extend(self, config: Config) -> None:
        """Add a configuration to what is tried; its turn comes before that of the others, and it is never pruned."""
        self._by_hand[config_key(config)] = config
        if all(config_key(known) != config_key(config) for known in self.plan.configs):
            self.plan = dataclasses.replace(self.plan, configs=(*self.plan.configs, config))

    @property
    def unsettled(self) -> bool:
        """Return whether configurations that were added by hand still have to be tried."""
        return bool(self._by_hand.keys() - self._trials.keys())

    def _submit(self, promising: list[tuple[float, int, Proposal]], pipeline: Pipeline, *, all_known: bool) -> bool:
        """Have the most promising configuration compiled, if there is room for it and it has a chance."""
        if not promising or not pipeline.has_idle_worker:
            return False
        if not (all_known or len(promising) >= _LOOKAHEAD or promising[0][0] == -math.inf):
            return False
        if self._hopeless(promising[0][2]):
            return False
        pipeline.submit(heapq.heappop(promising)[2])
        return True

    def _hopeless(self, proposal: Proposal) -> str:
        """Return why a configuration has no chance, by its prediction and by how wrong predictions were so far."""
        if proposal.predicted is None or config_key(proposal.config) in self._by_hand:
            return ""
        if self.steering.pinned(proposal.config):
            return ""
        trials = list(self._trials.values())
        return calibration(trials).hopeless(proposal.predicted, fastest_seconds(trials))

    def _first(self, config: Config, pipeline: Pipeline, bench: Bench, candidates: list[Candidate]) -> Iterator[Trial]:
        """Compile and time one configuration alone, and ask the cost model about it only then."""
        proposal = self._propose(config, None)
        if isinstance(proposal, Trial):
            yield self._record(proposal)
            return
        yield self._settle(proposal, self._compile(pipeline, proposal), bench, candidates)
        if self._machine is not None and candidates:
            known = predicted(proposal, self.values, self._grid, self._machine)
            if isinstance(known, Proposal):
                candidates[0].proposal = known
                self._record(candidates[0].trial())

    def _propose(self, config: Config, machine: Machine | None) -> Proposal | Trial:
        own = self.plan.default is not None and same(config, self.plan.default)
        return propose(self.kernel, config, self.values, self._grid, machine, own=own)

    def _compile(self, pipeline: Pipeline, proposal: Proposal) -> Outcome:
        pipeline.submit(proposal)
        done = pipeline.take(waiting=True)
        assert done is not None
        return done[1]

    def _settle(
        self, proposal: Proposal, outcome: Outcome, bench: Bench, candidates: list[Candidate]
    ) -> Trial:  # fmt: skip
        """Time a configuration that was compiled; it is one of the candidates if it runs."""
        made = self._candidate(proposal, outcome)
        if isinstance(made, Trial):
            return self._record(made)
        trial = bench.first(made)
        if trial.status == MEASURED:
            candidates.append(made)
        return trial

    def _candidate(self, proposal: Proposal, outcome: Outcome) -> Candidate | Trial:
        """Compile a configuration; return it, or the reason why it cannot be."""
        if isinstance(outcome, TesseraError):
            return proposal.trial(FAILED if isinstance(outcome, _COMPILER) else ILLEGAL, error=headline(outcome))
        if outcome is None:
            return Candidate(proposal, config_key(proposal.config), None)
        machine = self._machine if self._target.kind.on_gpu else None
        reasons = [beyond(artifact, machine) for artifact in outcome.artifacts] if machine is not None else []
        reason = next(filter(None, reasons), "")
        if reason:
            return proposal.trial(ILLEGAL, error=reason)
        code = outcome.code_identity
        for trial in self._trials.values():
            if trial.status == MEASURED and trial.code == code and not same(trial.config, proposal.config):
                found = proposal.trial(DUPLICATE, code=code)
                return dataclasses.replace(found, same_as=trial.config)
        return Candidate(proposal, code, tuple(binding.mutable for binding in outcome.bindings))

    # -- deciding ---------------------------------------------------------------------------------------------------

    def _decide(
        self, pipeline: Pipeline, bench: Bench, candidates: list[Candidate], *, disturbed: bool
    ) -> Iterator[Trial]:
        """Time the hopeful in turns, then compare the best with the default."""
        yield from self._revive(pipeline, bench, candidates)
        yield from bench.heats(candidates, disturbed=disturbed)
        own = self.so_far().own
        default = next((c for c in candidates if own is not None and same(c.config, own.config)), None)
        for key, trial in {**self._known, **self._trials}.items():
            if trial.compared:  # at another moment, with others
                self._known[key] = dataclasses.replace(trial, compared=())
                if key in self._trials:
                    self._trials[key] = self._known[key]
                self._note(TRIAL, trial=self._known[key].to_dict())
        yield from bench.compare(candidates, default)

    def _revive(self, pipeline: Pipeline, bench: Bench, candidates: list[Candidate]) -> Iterator[Trial]:
        """Time the best of the trials that come from the record again, and the default, beside the new ones."""
        fresh = {candidate.code for candidate in candidates}
        old = [t for t in self._trials.values() if t.status == MEASURED and t.code not in fresh]
        own = self.so_far().own
        chosen = sorted(old, key=lambda trial: trial.median or 0.0)[:FINALISTS]
        if own in old and own not in chosen:
            chosen.append(own)
        for trial in chosen:
            proposal = self._propose(trial.config, self._machine)
            if isinstance(proposal, Proposal):
                yield self._settle(proposal, self._compile(pipeline, proposal), bench, candidates)

    def _late(self) -> bool:
        return time.monotonic() > self._begun + self._budget

    def _enough(self) -> bool:
        return self._late() and self._measured()

    # -- records ----------------------------------------------------------------------------------------------------

    def _record(self, trial: Trial) -> Trial:
        known = self._trials.get(config_key(trial.config))
        at = trial.at if known is None else known.at or trial.at
        trial = dataclasses.replace(trial, at=at or time.time())
        self._trials[config_key(trial.config)] = trial
        self.steering.recorded(trial)
        self._note(TRIAL, trial=trial.to_dict())
        self._tell(trial)
        return trial

    def _tell_more(self, candidate: Candidate, phase: str) -> None:
        """Tell subscribers that another launch of a candidate was timed."""
        self._phase = phase
        if wanted(TrialMeasured):
            self._tell(candidate.trial())

    def _tell(self, trial: Trial) -> None:
        if wanted(TrialMeasured):
            settled = sum(known.status not in PASSING for known in self._trials.values())
            publish(TrialMeasured(
                self.kernel.source.name, self._number, self.device, self._phase, trial.config, trial.status,
                trial.median, trial.predicted, trial.error, settled, len(self.plan.configs),
            ))  # fmt: skip

    def _note(self, event: str, **facts: object) -> None:
        with self._kept():
            if self.log is not None:
                append(self.log, event, **facts)

    @contextlib.contextmanager
    def _kept(self) -> Generator[None]:
        """Write what is to be kept; a folder that cannot be written costs one warning, and the search goes on."""
        try:
            yield
        except OSError as error:
            self.log = None
            warnings.warn(f"the search is not kept: {error}", RuntimeWarning, stacklevel=4)

    def _measured(self) -> bool:
        return any(trial.status == MEASURED for trial in self._trials.values())

    def _save(self) -> None:
        best = choose(self._trials.values(), self.plan.default)
        complete = all(config_key(config) in self._trials for config in self.plan.configs)
        self._note(END, best=None if best is None else best.config, complete=complete,
                   interrupted=self._interrupted)  # fmt: skip
        if self._trials != self._known and self.log is not None:
            with self._kept():
                store(self._path, {**self._known, **self._trials}.values())
