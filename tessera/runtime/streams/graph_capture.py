"""Capture of graphs: what is launched meanwhile is recorded in order, with its stream, and not run."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from tessera.core.errors.catalog import BadCapture

if TYPE_CHECKING:
    from tessera.runtime.launch.launch_plan import LaunchPlan
    from tessera.runtime.streams.streams import Event, Stream


class Work(Protocol):
    """Work of the host with its arguments bound, such as a launch."""

    def run(self) -> None:
        """Do it, to its end."""
        ...

    def cancel(self) -> None:
        """Ask `run` to end early."""
        ...


@dataclass(frozen=True, slots=True)
class HostWork:
    """Something a graph does on the CPU: `work.run()`."""

    name: str
    work: Work


@dataclass(frozen=True, slots=True)
class HostCall:
    """Something that the host does between launches, on arrays wherever they lie: a call of a library, a loop."""

    name: str
    work: Work


@dataclass(frozen=True, slots=True)
class DeviceCopy:
    """A copy of `size` bytes that a GPU does; `keep` are the arrays."""

    device: int
    target: int
    source: int
    size: int
    keep: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event's place in a stream."""

    event: "Event"


@dataclass(frozen=True, slots=True)
class EventWait:
    """A stream waits for an event."""

    event: "Event"


Step: TypeAlias = "HostWork | HostCall | LaunchPlan | DeviceCopy | EventRecord | EventWait"


def _none() -> "list[tuple[Stream | None, Step]]":
    return []


@dataclass(slots=True, eq=False)
class CapturedGraph:
    """The steps of a graph, each with its stream (None: the default one); `keep` holds their arrays."""

    steps: "list[tuple[Stream | None, Step]]" = field(default_factory=_none)
    keep: list[object] = field(default_factory=list[object])

    def add(self, stream: "Stream | None", step: "Step", keep: object = None) -> None:
        """Note a step."""
        self.steps.append((stream, step))
        if keep is not None:
            self.keep.append(keep)


class Active(threading.local):
    """The recording that this thread's launches go to."""

    recording: CapturedGraph | None = None


class CaptureSession:
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


def open_recording() -> CapturedGraph:
    """Let this thread's launches be recorded.  Raises BadCapture where they are already."""
    if CaptureSession.active.recording is not None:
        raise BadCapture("a graph is being captured already", hint="end its `with graph.capture()` first")
    made = CaptureSession.active.recording = CapturedGraph()
    with CaptureSession.lock:
        CaptureSession.count += 1
    return made


def close_recording() -> None:
    """Let this thread's launches run again."""
    CaptureSession.active.recording = None
    with CaptureSession.lock:
        CaptureSession.count -= 1


def recording() -> CapturedGraph | None:
    """Return the recording that this thread's launches go to, if any."""
    return CaptureSession.active.recording if CaptureSession.count else None


@contextmanager
def suspended() -> Generator[None]:
    """Let this thread's launches run inside the `with`, whatever is being recorded: a search for a configuration."""
    before, CaptureSession.active.recording = CaptureSession.active.recording, None
    try:
        yield
    finally:
        CaptureSession.active.recording = before


def forbid(what: str) -> None:
    """Raise BadCapture for something that cannot be part of a graph, while one is captured."""
    if recording() is not None:
        raise BadCapture(f"{what} cannot be captured", hint=_AFTER)


_AFTER: Final = "do it after the `with graph.capture()`"
