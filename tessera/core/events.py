"""Publish what happens while kernels are compiled, tuned, launched and profiled to subscribers.

Every event is a frozen value of one of the classes below, made of plain data, so that it can be pickled, logged or
written as JSON.  Views, progress displays and logs all subscribe in the same way:

    with subscribe(print, Compiled, Launched):
        saxpy(x, y, 2.0)

Where nothing subscribes, nothing is made: a publisher asks `wanted(Launched)` before it collects what an event says,
and `when_wanted` tells a publisher in a hot path when to begin and when to stop.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeVar, cast, overload

from tessera.core.program.program import Attribute

__all__ = [
    "Attempted", "BytesMoved", "Compiled", "Launched", "PassRan", "Subscription", "TileRan", "TrialMeasured",
    "subscribe",
]  # fmt: skip
_LOG: Final = logging.getLogger("tessera.events")


@dataclass(frozen=True, slots=True)
class PassRan:
    """A pass of the compiler ran.

    level: the level of the IR that it works on, one of its target's; name: in kebab-case
    changed: whether it changed anything; None where that was not looked at
    options: the pass's own, by name
    """

    kernel: str
    target: str
    level: str
    name: str
    seconds: float
    changed: bool | None = None
    options: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])


@dataclass(frozen=True, slots=True)
class Attempted:
    """The compiler tried a schedule on the hardware's limits: shared memory, registers, barriers.

    number: 0 for the first attempt of a kernel
    choices: what distinguishes this attempt from the others, such as the number of pipeline stages
    reason: why it does not fit; empty for the attempt that was taken
    """

    kernel: str
    target: str
    number: int
    choices: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel was compiled, or fetched from where an earlier compilation was kept.

    key: the content address of the artifact
    origin: "compiler", "disk" (the cache) or "memory" (this process)
    seconds: what that took, the frontend not included
    """

    kernel: str
    target: str
    key: str
    origin: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel was launched: it ran (CPU), or was handed to a stream or the GPU, which run it later.

    target: what its code is for; where a captured graph is launched, the device: "cpu", "cuda:0" and the like
    key: the content address of the artifact; empty for interpreted kernels and for those of a graph
    groups: how many groups the launch has; None where that is not known
    stream: as it is printed; empty for the default stream
    seconds: how long the call took on the host; None in a stream or a graph
    """

    kernel: str
    target: str
    key: str
    groups: int | None
    stream: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TrialMeasured:
    """A search for a fast configuration settled one of its trials, or measured more of it.

    search: a number for each search of this process; device: what it measures on; phase: what it is doing, in words
    status: of the trial, see `tessera.tuning.results.Trial`
    seconds: the median time of a launch; None where it was not measured
    predicted: seconds that the cost model expects; None where it was not asked
    settled, total: configurations that had their turn, and all of the search
    """

    kernel: str
    search: int
    device: str
    phase: str
    config: Mapping[str, Attribute]
    status: str
    seconds: float | None
    predicted: float | None
    error: str
    settled: int
    total: int


@dataclass(frozen=True, slots=True)
class TileRan:
    """One tile (group) of a profiled launch ran; times in ns since the first tile of the launch began.

    unit: the multiprocessor (GPU) or core it ran on, -1 where that is not known
    phases: ns in "load", "compute" and "store", where the kernel is pipelined
    """

    kernel: str
    index: int
    unit: int
    start: float
    end: float
    phases: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BytesMoved:
    """A copy was made, or handed to the GPU, which makes it later: also of NumPy arrays for a launch on a GPU.

    Copies that a captured graph makes are not told.

    source, destination: "host", or "cuda:0" and the like
    """

    size: int
    source: str
    destination: str


Event = PassRan | Attempted | Compiled | Launched | TrialMeasured | TileRan | BytesMoved
KINDS: Final[tuple[type[Event], ...]] = (
    PassRan, Attempted, Compiled, Launched, TrialMeasured, TileRan, BytesMoved,
)  # fmt: skip

_E = TypeVar("_E", bound=Event)

Subscriber = Callable[[Event], object]
"""Called with each event in the thread that it happens in, so from several threads at once; it should return soon."""


class Subscription:
    """A subscriber that is called until `close`, or until the end of a `with`."""

    def __init__(self, subscriber: Subscriber, kinds: tuple[type[Event], ...]) -> None:
        self.subscriber = subscriber
        self.kinds = kinds

    def close(self) -> None:
        """End the subscription; does nothing where it has ended."""
        _HUB.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close()


class _Hub:
    """The subscriptions of this process; `wanted` is replaced as a whole, so that reading it needs no lock."""

    def __init__(self) -> None:
        self.wanted: dict[type[Event], tuple[Subscription, ...]] = {}
        self._lock = threading.RLock()
        self._switches: dict[type[Event], list[Callable[[bool], object]]] = {}

    def add(self, subscription: Subscription) -> None:
        """Call the subscriber of `subscription` from now on."""
        with self._lock:
            self._replace({
                kind: (*self.wanted.get(kind, ()), *((subscription,) if kind in subscription.kinds else ()))
                for kind in KINDS
            })  # fmt: skip

    def remove(self, subscription: Subscription) -> None:
        """Call it no more."""
        with self._lock:
            self._replace({
                kind: tuple(known for known in subscriptions if known is not subscription)
                for kind, subscriptions in self.wanted.items()
            })  # fmt: skip

    def switch(self, kind: type[Event], switch: Callable[[bool], object]) -> None:
        """Tell `switch` whether `kind` is wanted, whenever that changes."""
        with self._lock:
            self._switches.setdefault(kind, []).append(switch)
            if kind in self.wanted:
                switch(True)

    def _replace(self, wanted: dict[type[Event], tuple[Subscription, ...]]) -> None:
        before, self.wanted = self.wanted, {kind: found for kind, found in wanted.items() if found}
        for kind in before.keys() ^ self.wanted.keys():
            for switch in self._switches.get(kind, ()):
                switch(kind in self.wanted)


_HUB: Final = _Hub()


@overload
def subscribe(subscriber: Subscriber) -> Subscription: ...
@overload
def subscribe(subscriber: Callable[[_E], object], first: type[_E], /, *kinds: type[_E]) -> Subscription: ...
def subscribe(subscriber: Callable[[_E], object], *kinds: type[_E]) -> Subscription:
    """Call `subscriber` with every event of `kinds` (none: of all) until the subscription is closed.

    What a subscriber raises does not reach the compiler or the launch: it is logged, once, with its traceback, by the
    logger "tessera.events", which prints it where logging is not configured, and the subscription ends.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        known = ", ".join(kind.__name__ for kind in KINDS)
        raise TypeError(f"{unknown[0]!r} is no kind of event: choose of {known}")
    subscription = Subscription(cast("Subscriber", subscriber), kinds or KINDS)  # it is called with these kinds alone
    _HUB.add(subscription)
    return subscription


def wanted(kind: type[Event]) -> bool:
    """Return whether anything subscribed to events of `kind`."""
    return kind in _HUB.wanted


def wanted_kinds() -> tuple[type[Event], ...]:
    """Return the kinds of events that anything subscribed to."""
    return tuple(_HUB.wanted)


def when_wanted(kind: type[Event], switch: Callable[[bool], object]) -> None:
    """Call `switch` with True when the first subscriber to `kind` comes, and with False when the last one leaves."""
    _HUB.switch(kind, switch)


def publish(event: Event) -> None:
    """Hand `event` to all that subscribed to its kind."""
    for subscription in _HUB.wanted.get(type(event), ()):
        try:
            subscription.subscriber(event)
        except Exception:  # noqa: BLE001 - whatever a subscriber raises: it is reported
            subscription.close()
            _LOG.exception("a subscriber to events failed on %s, and is not called again", type(event).__name__)
