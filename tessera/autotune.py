"""Search a space of tuning parameters for the fastest kernel, by running each configuration.

The best is kept on disk for this kernel text, class of shapes and device, and used again; a search that was
interrupted goes on where it stopped.
"""

import ast
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from tessera.arguments import Described
from tessera.compiled import Compiled
from tessera.core.errors import TesseraError
from tessera.core.mistakes import BadKernelOption, NotAvailableYet, TuningFailed
from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.core.program.program import Attribute
from tessera.core.settings import current
from tessera.kernel_class import Kernel
from tessera.kernel_options import Space, with_space
from tessera.lowering.key import toolchain
from tessera.runtime.arrays import AnyArray, as_array, is_array
from tessera.runtime.grid import Grid
from tessera.tuning import (
    DUPLICATE,
    ILLEGAL,
    MEASURED,
    SKIPPED,
    Config,
    Trial,
    Tuning,
    config_key,
    load,
    record_key,
    show,
    store,
)

_ROUNDS: Final = 9
_FIRST_ROUNDS: Final = 3
_HOPELESS: Final = 2.0
BUDGET: Final = 60.0


def search(
    *, kernel: Kernel, params: Space, objective: str = "runtime", args: Sequence[object] | None = None,
    budget: float = BUDGET, grid: Grid | None = None, again: bool = False,
) -> Tuning:  # fmt: skip
    """Return the outcome of trying every combination of `params`, which as a mapping is the best configuration.

    kernel: what to tune
    params: values to try for each parameter, e.g. `{"BM": [64, 128], "BN": [64, 128]}`
    objective: "runtime": the median of several launches
    args: arguments to run on; left out, random arrays of the types and shapes of the kernel's last call.  They are
          never written: every trial has copies of the outputs
    budget: seconds after which no further configuration is begun
    again: measure everything anew instead of using what is recorded

    Raises TuningFailed when no configuration runs.  KeyboardInterrupt ends the search and keeps what it found: the
    outcome is returned when anything was measured.
    """
    if objective != "runtime":
        raise BadKernelOption(f"there is no objective {objective!r}", hint='write objective="runtime"')
    space = with_space(kernel.options, params, {}).space or {}
    values = tuple(args) if args is not None else _synthesised(kernel)
    return _Search(kernel, space, values, grid, budget, again).run()


def tuned_constants(kernel: Kernel, values: Sequence[object], grid: Grid | None) -> Config:
    """Return the best configuration of a kernel that has a space, searching when none is recorded."""
    return _Search(kernel, kernel.options.space or {}, tuple(values), grid, BUDGET, again=False).run().config


@dataclass
class _Candidate:
    """A configuration that compiled, with its own copies of the outputs."""

    config: Config
    kernel: Kernel
    code: str
    seconds: list[float] = field(default_factory=list[float])


class _Search:
    """One search."""

    def __init__(
        self, kernel: Kernel, space: Mapping[str, tuple[Attribute, ...]], values: tuple[object, ...],
        grid: Grid | None, budget: float, again: bool,
    ) -> None:  # fmt: skip
        if kernel.device.startswith("cuda"):
            raise NotAvailableYet("kernels are not tuned on GPUs yet", hint='tune with target="cpu"')
        self._kernel = kernel
        self._values = values
        self._grid = grid
        self._deadline = time.monotonic() + budget
        self._configs = [dict(zip(space, chosen, strict=True)) for chosen in itertools.product(*space.values())]
        self._device = kernel.device
        self._path = self._record_path(kernel.described(values))
        self._known = {} if again else load(self._path)
        self._trials: dict[str, Trial] = {}

    def run(self) -> Tuning:
        """Try what is not recorded yet and return everything."""
        for config in self._configs:
            known = self._known.get(config_key(config))
            if known is not None:
                self._trials[config_key(config)] = known
        missing = [config for config in self._configs if config_key(config) not in self._trials]
        try:
            if missing:
                self._measure(self._compile(missing))
        except KeyboardInterrupt:
            if not self._measured():
                raise
        finally:
            self._save()
        tuning = self._outcome()
        if not self._measured():
            raise self._failure(tuning)
        return tuning

    def _compile(self, configs: Sequence[Config]) -> list[_Candidate]:
        """Compile all of `configs`, several at once; illegal ones and duplicates are recorded right away."""
        first: dict[str, Config] = {t.code: t.config for t in self._trials.values() if t.status == MEASURED}
        candidates: list[_Candidate] = []
        for config, variant, outcome in self._compiled(configs):
            if isinstance(outcome, TesseraError):
                self._record(Trial(config, ILLEGAL, error=_headline(outcome)))
                continue
            code = outcome.code_identity if outcome is not None else config_key(config)
            if code in first:
                self._record(Trial(config, DUPLICATE, code=code, same_as=first[code]))
                continue
            first[code] = config
            candidates.append(_Candidate(config, variant, code))
        return candidates

    def _compiled(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Kernel, Compiled | TesseraError | None]]:
        """Each configuration with its kernel and compilation; None instead of one for interpreted kernels."""
        variants = [self._kernel.variant(**config) for config in configs]
        if not self._kernel.compiles:
            yield from ((config, variant, None) for config, variant in zip(configs, variants, strict=True))
            return
        pool = ThreadPoolExecutor(current().workers, thread_name_prefix="tessera-tune")
        futures: list[Future[Compiled]] = [pool.submit(v.compile, *self._values) for v in variants]
        try:
            for config, variant, future in zip(configs, variants, futures, strict=True):
                try:
                    yield config, variant, future.result()
                except TesseraError as error:
                    yield config, variant, error
        except BaseException:
            for future in futures:
                future.cancel()
            self._kernel.stop_compiling()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _measure(self, candidates: list[_Candidate]) -> None:
        """Time each candidate a little, then the hopeful ones in turns: a slow spell of the machine meets all."""
        running: list[_Candidate] = []
        try:
            for candidate in candidates:
                if self._late() and (running or self._measured()):
                    break
                if self._begin(candidate):
                    running.append(candidate)
            hopeful = _hopeful(running)
            for _ in range(_ROUNDS - _FIRST_ROUNDS):
                for candidate in hopeful:
                    if self._late():
                        return
                    self._launch(candidate)
        finally:
            for candidate in candidates:
                if candidate.seconds:
                    seconds = tuple(candidate.seconds)
                    self._record(Trial(candidate.config, MEASURED, seconds, candidate.code))

    def _late(self) -> bool:
        return time.monotonic() > self._deadline

    def _begin(self, candidate: _Candidate) -> bool:
        """Run once without counting it (pages, caches and threads get ready), then a few times; False if it cannot."""
        try:
            self._launch(candidate)
        except TesseraError as error:
            self._record(Trial(candidate.config, ILLEGAL, code=candidate.code, error=_headline(error)))
            return False
        finally:
            candidate.seconds.clear()
        for _ in range(_FIRST_ROUNDS):
            self._launch(candidate)
        return True

    def _launch(self, candidate: _Candidate) -> None:
        values = self._copies()
        start = time.perf_counter()
        candidate.kernel.launch(values, grid=self._grid)
        candidate.seconds.append(time.perf_counter() - start)

    def _copies(self) -> tuple[object, ...]:
        """The arguments with every array copied: a trial must not see what another one wrote."""
        return tuple(as_array(value, "").copy() if is_array(value) else value for value in self._values)

    def _record(self, trial: Trial) -> None:
        self._trials[config_key(trial.config)] = trial

    def _measured(self) -> bool:
        return any(trial.status == MEASURED for trial in self._trials.values())

    def _outcome(self) -> Tuning:
        trials = tuple(self._trials.get(config_key(c), Trial(c, SKIPPED)) for c in self._configs)
        complete = all(trial.status != SKIPPED for trial in trials)
        return Tuning(self._kernel.source.name, self._device, trials, complete)

    def _save(self) -> None:
        if self._trials != self._known and current().cache:
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


def _hopeful(candidates: list[_Candidate]) -> list[_Candidate]:
    bar = _HOPELESS * min((min(candidate.seconds) for candidate in candidates), default=0.0)
    return [candidate for candidate in candidates if min(candidate.seconds) <= bar]


def _headline(error: TesseraError) -> str:
    return f"{error.code} {error.title}: {error.message}"


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
