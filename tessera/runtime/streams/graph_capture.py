"""What is launched while a graph is captured: noted in order, with its stream, and not done."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessera.core.errors.catalog import BadCapture

if TYPE_CHECKING:
    from tessera.runtime.launch.launch_plan import PreparedLaunch
    from tessera.runtime.streams.streams import Event, Stream


@dataclass(frozen=True, slots=True)
class HostWork:
    """Something a graph does on the CPU: `work.run()`."""

    name: str
    work: Any


@dataclass(frozen=True, slots=True)
class DeviceCopy:
    """A copy of `size` bytes that a GPU does; `keep` are the arrays."""

    device: int
    target: int
    source: int
    size: int
    keep: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """An event's place in a stream."""

    event: "Event"


@dataclass(frozen=True, slots=True)
class Await:
    """A stream waits for an event."""

    event: "Event"


Step: TypeAlias = "HostWork | PreparedLaunch | DeviceCopy | Mark | Await"


def _none() -> "list[tuple[Stream | None, Step]]":
    return []


@dataclass(slots=True, eq=False)
class Recording:
    """The steps of a graph, each with its stream (None: the default one); `keep` holds their arrays."""

    steps: "list[tuple[Stream | None, Step]]" = field(default_factory=_none)
    keep: list[Any] = field(default_factory=list[Any])

    def add(self, stream: "Stream | None", step: "Step", keep: object = None) -> None:
        """Note a step."""
        self.steps.append((stream, step))
        if keep is not None:
            self.keep.append(keep)


class Active(threading.local):
    """The recording that this thread's launches go to."""

    recording: Recording | None = None


class Recorder:
    """Launches look only whether `count` is 0.

    It is the number of recordings that are open in all threads; while something is subscribed to launches, one more.
    """

    lock: threading.Lock = threading.Lock()
    count: int = 0
    active: Active = Active()

    @classmethod
    def watch(cls, watched: bool) -> None:
        """Have every launch go the long way round, which tells of it, or no longer."""
        with cls.lock:
            cls.count += 1 if watched else -1


def open_recording() -> Recording:
    """Let this thread's launches be recorded.  Raises BadCapture where they are already."""
    if Recorder.active.recording is not None:
        raise BadCapture("a graph is being captured already", hint="end its `with graph.capture()` first")
    made = Recorder.active.recording = Recording()
    with Recorder.lock:
        Recorder.count += 1
    return made


def close_recording() -> None:
    """Let this thread's launches run again."""
    Recorder.active.recording = None
    with Recorder.lock:
        Recorder.count -= 1


def recording() -> Recording | None:
    """The recording that this thread's launches go to, if any."""
    return Recorder.active.recording if Recorder.count else None


@contextmanager
def suspended() -> Generator[None]:
    """Let this thread's launches run inside the `with`, whatever is being recorded: a search for a configuration."""
    before, Recorder.active.recording = Recorder.active.recording, None
    try:
        yield
    finally:
        Recorder.active.recording = before


def forbid(what: str) -> None:
    """Raise BadCapture for something that cannot be part of a graph, while one is captured."""
    if recording() is not None:
        raise BadCapture(f"{what} cannot be captured", hint=_AFTER)


_AFTER: Final = "do it after the `with graph.capture()`"
