"""Captured graphs: a CUDA graph where everything runs on one GPU, a list of bound launches on the CPU."""

import ctypes
import functools
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Final, SupportsInt

from tessera.core.errors.catalog import BadCapture, CudaFailure
from tessera.runtime.binding.current_stream import ArgumentStreams
from tessera.runtime.driver import driver as door
from tessera.runtime.driver.calls import WRONG_CONTEXT
from tessera.runtime.driver.descriptors import Launched
from tessera.runtime.launch.launch_events import tell_graph
from tessera.runtime.launch.launch_plan import LaunchPlan
from tessera.runtime.streams.fair_scheduler import drain
from tessera.runtime.streams.graph_capture import (
    CapturedGraph,
    CaptureSession,
    DeviceCopy,
    EventRecord,
    EventWait,
    HostCall,
    HostWork,
    Step,
    Work,
)
from tessera.runtime.streams.in_flight_limit import outstanding
from tessera.runtime.streams.streams import Event, Stream

_NAMED: Final = 8  # kernels of a graph that the report of a fault names
Steps = Sequence[tuple[Stream | None, Step]]


class Graph:
    """The launches made inside `with graph.capture() as g:`, to be launched again as a whole.

    The arrays are those of the capture, read and written where they lie; the graph keeps them alive.
    """

    def __init__(self) -> None:
        self._steps: Steps = ()
        self._keep: list[object] = []
        self._made: CudaGraph | HostGraph | SplitGraph | None = None

    def complete(self, recording: CapturedGraph) -> None:
        """Make the graph of what was recorded.  Raises BadCapture for what no graph can hold."""
        devices = {device for _, step in recording.steps if (device := _device(step)) is not None}
        if len(devices) > 1:
            names = " and ".join("the CPU" if device < 0 else f"cuda:{device}" for device in sorted(devices))
            raise BadCapture(f"one graph runs on one device, this one was given work for {names}")
        self._steps, self._keep = tuple(recording.steps), recording.keep
        device = devices.pop() if devices else _HOST
        if device == _HOST:
            self._made = HostGraph(self._steps)
        elif any(isinstance(step, HostCall) for _, step in self._steps):
            self._made = SplitGraph(self._steps, device)
        else:
            self._made = CudaGraph(self._steps, device)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels, in the order in which they were launched."""
        names = [_name(step) for _, step in self._steps]
        return tuple(name for name in names if name)

    @property
    def device(self) -> str:
        """The device that it runs on: "cpu", "cuda:0", ..."""
        return f"cuda:{self._made.device}" if isinstance(self._made, CudaGraph | SplitGraph) else "cpu"

    def launch(self, stream: Stream | None = None) -> None:
        """Run everything once more, in the order of `stream`.  Raises BadCapture for a graph that is still captured."""
        if self._made is None:
            raise BadCapture("the graph is not complete", hint="launch it after its `with graph.capture()`")
        self._made.launch(stream)
        if CaptureSession.count:
            tell_graph(self.kernels, self.device, "" if stream is None else repr(stream))

    def adopt(self, older: "Graph") -> bool:
        """Take over the executable of `older`, with this graph's parameters; False where their shapes differ."""
        mine, theirs = self._made, older._made
        if isinstance(mine, CudaGraph) and isinstance(theirs, CudaGraph):
            return mine.adopt(theirs)
        return False

    def __repr__(self) -> str:
        state = f"{len(self.kernels)} kernels on {self.device}" if self._made is not None else "not complete"
        return f"<graph: {state}>"


_HOST: Final = -1


def _device(step: Step) -> int | None:
    if isinstance(step, LaunchPlan | DeviceCopy):
        return step.device
    return _HOST if isinstance(step, HostWork) else None


def _name(step: Step) -> str:
    if isinstance(step, LaunchPlan):
        return step.kernel.name
    return step.name if isinstance(step, HostWork | HostCall) else ""


class HostGraph:
    """Launches on the CPU, one after the other as they were captured: every stream's order agrees with that."""

    def __init__(self, steps: Steps) -> None:
        self._works = [step.work for _, step in steps if isinstance(step, HostWork | HostCall)]
        self._lock = threading.Lock()  # launches of two threads would share each other's workspaces

    def launch(self, stream: Stream | None) -> None:
        """Run them; in a stream, when their turn has come."""
        replay = _Replay(self._works, self._lock)
        if stream is None:
            drain()
            replay.run()
        else:
            stream.submit(replay.run, "compute", replay.cancel)


@dataclass(slots=True, eq=False)
class _Replay:
    """One launch of a graph on the CPU; one that is cancelled ends with the work that runs."""

    works: Sequence[Work]
    lock: threading.Lock
    cancelled: bool = False

    def run(self) -> None:
        with self.lock:
            for work in self.works:
                if self.cancelled:
                    return
                work.run()

    def cancel(self) -> None:
        self.cancelled = True
        for work in self.works:
            work.cancel()


class CudaGraph:
    """A CUDA graph, ready to be launched."""

    def __init__(self, steps: Steps, device: int) -> None:
        self.device = device
        self._api = door.driver()
        with self._api.inside(device):
            self._api.used.add(device)
            self._context = self._api.context()
            self._several = self._api.count() > 1
            graph = _Capture(self._api, steps).graph()
            try:
                self._hold(self._api.instantiate(graph))
            except BaseException:
                self._api.close_graph(graph)
                raise
        self._graph = graph
        weakref.finalize(self, self._api.give_back, device, self._api.close_graph, graph).atexit = False
        launches = [step for _, step in steps if isinstance(step, LaunchPlan)]
        self._company = (
            functools.reduce(ArgumentStreams.together, (step.company for step in launches))
            if launches
            else ArgumentStreams()
        )
        kernels = dict.fromkeys(step.kernel for step in launches)
        self._kernels: tuple[Launched, ...] = tuple(kernels)[:_NAMED]

    def _hold(self, executable: SupportsInt) -> None:
        self._executable = executable
        api = self._api
        self._release = weakref.finalize(self, api.give_back, self.device, api.close_executable, executable)
        self._release.atexit = False
        self._address = ctypes.c_void_p(int(executable))
        self._last = (0, (self._address, ctypes.c_void_p(0)))

    def adopt(self, older: "CudaGraph") -> bool:
        """Use the executable of `older`, which is not launched again, in place of a new one."""
        if older.device != self.device or not self._api.update(older._executable, self._graph):
            return False
        self._release()
        older._release.detach()
        self._hold(older._executable)
        return True

    def launch(self, stream: Stream | None) -> None:
        """Launch it; in a stream, when its turn has come."""
        if stream is None:
            drain()
            self._start_where_work_goes()
        elif stream.queued:
            stream.submit(lambda: self._take_turn(stream), "gpu")
        else:
            self._start(stream.handle(self.device))

    def _start_where_work_goes(self) -> None:
        """Launch it on the current stream of the library that the first launch's arrays are of."""
        company = self._company
        handle = company.current()
        if company.agrees(handle):
            self._start(handle)
            return
        with self._api.within(self._context), company.around(self._api, handle):
            self._start(handle)

    def _take_turn(self, stream: Stream) -> None:
        handle = stream.handle(self.device)
        self._start(handle)
        with self._api.within(self._context):
            outstanding.add(self._api, handle)

    def _start(self, stream: int) -> None:
        """Launch it: the default stream, 0, is another one on each GPU."""
        if self._several and self._api.context() != self._context:
            with self._api.within(self._context):
                self._replay(stream)
        else:
            self._replay(stream)

    def _replay(self, stream: int) -> None:
        last, call = self._last  # in one piece: another thread may launch it on another stream
        if stream != last:
            call = (self._address, ctypes.c_void_p(stream))
            self._last = (stream, call)
        status = self._api.replay(*call)
        if status:
            self._again(status, call)
        self._api.launched.extend([(kernel, self._context, stream) for kernel in self._kernels])

    def _again(self, status: int, call: tuple[ctypes.c_void_p, ctypes.c_void_p]) -> None:
        if status not in WRONG_CONTEXT:
            self._api.failed(status, "cuGraphLaunch")
        with self._api.within(self._context):
            status = self._api.replay(*call)
        if status:
            self._api.failed(status, "cuGraphLaunch")


class SplitGraph:
    """CUDA graphs with calls of the host between them."""

    def __init__(self, steps: Steps, device: int) -> None:
        self.device = device
        self._parts: list[CudaGraph | Work] = []
        for called, row in groupby(steps, key=lambda each: isinstance(each[1], HostCall)):
            if called:
                self._parts += [step.work for _, step in row if isinstance(step, HostCall)]
            else:
                self._parts.append(CudaGraph(list(row), device))

    def launch(self, stream: Stream | None) -> None:
        """Launch them in turn, where the arrays' library works.  Raises BadCapture for a stream."""
        if stream is not None:
            message = "a graph in which the host calls libraries or looks at values runs on no stream of its own"
            raise BadCapture(message, hint="launch it without stream=")
        for part in self._parts:
            if isinstance(part, CudaGraph):
                part.launch(None)
            else:
                part.run()


class _Capture:
    """Gives the steps to streams that note them: `_origin` stands for the default stream, others branch off it."""

    def __init__(self, api: door.Driver, steps: Steps) -> None:
        self._api = api
        self._steps = steps
        self._origin = api.new_stream(capturing=True)
        self._branches: dict[Stream, int] = {}
        self._events: list[int] = []
        self._marks: dict[Event, int] = {}
        self._behind: set[Stream] = set()  # branches that have not followed the origin since its last step

    def graph(self) -> object:
        """Capture the graph of all steps; nothing else is left behind."""
        try:
            self._api.begin_capture(self._origin)
            try:
                for stream, step in self._steps:
                    self._step(stream, step)
                self._join()
            except BaseException:
                with suppress(CudaFailure):  # what went wrong is on its way; the stream must not go on noting
                    self._api.end_capture(self._origin)
                raise
            graph = self._api.end_capture(self._origin)
        finally:
            for event in self._events:
                self._api.close_event(event)
            for handle in (*self._branches.values(), self._origin):
                self._api.close_stream(handle)
        return graph

    def _step(self, stream: Stream | None, step: Step) -> None:
        if stream is None:
            self._join()
            self._behind = set(self._branches)
        handle = self._origin if stream is None else self._branch(stream)
        match step:
            case LaunchPlan():
                step.set_stream(handle)
                step.begin()
            case DeviceCopy():
                self._api.copy(step.target, step.source, step.size, handle)
            case EventRecord():
                self._marks[step.event] = self._mark(handle)
            case EventWait():
                mark = self._marks.get(step.event)
                if mark is None:
                    raise BadCapture("an event from before the capture cannot be waited for inside it")
                self._api.follow(handle, mark)
            case HostWork() | HostCall():
                raise BadCapture("work of the CPU cannot be part of a CUDA graph")

    def _branch(self, stream: Stream) -> int:
        handle = self._branches.get(stream)
        if handle is None:
            handle = self._branches[stream] = self._api.new_stream(capturing=True)
            self._behind.add(stream)
        if stream in self._behind:
            self._behind.discard(stream)
            self._api.follow(handle, self._mark(self._origin))
        return handle

    def _join(self) -> None:
        """Let the origin wait for every branch that has done anything since it last did."""
        for stream, handle in self._branches.items():
            if stream not in self._behind:
                self._api.follow(self._origin, self._mark(handle))

    def _mark(self, handle: int) -> int:
        event = self._api.new_event(timing=False)
        self._events.append(event)
        self._api.record(event, handle)
        return event
