"""Search a space of tuning parameters for the fastest kernel, by running each configuration that has a chance.

Configurations that cannot be compiled or held by the machine, and those a cost model gives no chance, never run.  The
rest are compiled several at once and timed in turns, on copies of the arguments that together exceed the cache.
What is found is kept on disk for this kernel text, class of shapes and device, and used again; every trial is written
down as soon as it is measured, so a search that was interrupted, or died, goes on where it stopped.
"""

import ast
import contextlib
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from tessera.arguments import Described
from tessera.compiled import Compiled
from tessera.core.errors import TesseraError
from tessera.core.mistakes import (
    BadKernelOption,
    CompilerCrash,
    CompileTimeout,
    ToolMissing,
    TuningFailed,
)
from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.core.program.program import Attribute
from tessera.core.settings import current
from tessera.core.targets import Target
from tessera.kernel_class import Kernel
from tessera.kernel_options import Space, with_space
from tessera.lowering.key import toolchain
from tessera.machine import Machine, this_machine
from tessera.plans import ON_GPU
from tessera.runtime.arrays import AnyArray
from tessera.runtime.current_streams import forbid_in_capture
from tessera.runtime.device_arrays import device_of
from tessera.runtime.grid import Grid
from tessera.runtime.recording import forbid
from tessera.tuning import (
    BEGIN,
    DUPLICATE,
    END,
    FAILED,
    ILLEGAL,
    MEASURED,
    PRUNED,
    SKIPPED,
    TRIAL,
    Config,
    Trial,
    Tuning,
    append,
    config_key,
    load,
    log_path,
    record_key,
    show,
    store,
)
from tessera.tuning_rounds import Candidate, Rounds
from tessera.tuning_space import (
    Proposal,
    beyond,
    configurations,
    headline,
    propose,
    prune,
    suggested_space,
)

Listener = Callable[[Trial], object]

_COMPILER: Final = (CompilerCrash, CompileTimeout, ToolMissing)
"""What is not the configuration's fault, and may be otherwise the next time."""
BUDGET: Final = 60.0


def search(
    *, kernel: Kernel, params: Space | None = None, objective: str = "runtime", args: Sequence[object] | None = None,
    budget: float = BUDGET, grid: Grid | None = None, again: bool = False, on_trial: Listener | None = None,
) -> Tuning:  # fmt: skip
    """Return the outcome of trying every combination of `params`, which as a mapping is the best configuration.

    kernel: what to tune
    params: values to try for each parameter, e.g. `{"BM": [64, 128], "BN": [64, 128]}`, and for schedule options, e.g.
            `{"stages": [2, 3]}` (see `tessera.core.schedule`); left out, what the kernel suggests
    objective: "runtime": the median of several launches
    args: arguments to run on; left out, random arrays of the types and shapes of the kernel's last call.  They are
          never written: every trial has copies
    budget: seconds after which no further configuration is begun
    again: measure everything anew instead of using what is recorded
    on_trial: called with every trial when it is settled, and again when more was measured of it

    Raises TuningFailed when no configuration runs, ContextLost when one of them faults on a GPU: after a restart of the
    process, the search goes on without it.  KeyboardInterrupt ends the search and keeps what it found: the outcome is
    returned when anything was measured.
    """
    if objective != "runtime":
        raise BadKernelOption(f"there is no objective {objective!r}", hint='write objective="runtime"')
    return follow(kernel=kernel, params=params, args=args, budget=budget, grid=grid, again=again).run(on_trial)


def follow(
    *, kernel: Kernel, params: Space | None = None, args: Sequence[object] | None = None, budget: float = BUDGET,
    grid: Grid | None = None, again: bool = False,
) -> "Search":  # fmt: skip
    """Return a search that goes on while it is iterated over, a trial at a time; after that, it has an `outcome`.

    The parameters are those of `search`.
    """
    values = kernel.ordered(tuple(args), {}) if args is not None else _synthesised(kernel)
    if params is None:
        params = suggested_space(kernel.source, kernel.program(values), kernel.target_for(values).name)
    return Search(kernel, with_space(kernel.options, params, {}).space or {}, values, grid, budget, again)


def tuned_constants(kernel: Kernel, values: Sequence[object], grid: Grid | None) -> Config:
    """Return the best configuration of a kernel that has a space, searching when none is recorded."""
    return Search(kernel, kernel.options.space or {}, tuple(values), grid, BUDGET, again=False).run().config


class Search:
    """One search: iterating over it makes it go on, and gives every trial when it is settled.

    log: path of the log that other processes can read meanwhile, None where nothing is kept on disk
    """

    def __init__(
        self, kernel: Kernel, space: Mapping[str, tuple[Attribute, ...]], values: tuple[object, ...],
        grid: Grid | None, budget: float, again: bool,
    ) -> None:  # fmt: skip
        self._kernel, self._values, self._grid = kernel, values, grid
        self._budget, self._deadline = budget, math.inf
        self._target = kernel.target_for(values)
        self._configs = configurations(kernel, space, self._target.name)
        self._device = _device(self._target, values)
        self._path = self._record_path(kernel.described(values))
        self._again = again
        self._known = {} if again or not current().cache else load(self._path)
        self._trials: dict[str, Trial] = {}
        self.log = log_path(self._path) if current().cache else None

    @cached_property
    def _machine(self) -> Machine | None:
        """What the kernel runs on; None for interpreted kernels.  A CPU is measured, so only when it is needed."""
        return this_machine(self._target.name, self._values) if self._target.name != "interpret" else None

    def __iter__(self) -> Generator[Trial]:
        """Try what is not recorded yet; the outcome is saved however this ends.

        Raises BadCapture while a graph is captured, which would note the launches of the search.
        """
        forbid("a search for a configuration")
        self._deadline = time.monotonic() + self._budget
        missing = self._recall()
        yield from self._trials.values()
        if not missing:
            return
        forbid_in_capture(self._values, "a search for a configuration")
        self._note(BEGIN, kernel=self._kernel.source.name, device=self._device, configurations=len(self._configs),
                   again=self._again)  # fmt: skip
        try:
            yield from self._try(missing)
        finally:
            self._save()

    def run(self, on_trial: Listener | None = None) -> Tuning:
        """Search to the end, and return the outcome; see `search`."""
        try:
            with contextlib.closing(iter(self)) as trials:
                for trial in trials:
                    if on_trial is not None:
                        on_trial(trial)
        except KeyboardInterrupt:
            if not self._measured():
                raise
        return self.outcome

    @property
    def outcome(self) -> Tuning:
        """Everything found so far.  Raises TuningFailed when nothing was measured."""
        trials = tuple(self._trials.get(config_key(c), Trial(c, SKIPPED)) for c in self._configs)
        complete = all(trial.status != SKIPPED for trial in trials)
        tuning = Tuning(self._kernel.source.name, self._device, trials, complete, str(self.log or ""))
        if not self._measured():
            raise self._failure(tuning)
        return tuning

    # -- what is known, and what is worth a try -------------------------------------------------------------------

    def _recall(self) -> list[Config]:
        """Use what is recorded; give what is not.

        What was left out for want of a chance is looked at again when the best prediction is not among these any more.
        """
        known = {config_key(c): self._known.get(config_key(c)) for c in self._configs}
        measured = any(trial is not None and trial.status == MEASURED for trial in known.values())
        missing: list[Config] = []
        for config in self._configs:
            trial = known[config_key(config)]
            if trial is None or (trial.status == PRUNED and not measured):
                missing.append(config)
            else:
                self._trials[config_key(config)] = trial
        return missing

    def _try(self, missing: Sequence[Config]) -> Iterator[Trial]:
        proposals, refused = propose(self._kernel, missing, self._values, self._grid, self._machine, self._late)
        expected = [t.predicted for t in self._trials.values() if t.predicted is not None and t.status == MEASURED]
        kept, pruned = prune(proposals, expected)
        for trial in (*refused, *pruned):
            yield self._record(trial)
        candidates: list[Candidate] = []
        first: dict[str, Config] = {t.code: t.config for t in self._trials.values() if t.status == MEASURED}
        # What should be twice as fast goes first, so that an early end has something; the rest keeps its order.
        best = min((p.predicted for p in kept if p.predicted is not None), default=1.0)
        ordered = sorted(kept, key=lambda proposal: int(math.log2((proposal.predicted or best) / best)))
        for proposal, outcome in self._compiled(ordered):
            made = self._candidate(proposal, outcome, first)
            if isinstance(made, Trial):
                yield self._record(made)
            else:
                candidates.append(made)
        rounds = Rounds(self._target.name, self._values, self._grid, self._machine, self._enough, self._record)
        yield from rounds.measure(candidates)

    def _candidate(
        self, proposal: Proposal, outcome: Compiled | TesseraError | None, first: dict[str, Config]
    ) -> Candidate | Trial:
        """A compiled configuration, or why it is none; `first` has the configuration that had some code first."""
        config, predicted = proposal.config, proposal.predicted
        if isinstance(outcome, TesseraError):
            status = FAILED if isinstance(outcome, _COMPILER) else ILLEGAL
            return Trial(config, status, error=headline(outcome), predicted=predicted)
        if outcome is None:
            return Candidate(proposal, config_key(config), None)
        reason = beyond(outcome.artifact, self._machine) if self._machine is not None else ""
        if reason:
            return Trial(config, ILLEGAL, error=reason, predicted=predicted)
        code = outcome.code_identity
        if code in first:
            return Trial(config, DUPLICATE, code=code, same_as=first[code], predicted=predicted)
        first[code] = config
        return Candidate(proposal, code, tuple(binding.mutable for binding in outcome.artifact.bindings))

    def _compiled(self, proposals: Sequence[Proposal]) -> Iterator[tuple[Proposal, Compiled | TesseraError | None]]:
        """Each configuration with its compilation, several compiled at once; None for interpreted kernels."""
        if self._target.name == "interpret":
            yield from ((proposal, None) for proposal in proposals)
            return
        pool = ThreadPoolExecutor(current().workers, thread_name_prefix="tessera-tune")
        target = self._exact_target()
        futures: list[Future[Compiled]] = [
            pool.submit(p.kernel.compile_quietly, *self._values, target=target) for p in proposals
        ]
        try:
            for proposal, future in zip(proposals, futures, strict=True):
                try:
                    yield proposal, future.result()
                except TesseraError as error:
                    yield proposal, error
        except BaseException:
            for future in futures:
                future.cancel()
            self._kernel.stop_compiling()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _exact_target(self) -> str | None:
        """The target with the architecture of the GPU at hand, where no other is named; None: the kernel's own."""
        if self._target.name not in ON_GPU or ":" in (self._kernel.options.target or current().target):
            return None
        # Needs a GPU.
        from tessera.runtime.cuda import device_architecture  # noqa: PLC0415

        return f"{self._target.name}:{device_architecture(device_of(self._values), self._target.name)}"

    def _late(self) -> bool:
        return time.monotonic() > self._deadline

    def _enough(self) -> bool:
        return self._late() and self._measured()

    # -- records --------------------------------------------------------------------------------------------------

    def _record(self, trial: Trial) -> Trial:
        self._trials[config_key(trial.config)] = trial
        self._note(TRIAL, trial=trial.to_dict())
        return trial

    def _note(self, event: str, **facts: object) -> None:
        if self.log is not None:
            append(self.log, event, **facts)

    def _measured(self) -> bool:
        return any(trial.status == MEASURED for trial in self._trials.values())

    def _save(self) -> None:
        complete = all(config_key(config) in self._trials for config in self._configs)
        best = self.outcome.config if self._measured() else None
        self._note(END, best=best, complete=complete)
        if self._trials != self._known and self.log is not None:
            store(self._path, {**self._known, **self._trials}.values())

    def _record_path(self, described: Described) -> Path:
        source, options = self._kernel.source, self._kernel.options
        key = record_key((
            ast.unparse(source.function), options.tile, options.shared, sorted(options.constants.items()),
            [_kind(argument) for argument in described.arguments], described.shape_class, self._device,
            toolchain("cpu")["tessera"],
        ))  # fmt: skip
        return current().cache_dir / "tuning" / f"{source.name}-{key}.json"

    def _failure(self, tuning: Tuning) -> TuningFailed:
        errors = [trial for trial in tuning.trials if trial.error]
        reason = f": {show(errors[0].config)}: {errors[0].error}" if errors else ""
        count = len(tuning.trials)
        return TuningFailed(f"none of the {count} configurations of {self._kernel.source.name} runs{reason}")


def _device(target: Target, values: Sequence[object]) -> str:
    """What a search runs on: the times of another device, or of another number of threads, mean nothing here."""
    if target.name == "cpu":
        return f"{target} x{current().threads}"
    return str(target) if target.name == "interpret" else f"{target} on {this_machine(target.name, values).label}"


def _kind(argument: Argument) -> tuple[object, ...]:
    if isinstance(argument, ArrayArgument):
        return (argument.dtype.name, argument.contiguous)
    return (argument.dtype.name,)


def _synthesised(kernel: Kernel) -> tuple[object, ...]:
    described = kernel.last_arguments
    if described is None:
        raise TuningFailed(
            f"{kernel.source.name} was not called yet, so the search has nothing to run it on",
            hint=f"call it first, or write autotune.search(kernel={kernel.source.name}, params=..., args=(...))",
        )
    generator = np.random.default_rng(0)
    return tuple(_random(argument, generator) for argument in described.arguments)


def _random(argument: Argument, generator: np.random.Generator) -> AnyArray | float | int | bool:
    """Numbers that hurt no kernel: floats around 0, integers from 0 to 3 (they may be indices), scalars 1."""
    dtype = argument.dtype
    if not isinstance(argument, ArrayArgument):
        return {"float": 1.0, "bool": True}.get(dtype.kind, 1)
    if dtype.is_float:
        values: AnyArray = generator.standard_normal(argument.shape)
    else:
        values = generator.integers(0, 2 if dtype.kind == "bool" else 4, argument.shape)
    array = values.astype(dtype.numpy)
    return array if argument.contiguous else _with_gaps(array)


def _with_gaps(array: AnyArray) -> AnyArray:
    """The same numbers in every second place of a larger array."""
    roomy = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    roomy[..., ::2] = array
    return roomy[..., ::2]
