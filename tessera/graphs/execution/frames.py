"""Keep arenas with the graph that they belong to, and lend each to one call at a time.

A frame is what one call of a graph needs besides inputs and outputs: the arena, the arrays that lie in it, the frames
of bodies.  A call takes a frame that no other call has, or makes one, and gives it back when its work is on its way:
the next one to have it works on the same stream, so behind it.  A frame whose call failed is not given back.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import Plan
from tessera.graphs.execution.supply import Supply, arena_of
from tessera.runtime.arrays.interop import library_of
from tessera.runtime.driver.driver import CACHES, Driver
from tessera.runtime.memory.operands import Operand

_ALL_IDLE_BYTES: Final = 256 << 20
"""Of arenas that no call has: the one that was used last is kept whatever its size."""

Memory = dict[Value, Operand[object]]
"""The array of each value that is alive."""


class Bound(Protocol):
    """Launches on a GPU that are bound to a frame."""

    def run(self, places: dict[Value, int], driver: Driver, stream: int, memory: Memory) -> None:
        """Begin them, with the arrays at `places`; `memory`: the same arrays, for steps of the host."""
        ...


class BoundOnHost(Protocol):
    """Launches on the CPU that are bound to a frame."""

    def run(self, addresses: dict[Value, int], memory: Memory) -> None:
        """Run them, with the arrays at these addresses; `memory`: the same arrays, for other steps."""
        ...


class BoundOnMesh(Protocol):
    """Launches on the devices of a mesh that are bound to a frame of each."""

    @property
    def frames(self) -> "Sequence[Frame]":
        """The frames, in the order of ranks."""
        ...


class Frame:
    """The arena of one call of a plan, and the arrays in it.

    supply: that the arena is of; views: the array of each value that lies in it; kept: further arrays that stay
    bound, bound_on_host, bound_on_mesh: launches that read and write here
    """

    def __init__(self, plan: Plan, supply: Supply) -> None:
        self.plan, self.supply = plan, supply
        self.bytes = plan.arena_bytes
        arena = arena_of(supply, self.bytes) if self.bytes else None
        self.views: Memory = {}
        if arena is not None:
            self.views = {
                each.value: supply.part(arena, each.offset, each.value.type, each.value.name) for each in plan.buffers
            }
        self.kept: Memory = {}
        self.bound: Bound | None = None
        self.bound_on_host: BoundOnHost | None = None
        self.bound_on_mesh: BoundOnMesh | None = None
        self._inner: dict[Plan, Frame] = {}

    def inner(self, plan: Plan) -> "Frame":
        """Return the frame of a body, which belongs to this one."""
        found = self._inner.get(plan)
        if found is None:
            found = self._inner[plan] = Frame(plan, self.supply)
            self.bytes += found.bytes
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Workspace:
    """Gives values memory while a graph runs: a place that was given, a part of the arena, or an array of its own.

    places: of values whose memory is given; repeated: the same run comes again and again, so that arrays are kept
    """

    frame: Frame
    places: Mapping[Value, Operand[object]] = field(default_factory=dict[Value, Operand[object]])
    repeated: bool = False

    @property
    def like(self) -> Operand[object]:
        """An array of the kind that it gives, without elements."""
        return self.frame.supply.like

    def __call__(self, value: Value) -> Operand[object]:
        """Return memory for a value, whose elements are undefined."""
        found = self.places.get(value) or self.frame.views.get(value) or self.frame.kept.get(value)
        if found is None:
            found = self.frame.supply.array(value.type, value.name)
            if self.repeated:
                self.frame.kept[value] = found
        return found

    def inner(self, plan: Plan, places: Mapping[Value, Operand[object]]) -> "Workspace":
        """Return the memory of a body, whose outputs have places."""
        return Workspace(self.frame.inner(plan), places, repeated=True)


class FramePool:
    """The frames of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._captured: list[Frame] = []
        weakref.finalize(self, _IDLE.forget, id(self)).atexit = False

    @contextmanager
    def lent(self, supply: Supply, *, captured: bool = False) -> Generator[Frame]:
        """Lend a frame to a call.

        captured: what runs in it is captured by a library, and may run again at any time: no other call gets it
        """
        key = (id(self), supply.key)
        frame = (None if captured else _IDLE.take(key)) or Frame(self._plan, supply)
        yield frame
        if not captured:
            _IDLE.give(key, frame)
        elif library_of(supply.like.value) != "torch":  # which keeps for its graph what is allocated inside of it
            self._captured.append(frame)


class _Idle:
    """Frames that no call has, of all graphs, in the order of their last use.

    A finalizer may run while this thread holds the lock: the lock can be taken twice.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._frames: OrderedDict[tuple[int, Hashable], list[Frame]] = OrderedDict()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """The bytes of all arenas that no call has."""
        with self._lock:
            return sum(frame.bytes for frames in self._frames.values() for frame in frames)

    def take(self, key: tuple[int, Hashable]) -> Frame | None:
        """Return a frame, which no other call gets until it is given back."""
        with self._lock:
            frames = self._frames.get(key)
            if not frames:
                return None
            frame = frames.pop()
            self._bytes -= frame.bytes
            return frame

    def give(self, key: tuple[int, Hashable], frame: Frame) -> None:
        """Take a frame back; what was used longest ago is let go where idle arenas hold too much."""
        dropped: list[list[Frame]] = []  # outlives the lock: memory is given back behind it
        with self._lock:
            self._frames.setdefault(key, []).append(frame)
            self._frames.move_to_end(key)
            self._bytes += frame.bytes
            if self._bytes > _ALL_IDLE_BYTES:
                self._bytes = self.bytes  # exactly: Ctrl-C may have come between two lines
                while len(self._frames) > 1 and self._bytes > _ALL_IDLE_BYTES:
                    dropped.append(self._frames.popitem(last=False)[1])
                    self._bytes -= sum(each.bytes for each in dropped[-1])

    def clear(self) -> None:
        """Let all of them go."""
        with self._lock:
            dropped, self._bytes = dict(self._frames), 0  # outlives the lock
            self._frames.clear()
        del dropped

    def forget(self, pool: int) -> None:
        """Let the frames of a pool go that is not there any more."""
        with self._lock:
            dropped = [self._frames.pop(key) for key in list(self._frames) if key[0] == pool]
            self._bytes -= sum(frame.bytes for frames in dropped for frame in frames)


_IDLE: Final = _Idle()


def idle_bytes() -> int:
    """Return the bytes of all arenas that are kept, and that no call has."""
    return _IDLE.bytes


def release_idle() -> None:
    """Let all arenas go that no call has."""
    _IDLE.clear()


CACHES.append(release_idle)
