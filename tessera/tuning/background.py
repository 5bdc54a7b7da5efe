"""Searches in the background of a notebook: a thread of the process that measures while other cells are used.

What is asked of the thread (pause, stop, a configuration by hand) happens between two launches; a stop also ends a
launch on the CPU and the compilations under way.  Only one search of the process measures at a time (`steering`), and
launches that cells disturb are timed again (`disturbance`).
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tessera.core.base.interrupts import LOOK, deferred_interrupts, raise_if_stopped, stoppable
from tessera.core.errors.catalog import BadKernelOption
from tessera.core.program.program import Attribute
from tessera.kernels.kernel import Kernel
from tessera.kernels.options import check_constants
from tessera.tuning.results import MEASURED, PASSING, Config, Trial, Tuning, choose, config_key, show
from tessera.tuning.search import Search
from tessera.tuning.search_space import check_values
from tessera.tuning.steering import TURN, Steering

RUNNING: Final = "running"
PAUSED: Final = "paused"
FINISHED: Final = "finished"
STOPPED: Final = "stopped"
FAILED: Final = "failed"
STATES: Final = (RUNNING, PAUSED, FINISHED, STOPPED, FAILED)


class Listener(Protocol):
    """Follows a search; called in the search's thread between two launches, so it never disturbs a measurement."""

    def recorded(self, trial: Trial) -> None:
        """Hear of a trial that was settled, or of which more was measured."""
        ...

    def beat(self) -> None:
        """Hear that anything may have changed; many times a second, also while the search waits."""
        ...


class BackgroundSearch(Steering):
    """The handle of a search that runs in a thread of this process; every method may be called from any thread.

    kernel: what is tuned; values: the arguments, of which it measures copies
    """

    background = True

    def __init__(self, search: Search) -> None:
        self.kernel: Final[Kernel] = search.kernel
        self.values: Final = search.values
        self._search = search
        search.steering = self
        self._lock = threading.RLock()
        self._stop, self._resumed = threading.Event(), threading.Event()
        self._resumed.set()
        self._added: list[Config] = []
        self._pinned: dict[str, Config] = {}
        self._listeners: tuple[Listener, ...] = ()
        self._failure: BaseException | None = None
        self._ended = False
        self._begin()

    # -- what it is asked -------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Begin no further launch until `resume`; compilations under way go on, and other searches may measure."""
        self._resumed.clear()
        self._beat_elsewhere()

    def resume(self) -> None:
        """Go on after a `pause`."""
        self._resumed.set()
        self._beat_elsewhere()

    def stop(self) -> Tuning:
        """End the search and return what it found, as Ctrl-C does for one in a cell: its best so far is kept.

        A stopped search goes on with `add`, or in a new one: what was measured is not measured again.
        """
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._join(None)
        return self.result

    def add(self, **config: Attribute) -> Config:
        """Put one configuration before all others that wait, and return it whole; it is measured in any case.

        What is not named is as in the best configuration so far, or else as in the default.  A search that has ended
        goes on with it.  Raises BadKernelOption for names and values that the kernel cannot have, and where one is
        missing.
        """
        whole = self.completed(config)
        if self._stop.is_set():
            self._join(None)
        with deferred_interrupts():
            with self._lock:
                self._added.append(whole)
                again, self._ended = self._ended, False
            if again:
                self._join(None)
                self._stop, self._failure = threading.Event(), None
                self._resumed.set()
                self._begin()
        return whole

    def completed(self, config: Mapping[str, Attribute]) -> Config:
        """Return a configuration with the names that it leaves out; see `add`."""
        base = self._best_config() or self._search.plan.default or {}
        checked = check_constants(self.kernel.function, self.kernel.source.function, config)
        check_values(checked, self._search.plan)
        whole = {**base, **checked}
        missing = {name for name in self._search.plan.configs[0] if name not in whole}
        if missing and not self._search.plan.default:
            raise BadKernelOption(f"the configuration lacks {', '.join(sorted(missing))}", hint="name every parameter")
        return whole

    def pin(self, config: Mapping[str, Attribute]) -> None:
        """Keep a configuration in view, and measure it to the end: it is compared with the best however slow it is."""
        with self._lock:
            self._pinned[config_key(config)] = dict(config)
        self._beat_elsewhere()

    def unpin(self, config: Mapping[str, Attribute]) -> None:
        """Take `pin` back."""
        with self._lock:
            self._pinned.pop(config_key(config), None)
        self._beat_elsewhere()

    # -- what it tells ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """Return one of `STATES`."""
        if not self._ended and not self._stop.is_set():
            return RUNNING if self._resumed.is_set() else PAUSED
        if self._failure is not None:
            return FAILED
        return STOPPED if self._stop.is_set() else FINISHED

    @property
    def phase(self) -> str:
        """The current work, in words."""
        if self.state == RUNNING:
            return "another search measures" if self._waits else self._search.phase
        return self.state if self._failure is None else f"failed: {self._failure}"

    @property
    def result(self) -> Tuning:
        """Everything found so far; as a mapping, the best configuration."""
        return self._search.so_far()

    @property
    def pins(self) -> tuple[Config, ...]:
        """The configurations that are pinned."""
        with self._lock:
            return tuple(self._pinned.values())

    @property
    def seconds(self) -> float:
        """Seconds that it has run, without those that it was paused for."""
        return self._ran if self._ran is not None else max(0.0, self._search.seconds - self._waited)

    @property
    def budget(self) -> float:
        """Seconds after which it begins no further configuration."""
        return self._search.budget

    @property
    def error(self) -> BaseException | None:
        """The exception that ended it; None: there was none."""
        return self._failure

    def wait(self, timeout: float | None = None) -> Tuning:
        """Wait until it has ended and return the outcome.  Ctrl-C ends the wait, not the search.

        Raises what the search raised, such as TuningFailed when no configuration runs; TimeoutError after `timeout`
        seconds.
        """
        if not self._join(timeout):
            raise TimeoutError(f"the search of {self.kernel.source.name} still runs")
        if self._failure is not None:
            raise self._failure
        return self.result

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` of everything from now on; return how to end that."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def close() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return close

    def __repr__(self) -> str:
        trials = self.result.trials
        settled = sum(trial.status not in PASSING for trial in trials)
        best = self._best_config()
        told = f"; best {show(best)}" if best is not None else ""
        return f"<search of {self.kernel.source.name}: {self.state}, {settled} of {len(trials)} configurations{told}>"

    # -- what the search asks ---------------------------------------------------------------------------------------

    def checkpoint(self) -> float:
        """Wait as long as it is paused, or the search of a cell measures; return the seconds."""
        raise_if_stopped()
        self._beat()
        if self._resumed.is_set() and not TURN.wanted:
            return 0.0
        begun = time.monotonic()
        TURN.give()
        try:
            while not self._resumed.is_set():
                self._look(begun)
                raise_if_stopped()
                self._resumed.wait(LOOK)
            self._waits = True
            TURN.take(background=True, each_look=lambda: self._look(begun))
        finally:
            self._waits, self._waited = False, 0.0
        return time.monotonic() - begun

    def by_hand(self) -> tuple[Config, ...]:
        """Return the configurations that were added since the last call."""
        with self._lock:
            added, self._added = tuple(self._added), []
        return added

    def recorded(self, trial: Trial) -> None:
        """Pass a trial on."""
        for listener in self._listeners:
            listener.recorded(trial)

    def pinned(self, config: Config) -> bool:
        """Return whether a configuration is pinned."""
        return config_key(config) in self._pinned

    # -- its thread -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._waits, self._waited = False, 0.0
        self._ran: float | None = None
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name="tessera-search", daemon=True)
        self._thread.start()

    def _run(self, stop: threading.Event) -> None:
        try:
            with stoppable(stop):
                self._search.run(progress=False)
                while self._more():
                    self._search.run(progress=False)
        except KeyboardInterrupt:
            pass  # stopped before anything was measured of a kernel that has no values of its own
        except BaseException as error:  # noqa: BLE001 - raised again by `wait`
            self._failure = error
        finally:
            self._ran = self._search.seconds
            self._ended = True
        self._beat()

    def _more(self) -> bool:
        """Return whether configurations were added that had no turn yet; where not, the search has ended."""
        with self._lock:
            for config in self.by_hand():
                self._search.extend(config)
            self._ended = self._stop.is_set() or not self._search.unsettled
            return not self._ended

    def _look(self, begun: float) -> None:
        self._waited = time.monotonic() - begun
        self._beat()

    def _beat(self) -> None:
        for listener in self._listeners:
            listener.beat()

    def _beat_elsewhere(self) -> None:
        """Tell at once where the search's thread will not: it has ended."""
        if self._ended:
            self._beat()

    def _join(self, timeout: float | None) -> bool:
        """Wait for the thread in short steps; return whether it has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with deferred_interrupts() as deferral:
            while self._thread.is_alive():
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                self._thread.join(LOOK)
                deferral.deliver()
        return True

    def _best_config(self) -> Config | None:
        tuning = self.result
        best = choose(tuning.trials, tuning.default)
        return best.config if best is not None and best.status == MEASURED else None
