"""Bind launches once and begin them again and again: one by one, then as one CUDA graph.

Arrays that move from call to call are written into the parameters of the launches that take them.  The graph is made
at the third beginning: it is launched as one, after its nodes have got the parameters that have changed since.
Launches that need memory of their own stay launches, between graphs of the others.

A step that is given what the last one returned finds its arrays at two places in turn, or a few: each gets executables
of its own, whose parameters then stay as they are.
"""

import ctypes
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

from tessera.core.base.interrupts import deferred_interrupts
from tessera.runtime.driver.calls import WRONG_CONTEXT, Launch
from tessera.runtime.driver.descriptors import KernelNode
from tessera.runtime.driver.driver import Driver
from tessera.runtime.launch.launch_plan import LaunchPlan
from tessera.runtime.launch.parameter_buffer import ParameterBuffer

GRAPH_AFTER: Final = 2
"""Beginnings before the one that makes graphs: what runs twice will run again."""
MOST_COPIES: Final = 4
"""Executables of one graph: places that its arrays come back to."""
_SEEN: Final = 16
"""Beginnings that are remembered, to know places that come again."""
_NAMED: Final = 8  # kernels of a graph that the report of a fault names


@dataclass(frozen=True, slots=True)
class MovingArgument:
    """An argument that lies in an array which moves.

    launch, argument: their numbers; array: the array's number; displacement: bytes from where that begins
    """

    launch: int
    argument: int
    array: int
    displacement: int


@dataclass(frozen=True, slots=True)
class _Patch:
    """The parameters of one launch that say where an array lies."""

    launch: int
    displacement: int
    words: Sequence[ctypes.c_uint64]
    maps: Sequence[tuple[int, Callable[[int], bytes]]]
    block: ParameterBuffer


class BoundLaunches:
    """Launches in one context, in order, on one stream at a time.  One thread has them at a time.

    places: where each array that moves lies, by its number; keep: the arrays that do not move
    """

    def __init__(
        self, driver: Driver, launches: Sequence[LaunchPlan], moving: Sequence[MovingArgument],
        places: Sequence[int] = (), keep: object = None,
    ) -> None:  # fmt: skip
        self._driver, self._keep = driver, keep
        self.launches = tuple(launches)
        self.places = list(places)
        self._written = list(places)
        self._moving: dict[int, list[_Patch]] = {}
        for each in moving:
            plan = self.launches[each.launch]
            patch = _Patch(
                each.launch, each.displacement, plan.words(each.argument), plan.maps(each.argument), plan.block
            )
            self._moving.setdefault(each.array, []).append(patch)
        self._stream = -1
        self._begun = 0
        self._first: _Parts | None = None
        self._known: OrderedDict[tuple[int, ...], _Parts] = OrderedDict()
        self._seen: deque[tuple[int, ...]] = deque(maxlen=_SEEN)

    @property
    def captured(self) -> int:
        """How many of the launches are parts of CUDA graphs now."""
        parts = self._first.parts if self._first is not None else ()
        return sum(len(part.launches) for part in parts if isinstance(part, CapturedLaunches))

    def begin(self, stream: int) -> None:
        """Launch all of them on a stream.  Raises CudaFailure, with the kernel that the driver refuses."""
        if self._begun == GRAPH_AFTER:
            with deferred_interrupts():
                self._capture()
        self._begun += 1
        if self._first is None:
            self._one_by_one(self.launches, stream)
            return
        key = tuple(self.places)
        made = self._known.get(key)
        if made is None:
            made = self._placed(key)
        elif len(self._known) > 1:
            self._known.move_to_end(key)
        for part in made.parts:
            if isinstance(part, LaunchPlan):
                self._one_by_one((part,), stream)
            elif not part.begin(stream):
                self._one_by_one(part.launches, stream)  # which says of which kernel the failure is

    def _one_by_one(self, launches: Sequence[LaunchPlan], stream: int) -> None:
        self._write()
        if stream != self._stream:
            for plan in self.launches:
                plan.set_stream(stream)
            self._stream = stream
        for plan in launches:
            plan.begin()

    def _write(self) -> None:
        """Bring the parameters of the launches up to date."""
        for array, (old, new) in enumerate(zip(self._written, self.places, strict=True)):
            for each in self._moving.get(array, ()) if new != old else ():
                place = new + each.displacement
                for word in each.words:
                    word.value = place
                for slot, map_at in each.maps:
                    each.block.write(slot, map_at(place))
        self._written[:] = self.places

    def _capture(self) -> None:
        """Make a CUDA graph of each row of launches that are nothing but kernels."""
        self._write()
        parts: list[LaunchPlan | CapturedLaunches] = []
        self._stream = -1  # captured launches are on another one
        numbered = enumerate(self.launches)
        for lone, row in groupby(numbered, key=lambda each: each[1].lone):
            launches = list(row)
            made = captured(self._driver, launches) if lone and len(launches) > 1 else None
            parts += [plan for _, plan in launches] if made is None else [made]
        key = tuple(self.places)
        self._first = self._known[key] = _Parts(tuple(parts), key)
        self._seen.append(key)

    def _placed(self, key: tuple[int, ...]) -> "_Parts":
        """Return graphs with the arrays at new places: those begun longest ago, or further ones for places that return.

        What is changed has no key meanwhile: an interrupt between two lines leaves no graph at wrong places.
        """
        assert self._first is not None
        self._write()
        if not self._known or (key in self._seen and len(self._known) < MOST_COPIES):
            made = self._first.again(self._driver)
        else:
            made = self._known.popitem(last=False)[1]
        self._seen.append(key)
        moved = [number for number, (a, b) in enumerate(zip(made.places, key, strict=True)) if a != b]
        made.update({each.launch for number in moved for each in self._moving.get(number, ())})
        self._known[key] = found = _Parts(made.parts, key)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """All launches, in rows that are CUDA graphs and single ones; places: of the arrays in the graphs' parameters."""

    parts: "tuple[LaunchPlan | CapturedLaunches, ...]"
    places: tuple[int, ...]

    def update(self, changed: set[int]) -> None:
        """Set the parameters of launches that have changed."""
        for part in self.parts:
            if isinstance(part, CapturedLaunches):
                part.update(changed)

    def again(self, driver: Driver) -> "_Parts":
        """Return the same with further executables, whose parameters are those of the capture."""
        with deferred_interrupts():
            parts = [part.again(driver) if isinstance(part, CapturedLaunches) else part for part in self.parts]
        return _Parts(tuple(parts), self.places)


class CapturedLaunches:
    """A row of launches as a CUDA graph, with an executable.

    launches: with their numbers; graph: its owner; nodes: of each launch, in the order of these
    """

    def __init__(
        self, driver: Driver, launches: Sequence[tuple[int, LaunchPlan]], graph: "OwnedGraph", nodes: Sequence[int]
    ) -> None:
        self.launches = tuple(plan for _, plan in launches)
        self._driver, self._numbered, self._graph, self._nodes = driver, tuple(launches), graph, nodes
        first = self.launches[0]
        self._context = first.context
        executable = driver.instantiate(graph.handle)
        weakref.finalize(self, driver.give_back, first.device, driver.close_executable, executable).atexit = False
        self._handle = ctypes.c_void_p(int(executable))
        self._set: dict[int, Callable[[], int]] = {}
        self._keep: list[KernelNode] = []
        for (number, plan), node in zip(launches, nodes, strict=True):
            described = KernelNode.of(plan.function, plan.config, plan.block.addresses)
            self._keep.append(described)
            place = ctypes.c_void_p(ctypes.addressof(described))
            self._set[number] = partial(driver.set_parameters, self._handle, ctypes.c_void_p(node), place)
        distinct = {plan.kernel: plan for plan in self.launches}
        self._named = tuple(distinct)[:_NAMED]
        self._refused = False
        self._stream = ctypes.c_void_p(0)
        self._records = self._records_on(0)

    def again(self, driver: Driver) -> "CapturedLaunches":
        """Return the graph with another executable, whose parameters are those of the capture."""
        with driver.within(self._context), driver.relaxed():
            return CapturedLaunches(driver, self._numbered, self._graph, self._nodes)

    def update(self, changed: Collection[int]) -> None:
        """Give the executable the parameters of these launches, as they lie in their blocks."""
        for number in changed:
            update = self._set.get(number)
            if update is not None and update():
                self._refused = True  # the parameters are not what they should be from now on

    def begin(self, stream: int) -> bool:
        """Launch the graph; False, having started nothing, where the driver refuses it, from then on."""
        if self._refused:
            return False
        place = self._stream
        if stream != (place.value or 0):
            place = self._stream = ctypes.c_void_p(stream)
            self._records = self._records_on(stream)
        status = self._driver.replay(self._handle, place)
        if status in WRONG_CONTEXT:
            with self._driver.within(self._context):
                status = self._driver.replay(self._handle, place)
        if status:
            self._refused = True
            return False
        self._driver.launched.extend(self._records)
        return True

    def _records_on(self, stream: int) -> tuple[Launch, ...]:
        return tuple((kernel, self._context, stream) for kernel in self._named)


class OwnedGraph:
    """A CUDA graph, which lives as long as its executables."""

    def __init__(self, driver: Driver, device: int, handle: object) -> None:
        self.handle = handle
        weakref.finalize(self, driver.give_back, device, driver.close_graph, handle).atexit = False


def captured(driver: Driver, launches: Sequence[tuple[int, LaunchPlan]]) -> CapturedLaunches | None:
    """Make a CUDA graph of launches; None where its nodes cannot be told apart."""
    plans = [plan for _, plan in launches]
    with driver.within(plans[0].context), driver.relaxed():
        stream = driver.new_stream(capturing=True)
        try:
            driver.begin_capture(stream)
            try:
                for plan in plans:
                    plan.set_stream(stream)
                    plan.begin()
            finally:
                graph = driver.end_capture(stream)
        finally:
            driver.close_stream(stream)
        owned = OwnedGraph(driver, plans[0].device, graph)
        nodes = driver.kernel_nodes(graph, len(plans))
        if not all(map(_is_node_of, nodes, plans)):
            return None
        return CapturedLaunches(driver, launches, owned, [node for node, *_ in nodes])


def _is_node_of(node: tuple[int, int, int], plan: LaunchPlan) -> bool:
    """Return whether a node is that of a launch: the function, and the addresses of its arrays."""
    _, function, places = node
    if function != plan.function.value:
        return False
    held = (ctypes.c_void_p * (1 + max((slot for slot, _ in plan.pointers), default=0))).from_address(places)
    return all(
        ctypes.c_uint64.from_address(held[slot] or 0).value == plan.block.word(slot).value for slot, _ in plan.pointers
    )
