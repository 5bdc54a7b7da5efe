"""Compilations of a search in worker processes, several at once, handed over as they are done."""

from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Final, Self

from tessera.core.errors.base import TesseraError
from tessera.core.settings import current
from tessera.kernels.kernel import Kernel
from tessera.session.compiled import Compiled
from tessera.tuning.search_space import Proposal

Outcome = Compiled | TesseraError | None
"""A compilation, or why there is none; None for interpreted kernels."""
_LOOK: Final = 0.2
"""Seconds between two looks at pending signals."""


class Pipeline:
    """Compiles what is submitted, as many at a time as there are compiler processes.

    Used as a context; left by an exception, such as that of Ctrl-C, it ends the compilations that still run.
    """

    def __init__(self, kernel: Kernel, values: tuple[object, ...], *, compiles: bool) -> None:
        self._kernel, self._values, self._compiles = kernel, values, compiles
        self._width = current().workers
        self._pool = ThreadPoolExecutor(self._width, thread_name_prefix="tessera-tune")
        self._running: dict[Future[Compiled], Proposal] = {}
        self._done: deque[tuple[Proposal, Outcome]] = deque()
        self.compiled = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        for future in self._running:
            future.cancel()
        if kind is not None and self._running:
            self._kernel.stop_compiling()
        self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def room(self) -> bool:
        """Whether a compiler process has nothing to do."""
        return len(self._running) < self._width

    @property
    def busy(self) -> bool:
        """Whether something is still to come."""
        return bool(self._running or self._done)

    def submit(self, proposal: Proposal) -> None:
        """Begin to compile a proposal."""
        if not self._compiles:
            self._done.append((proposal, None))
            return
        self._running[self._pool.submit(proposal.kernel.compile_quietly, *self._values)] = proposal

    def take(self, *, waiting: bool = False) -> tuple[Proposal, Outcome] | None:
        """Return what is done, if anything is; with `waiting`, wait for it as long as something is under way."""
        while not self._done and self._running:
            finished, _ = wait(self._running, _LOOK if waiting else 0.0, FIRST_COMPLETED)
            for future in sorted(finished, key=list(self._running).index):
                self._done.append((self._running.pop(future), _outcome(future)))
                self.compiled += 1
            if not waiting:
                break
        return self._done.popleft() if self._done else None


def _outcome(future: Future[Compiled]) -> Outcome:
    try:
        return future.result()
    except TesseraError as error:
        return error
