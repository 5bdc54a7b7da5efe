"""Compilations of a search in worker processes, several at once, handed over as they are done."""

import threading
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from types import TracebackType
from typing import Self

from tessera.core.base.interrupts import LOOK, DeferredInterrupts, deferred_interrupts, stop_event, stoppable
from tessera.core.errors.base import TesseraError
from tessera.core.settings import current
from tessera.kernels.kernel import Kernel
from tessera.session.compiled import Compiled
from tessera.tuning.results import Config, config_key
from tessera.tuning.search_space import Proposal

Outcome = Compiled | TesseraError | None
"""A compilation, or why there is none; None for interpreted kernels."""


class Pipeline:
    """Compiles what is submitted, as many at a time as there are compiler processes.

    Used as a context; left by an exception, such as that of Ctrl-C, it ends the compilations that still run.  A search
    in the background ends its own alone: those of the cells go on.
    """

    def __init__(self, kernel: Kernel, values: tuple[object, ...], *, compiles: bool) -> None:
        self._kernel, self._values, self._compiles = kernel, values, compiles
        self._width = current().workers
        self._stop_event = stop_event()
        self._pool = ThreadPoolExecutor(self._width, thread_name_prefix="tessera-tune")
        self._running: dict[Future[Compiled], Proposal] = {}
        self._done: deque[tuple[Proposal, Outcome]] = deque()
        self.compiled = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        with deferred_interrupts() as deferral:
            for future in self._running:
                future.cancel()
            try:
                while kind is None and not self._wait(LOOK):
                    deferral.deliver()
            finally:
                self._stop(deferral)

    @property
    def has_idle_worker(self) -> bool:
        """Return whether a compiler process has nothing to do."""
        return len(self._running) < self._width

    @property
    def busy(self) -> bool:
        """Return whether something is still to come."""
        return bool(self._running or self._done)

    def holds(self, config: Config) -> bool:
        """Return whether a configuration is being compiled, or waits to be taken."""
        proposals = [*self._running.values(), *(proposal for proposal, _ in self._done)]
        return any(config_key(proposal.config) == config_key(config) for proposal in proposals)

    def submit(self, proposal: Proposal) -> None:
        """Begin to compile a proposal."""
        if not self._compiles:
            self._done.append((proposal, None))
            return
        with deferred_interrupts():
            compiling = self._pool.submit(_compile, proposal.kernel, self._values, self._stop_event)
            self._running[compiling] = proposal

    def take(self, *, waiting: bool = False) -> tuple[Proposal, Outcome] | None:
        """Return what is done, if anything is; with `waiting`, wait for it as long as something is under way."""
        with deferred_interrupts() as deferral:
            while not self._done and self._running:
                finished, _ = wait(self._running, LOOK if waiting else 0.0, FIRST_COMPLETED)
                for future in sorted(finished, key=list(self._running).index):
                    self._done.append((self._running.pop(future), _outcome(future)))
                    self.compiled += 1
                if not waiting:
                    break
                deferral.deliver()
            return self._done.popleft() if self._done else None

    def _stop(self, deferral: DeferredInterrupts) -> None:
        """End what still runs: again, where a compilation had yet to ask for a compiler when the others were ended."""
        try:
            while not self._wait(0.0):
                if self._stop_event is None:
                    self._kernel.stop_compiling()
                else:
                    self._stop_event.set()
                self._wait(LOOK)
                deferral.deliver()
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _wait(self, seconds: float) -> bool:
        """Wait for what runs; return whether all of it has ended."""
        return not wait(self._running, seconds).not_done


def _compile(kernel: Kernel, values: tuple[object, ...], stop: threading.Event | None) -> Compiled:
    with nullcontext() if stop is None else stoppable(stop):
        return kernel.compile_quietly(*values)


def _outcome(future: Future[Compiled]) -> Outcome:
    try:
        return future.result()
    except TesseraError as error:
        return error
