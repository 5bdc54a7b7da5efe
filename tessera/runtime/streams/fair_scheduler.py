"""The order in which streams get to work: one queue a stream, and a share of the turns by weight.

`FairQueueing` is start-time fair queueing: each turn costs a stream 1 / weight of virtual time, and the stream that has
had least goes next, so that while two streams both have work, their turns are in the proportion of their weights.
A stream that comes back from idleness begins at the present time: it has saved up nothing.

The `Dispatcher` has one thread an engine ("compute": kernels on the CPU, "copy": copies through host memory,
"gpu": launches that wait for their turn).  An operation runs on its engine when it is the first of its stream's queue.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.interrupts import LOOK, deferred_interrupts

_ENGINE: Final = "tessera-engine-"


class FairQueueing:
    """Fair queueing by weights: the queue that has had least of its share goes next."""

    def __init__(self) -> None:
        self._now = 0.0

    def wake(self, queue: "Queue") -> None:
        """Bring the share of `queue`, which was empty and has work again, up to the others'."""
        queue.used = max(queue.used, self._now)

    def choose(self, queues: Iterable["Queue"]) -> "Queue | None":
        """Return the one of `queues`, all of which have work, that goes next; it is charged for the turn."""
        chosen = min(queues, key=lambda queue: (queue.used, queue.number), default=None)
        if chosen is not None:
            self._now = chosen.used
            chosen.used += 1.0 / chosen.weight
        return chosen


@dataclass(slots=True, eq=False)
class Operation:
    """Something to be done in a stream.

    run: does it, on a thread of `engine`; engine "" stands for nothing but a place in the queue
    ready: whether it may begin, which other operations bring about; cancel: asks it, while it runs, to end early
    awaited: others wait for it: it is done even where an interrupt drops what is before it
    """

    run: Callable[[], object]
    engine: str = ""
    ready: Callable[[], bool] | None = None
    cancel: Callable[[], None] | None = None
    awaited: bool = False


@dataclass(slots=True, eq=False)
class Queue:
    """One stream's operations, in order; `used` is the virtual time its turns have cost.

    submitted, done: operations so far, but for those that were dropped
    failure: the first that an operation raised and that was not raised again yet
    """

    weight: float
    number: int
    operations: deque[Operation] = field(default_factory=deque[Operation])
    running: Operation | None = None
    used: float = 0.0
    submitted: int = 0
    done: int = 0
    failure: BaseException | None = None

    @property
    def idle(self) -> bool:
        """Return whether nothing is queued and nothing runs."""
        return self.running is None and not self.operations


class Dispatcher:
    """Queues and engines.  `busy` is the number of operations that are queued or run."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.busy = 0
        self._order = FairQueueing()
        self._changed = threading.Condition()
        self._queues: dict[int, Queue] = {}
        self._failed: dict[int, Queue] = {}
        self._engines: dict[str, threading.Thread] = {}

    def submit(self, queue: Queue, operation: Operation) -> None:
        """Put `operation` behind what `queue` holds."""
        with deferred_interrupts(), self._changed:
            if operation.engine and operation.engine not in self._engines:
                self._start(operation.engine)
            if queue.idle:
                self._order.wake(queue)
                self._queues[id(queue)] = queue
            queue.operations.append(operation)
            queue.submitted += 1
            self.busy += 1
            self._pass_places(queue)
            self._changed.notify_all()

    def wait(self, queues: Iterable[Queue] | None = None) -> None:
        """Wait for what `queues` (None: all there are) hold now; other threads may go on submitting.

        An interrupt drops what has not begun, asks what runs to end, and is raised again at once.
        """
        with deferred_interrupts() as deferral, self._changed:
            watched = [(q, q.submitted) for q in (self._queues.values() if queues is None else queues)]
            try:
                while any(queue.done < goal and not queue.idle for queue, goal in watched):
                    self._changed.wait(LOOK)
                    deferral.deliver()
            except BaseException:
                self._drop(queue for queue, _ in watched)
                raise

    def take_failure(self, queue: Queue | None = None) -> BaseException | None:
        """Return the failure of an operation of `queue` (None: of the first queue that has one), once."""
        with deferred_interrupts(), self._changed:
            if queue is None:
                queue = min(self._failed.values(), key=lambda queue: queue.number, default=None)
            if queue is None:
                return None
            self._failed.pop(id(queue), None)
            failure, queue.failure = queue.failure, None
            return failure

    def until(self, done: Callable[[], bool]) -> None:
        """Wait until `done`, which the operations of some queue bring about."""
        with deferred_interrupts() as deferral, self._changed:
            while not done():
                self._changed.wait(LOOK)
                deferral.deliver()

    def _drop(self, queues: Iterable[Queue]) -> None:
        for queue in queues:
            kept = [operation for operation in queue.operations if operation.awaited]
            dropped = len(queue.operations) - len(kept)
            self.busy -= dropped
            queue.submitted -= dropped
            queue.operations = deque(kept)
            if queue.running is not None and queue.running.cancel is not None:
                queue.running.cancel()
            self._pass_places(queue)
        self._changed.notify_all()

    def _forget(self, queue: Queue) -> None:
        if queue.idle:
            self._queues.pop(id(queue), None)

    def _start(self, engine: str) -> None:
        thread = threading.Thread(target=self._serve, args=(engine,), name=_ENGINE + engine, daemon=True)
        thread.start()
        self._engines[engine] = thread

    def _serve(self, engine: str) -> None:
        while True:
            with self._changed:
                queue = self._take(engine)
                while queue is None:
                    self._changed.wait()
                    queue = self._take(engine)
                operation = queue.running
            if operation is not None:
                self._run(queue, operation)
            with self._changed:
                queue.running = None
                queue.done += 1
                self.busy -= 1
                self._pass_places(queue)
                self._forget(queue)
                self._changed.notify_all()
            del queue, operation  # arrays of finished operations must not live on in a waiting thread

    def _run(self, queue: Queue, operation: Operation) -> None:
        try:
            operation.run()
        except BaseException as error:  # noqa: BLE001 - it is raised again where the stream is waited for
            with self._changed:
                if queue.failure is None:
                    queue.failure = error
                    self._failed[id(queue)] = queue  # its stream may be gone before anybody waits

    def _take(self, engine: str) -> Queue | None:
        """Return the queue whose first operation runs next on `engine`; the operation then counts as running."""
        for queue in list(self._queues.values()):
            self._pass_places(queue)
        able = [queue for queue in self._queues.values() if _able(queue, engine)]
        chosen = self._order.choose(able)
        if chosen is not None:
            chosen.running = chosen.operations.popleft()
        return chosen

    def _pass_places(self, queue: Queue) -> None:
        """Do what needs no engine, as far as it is first in line."""
        while queue.running is None and queue.operations and not queue.operations[0].engine:
            first = queue.operations[0]
            if first.ready is not None and not first.ready():
                return
            queue.operations.popleft()
            queue.done += 1
            self.busy -= 1
            self._run(queue, first)
            self._changed.notify_all()
        self._forget(queue)


def _able(queue: Queue, engine: str) -> bool:
    if queue.running is not None or not queue.operations:
        return False
    first = queue.operations[0]
    return first.engine == engine and (first.ready is None or first.ready())


class Shared:
    """The process's dispatcher."""

    lock: threading.Lock = threading.Lock()
    dispatcher: Dispatcher = Dispatcher()


def dispatcher() -> Dispatcher:
    """Return the process's dispatcher; a forked child, which has none of its threads, gets its own."""
    if Shared.dispatcher.process != os.getpid():
        with Shared.lock:
            if Shared.dispatcher.process != os.getpid():
                Shared.dispatcher = Dispatcher()
    return Shared.dispatcher


def drain() -> None:
    """Wait for everything in every queue: what is launched without a stream comes after it, as on a GPU.

    Ctrl-C ends the wait.  Called by an operation of a queue, this waits for nothing.
    """
    found = dispatcher()
    if found.busy and not threading.current_thread().name.startswith(_ENGINE):
        found.wait()
