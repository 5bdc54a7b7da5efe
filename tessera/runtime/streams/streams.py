"""Streams and events: work in order, several orders side by side, on GPUs and on the CPU with the same meaning.

A `Stream` has a CUDA stream on each GPU it was used on, and a queue of operations for what runs on the CPU, for copies
that go through host memory, and for launches that wait for their turn.  Nothing waits for its turn, and a launch goes
straight to the driver, unless streams of different weights exist.

What is launched without a stream comes after everything launched before it, and before everything launched after it,
as on CUDA's default stream.
"""

import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import ClassVar, Final, TypeVar, cast

from tessera.core.errors.catalog import BadCapture, BadStream
from tessera.runtime.arrays.interop import UsedLibraries
from tessera.runtime.driver import driver as door
from tessera.runtime.driver.driver import Driver
from tessera.runtime.streams.fair_scheduler import Operation, Queue, dispatcher
from tessera.runtime.streams.graph_capture import EventRecord, EventWait, forbid, recording

_HOW: Final = "make one with tessera.stream.new()"
_numbers: Final = itertools.count()

_T = TypeVar("_T")


class Event:
    """A place in a stream: reached when everything submitted before it is done.  Made by `Stream.record`.

    captured: it is a place in a graph, and nowhere else; failure: what the driver said against it
    """

    def __init__(self, *, captured: bool = False) -> None:
        self.submitted = False
        self.captured = captured
        self.failure: BaseException | None = None
        self.time = 0.0
        self.marks: dict[int, int] = {}  # CUDA events by device

    def query(self) -> bool:
        """Return whether the event is reached.  Raises BadCapture for one that was recorded in a graph's capture."""
        self.require_place()
        return self.submitted and all(_on(device, lambda api, e=e: api.reached(e)) for device, e in self.marks.items())

    def wait(self, stream: "Stream | None" = None) -> None:
        """Let `stream` wait for this event; without a stream, wait for it here.

        Ctrl-C ends a wait.  Raises ContextLost for a fault before the event, BadCapture for one that was recorded in
        a graph's capture.
        """
        if stream is not None:
            stream.wait(self)
            return
        forbid("waiting for an event")
        self.require_place()
        dispatcher().until(lambda: self.submitted)
        self.require_mark()
        for device, mark in self.marks.items():
            _on(device, lambda api, mark=mark: api.wait_event(mark))

    def elapsed(self, end: "Event") -> float:
        """Return the seconds from this event to `end`, once both are reached: on the GPU's clock for two of one GPU."""
        self.wait()
        end.wait()
        for device, mark in self.marks.items():
            if device in end.marks:
                return _on(device, lambda api, d=device, m=mark: api.elapsed(m, end.marks[d]))
        return end.time - self.time

    def require_place(self) -> None:
        """Raise BadCapture for an event that no stream will ever come to."""
        if self.captured:
            hint = "record another one after the `with graph.capture()`"
            message = "the event was recorded while a graph was captured: it is a place in that graph"
            raise BadCapture(message, hint=hint)

    def require_mark(self) -> None:
        """Raise what the driver said against an event that was submitted."""
        if self.failure is not None:
            raise self.failure

    def __del__(self) -> None:
        for device, mark in self.marks.items():
            api = door.driver()
            api.give_back(device, api.close_event, mark)


class Stream:
    """Work in order.  `weight` is its share while other streams have work too; see `tessera.stream.new`.

    handles: the CUDA streams, by device
    """

    external: bool = False

    def __init__(self, weight: object = 1.0) -> None:
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
            raise BadStream(
                f"a stream's weight is a positive number, got {weight!r}", hint="write stream.new(weight=2)"
            )
        self.weight = float(weight)
        self.queue = Queue(self.weight, next(_numbers))
        self.handles: dict[int, int] = {}
        self._awaited: list[Event] = []
        self._making = threading.Lock()
        if not self.external:
            _register(self)

    def handle(self, device: int) -> int:
        """Return the CUDA stream on a device."""
        found = self.handles.get(device)
        return self._make_handle(device) if found is None else found

    def _make_handle(self, device: int) -> int:
        with self._making:  # threads that share a stream share what it is on the device
            found = self.handles.get(device)
            if found is None:
                api = door.driver()
                found = _on(device, lambda api: api.new_stream())
                weakref.finalize(self, api.give_back, device, api.close_stream, found).atexit = False
                for event in self._awaited:
                    self._follow(event, device, found)
                self.handles[device] = found
        return found

    def forget(self) -> None:
        """Begin anew in a forked child: what the parent has queued is the parent's to do, and so are its GPUs."""
        self.queue = Queue(self.weight, self.queue.number)
        self.handles.clear()
        self._awaited = []
        self._making = threading.Lock()

    @property
    def queued(self) -> bool:
        """Return whether a launch now has to wait for its turn, or for what is in the queue before it."""
        queue = self.queue
        return queue.running is not None or bool(queue.operations) or (_Known.weighted and not self.external)

    def submit(self, run: Callable[[], object], engine: str, cancel: Callable[[], None] | None = None) -> None:
        """Do `run` when what was submitted before it is done, on the CPU ("compute", "copy") or as a GPU's launch.

        What it raises is raised where the stream is waited for.
        """

        def after_gpu() -> None:
            self.finish_gpu()
            run()

        dispatcher().submit(self.queue, Operation(run if engine == "gpu" else after_gpu, engine, cancel=cancel))

    def record(self) -> Event:
        """Return an event that stands for everything submitted so far."""
        noted = recording()
        event = Event(captured=noted is not None)
        if noted is not None:
            noted.add(self, EventRecord(event))
        elif self.queue.idle:
            self._mark(event)
        else:
            engine = "gpu" if self.handles else ""
            dispatcher().submit(self.queue, Operation(lambda: self._mark(event), engine, awaited=True))
        return event

    def wait(self, event: Event) -> None:
        """Let what is submitted from now on begin after `event`.  Raises BadCapture, see `Event.wait`."""
        noted = recording()
        if noted is not None:
            noted.add(self, EventWait(event))
            return
        event.require_place()
        if not event.submitted or not self.queue.idle:
            follow = lambda: self._await(event)  # noqa: E731 - the operation is this and nothing else
            dispatcher().submit(self.queue, Operation(follow, ready=lambda: event.submitted))
        else:
            self._await(event)

    def query(self) -> bool:
        """Return whether everything submitted is done."""
        return self.queue.idle and all(
            _on(device, lambda api, h=handle: api.empty(h)) for device, handle in tuple(self.handles.items())
        )

    def synchronize(self) -> None:
        """Wait until everything submitted is done.  Ctrl-C ends the wait.

        Raises what a kernel or copy in the stream raised, with the kernel's line; ContextLost for a fault on a GPU.
        """
        forbid("waiting for a stream")
        dispatcher().wait([self.queue])
        failure = dispatcher().take_failure(self.queue)
        if failure is not None:
            raise failure
        self.finish_gpu()

    def __repr__(self) -> str:
        return f"<stream {self.queue.number}, weight {self.weight:g}>"

    def _mark(self, event: Event) -> None:
        try:
            for device, handle in tuple(self.handles.items()):
                event.marks[device] = _on(device, lambda api: api.new_event())
                _on(device, lambda api, d=device, h=handle: api.record(event.marks[d], h))
        except BaseException as error:
            event.failure = error
            raise
        finally:
            event.time = time.perf_counter()
            event.submitted = True  # a wait for it must end

    def _await(self, event: Event) -> None:
        event.require_mark()
        if event.marks:
            self._awaited = [other for other in self._awaited if not other.query()] + [event]
            for device, handle in tuple(self.handles.items()):
                self._follow(event, device, handle)

    def _follow(self, event: Event, device: int, handle: int) -> None:
        for mark in event.marks.values():
            _on(device, lambda api, mark=mark: api.follow(handle, mark))

    def finish_gpu(self) -> None:
        """Wait for what the GPUs have of this stream."""
        awaited, self._awaited = self._awaited, []
        for event in awaited:
            event.wait()
        for device, handle in tuple(self.handles.items()):
            _on(device, lambda api, handle=handle: api.wait(handle))


class ExternalStream(Stream):
    """Another library's CUDA stream: only for what runs on GPUs, and never made to wait for its turn.

    owner: the other library's object, which lives as long as this one
    """

    external = True

    def __init__(self, handle: int, owner: object = None) -> None:
        super().__init__()
        self.address = handle
        self.owner = owner

    def handle(self, device: int) -> int:
        """Return the CUDA stream, whatever the device: its owner knows where it belongs."""
        self.handles.setdefault(device, self.address)
        return self.address

    def submit(self, run: Callable[[], object], engine: str, cancel: Callable[[], None] | None = None) -> None:
        """See `Stream.submit`.  Raises BadStream for work of the CPU."""
        if engine == "compute":
            raise BadStream("a CUDA stream cannot order kernels that run on the CPU", hint=_HOW)
        super().submit(run, engine, cancel)

    def __repr__(self) -> str:
        return f"<CUDA stream {self.address:#x}>"


def as_stream(value: object) -> Stream:
    """Return the stream that `value` is: ours, or another library's (`__cuda_stream__`, cupy, torch, an address).

    Raises BadStream for anything else.
    """
    if isinstance(value, Stream):
        return value
    handle = _address(value)
    if handle is None or handle < 0:
        raise BadStream(f"{value!r} is no stream", hint=_HOW)
    with _Known.lock:  # there is one for each, whose queue all its users share
        found = _Known.external.get(handle)
        if found is None:
            found = _Known.external[handle] = ExternalStream(handle, value)
    return found


def _address(value: object) -> int | None:
    """Return the address of another library's CUDA stream, by each of the ways in which libraries give it."""
    protocol: object = getattr(value, "__cuda_stream__", None)
    found: object
    if callable(protocol):
        found = cast("tuple[int, int]", protocol())[1]
    elif protocol is not None:
        found = cast("tuple[int, int]", protocol)[1]
    else:  # torch, cupy before it knew the protocol, or the address itself
        found = getattr(value, "cuda_stream", getattr(value, "ptr", value))
    return found if isinstance(found, int) and not isinstance(found, bool) else None


class _Known:
    """All streams of ours that there are, by number, and those of other libraries by their addresses.

    weighted: ours differ in weight

    The lock is taken again by a thread that has it when a stream goes, which may be at any time.
    """

    lock: ClassVar = threading.RLock()
    streams: ClassVar["weakref.WeakValueDictionary[int, Stream]"] = weakref.WeakValueDictionary()
    external: ClassVar["weakref.WeakValueDictionary[int, ExternalStream]"] = weakref.WeakValueDictionary()
    weighted: bool = False


def _streams() -> list[Stream]:
    """Return the streams that there are, oldest first."""
    found = [reference() for reference in _Known.streams.valuerefs()]
    return sorted((stream for stream in found if stream is not None), key=lambda stream: stream.queue.number)


def _register(stream: Stream) -> None:
    with _Known.lock:
        _Known.streams[stream.queue.number] = stream
    _weigh()
    weakref.finalize(stream, _weigh).atexit = False


def _weigh() -> None:
    """Look whether weights differ, after a stream has come or gone."""
    with _Known.lock:
        _Known.weighted = len({stream.weight for stream in _streams()}) > 1


def _after_fork() -> None:
    _Known.lock = threading.RLock()
    others = [reference() for reference in _Known.external.valuerefs()]
    for stream in (*_streams(), *others):
        if stream is not None:
            stream.forget()


os.register_at_fork(after_in_child=_after_fork)


def synchronize() -> None:
    """Wait for every stream and for the default one.  Raises what a kernel or copy of any of them raised.

    Where several have raised something, each call raises one of these, of the oldest stream first.
    """
    found = dispatcher()
    found.wait()
    for stream in _streams():
        stream.finish_gpu()
    api = door.loaded()
    if api is not None:
        for device in sorted(api.used):
            for handle in (0, *UsedLibraries.streams.get(device, ())):
                _on(device, lambda api, handle=handle: api.wait(handle))
    failure = found.take_failure()
    if failure is not None:
        raise failure


def _on(device: int, what: Callable[[Driver], _T]) -> _T:
    """Do something with the driver in a context of `device`."""
    api = door.driver()
    with api.inside(device):
        return what(api)
