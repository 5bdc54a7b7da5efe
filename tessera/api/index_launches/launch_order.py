"""Order launches by privileges alone: inside `with tessera.overlapped_launches():` what is independent overlaps.

Readers of a tensor overlap; a writer waits for those in front of it, and those behind it wait for the writer.
Reductions of one kind compute at once, and add in the order in which they were launched, so that bits do not depend on
which is faster.  Outside of the `with` each launch has ended when the call returns.
"""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.interrupts import LOOK, raise_if_stopped, stop_event, stoppable
from tessera.core.base.source import NOWHERE
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import call_place
from tessera.dist.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Use:
    """Use of a tensor by a launch: privilege as of `PointParameter`."""

    tensor: Tensor
    privilege: str


class _Launch:
    """A launch in a thread of its own: compute, then commit.

    before_compute, before_commit: the launches that must have ended first
    """

    def __init__(self, uses: Sequence[Use], compute: Callable[[], None], commit: Callable[[], None]) -> None:
        self.uses, self.compute, self.commit = uses, compute, commit
        self.writes = any(use.privilege != "read" for use in uses)
        self.before_compute: list[_Launch] = []
        self.before_commit: list[_Launch] = []
        self.failure: BaseException | None = None
        self.span, self.source = call_place()
        self.ended = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Run in this thread, once the others have ended."""
        _RUNNING.launch = self
        try:
            with stoppable(stop):
                _wait_for(self.before_compute)
                self.compute()
                _wait_for(self.before_commit)
                self.commit()
        except BaseException as failure:  # noqa: BLE001 - it is raised where the launch is waited for
            self.failure = failure
            if isinstance(failure, TesseraError) and failure.span == NOWHERE:
                failure.span = self.span
                if self.source is not None:
                    failure.with_source(self.source)
        finally:
            for use in self.uses:
                if self in use.tensor.uses:
                    use.tensor.uses.remove(self)
            self.ended.set()

    def wait(self) -> None:
        """Wait until it has ended; raise what it raised.

        A launch that uses a tensor waits for no other launch: it began after those that it depends on, and those that
        were launched later wait for it.
        """
        if _RUNNING.launch is None:
            self.wait_to_end()

    def wait_to_end(self) -> None:
        """Wait until it has ended, in other launches too; raise what it raised."""
        while not self.ended.wait(LOOK):
            raise_if_stopped()
        if self.failure is not None:
            raise self.failure


def _wait_for(launches: Sequence[_Launch]) -> None:
    for each in launches:
        each.wait_to_end()


class _Running(threading.local):
    """The launch that this thread runs."""

    launch: _Launch | None = None


_RUNNING: Final = _Running()


@dataclass(eq=False)
class LaunchScope:
    """The launches inside of one `with`, in order."""

    launches: list[_Launch] = field(default_factory=list[_Launch])
    stop: threading.Event = field(default_factory=threading.Event)

    def add(self, uses: Sequence[Use], compute: Callable[[], None], commit: Callable[[], None]) -> None:
        """Begin a launch as soon as those that it depends on have ended."""
        launch = _Launch(uses, compute, commit)
        for earlier in self.launches:
            kinds = [{a.privilege, b.privilege} for a in earlier.uses for b in uses if a.tensor is b.tensor]
            if any(kind not in ({"read"}, {"reduce_sum"}) for kind in kinds):
                launch.before_compute.append(earlier)
            elif {"reduce_sum"} in kinds:
                launch.before_commit.append(earlier)
        self.launches.append(launch)
        for use in uses:
            use.tensor.uses.append(launch)
        threading.Thread(target=launch.run, args=(self.stop,), name="tessera-launch", daemon=True).start()

    def finish(self) -> None:
        """Wait for all of them; raise what the first that failed raised."""
        _wait_for(self.launches)

    def cancel(self) -> None:
        """Stop all of them."""
        self.stop.set()
        for each in self.launches:
            each.ended.wait(2.0)


class _Scopes(threading.local):
    """The scopes that this thread is in."""

    def __init__(self) -> None:
        self.active: list[LaunchScope] = []


_SCOPES: Final = _Scopes()


@contextmanager
def overlapped_launches() -> Generator[LaunchScope]:
    """Let index launches inside of the `with` overlap, ordered by their privileges; at its end all have ended.

    Reading a tensor meanwhile waits for the launches that write it.
    """
    scope = LaunchScope()
    _SCOPES.active.append(scope)
    try:
        yield scope
        scope.finish()
    except BaseException:
        scope.cancel()
        raise
    finally:
        _SCOPES.active.remove(scope)


def ordered(uses: Sequence[Use], compute: Callable[[], None], commit: Callable[[], None]) -> None:
    """Run a launch: at once, or in the scope of this thread."""
    if _SCOPES.active and stop_event() is None:
        _SCOPES.active[-1].add(uses, compute, commit)
        return
    for use in uses:
        use.tensor.wait(writing=use.privilege != "read")
    compute()
    commit()
