"""Bind the launches of a sequence of steps to an arena, so that a further call moves inputs and outputs and begins.

A sequence is a row of steps that only launch kernels.  What it is given and what it returns lies somewhere else in each
call; everything between stays where it is.  Steps that the host takes, such as calls of libraries, lie between two
sequences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from tessera.core.base.interrupts import deferred_interrupts
from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import Group, Plan
from tessera.graphs.execution.frames import Frame, Memory, Workspace
from tessera.runtime.arrays.pointers import address
from tessera.runtime.driver.driver import Driver
from tessera.runtime.launch.bound_launches import BoundLaunches, MovingArgument
from tessera.runtime.launch.launch_plan import LaunchPlan
from tessera.runtime.memory.operands import Operand, operand
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.streams.graph_capture import CapturedGraph, close_recording, open_recording


class LaunchingStep(Protocol):
    """A step of a graph, as far as a sequence sees it."""

    @property
    def group(self) -> Group:
        """Return the group that it computes."""
        ...

    def run(self, memory: Memory, allocate: Workspace) -> None:
        """Note its launches in the recording that is open."""
        ...


@dataclass(frozen=True, slots=True)
class Moving:
    """The owner of an array that lies elsewhere in each call; `number`: of the array."""

    number: int


def ours(array: Operand[object], device: int) -> Operand[object]:
    """Return an array of ours in the memory of another library's."""
    found = DeviceArray.over(address(array.view), array.shape, array.view.dtype, device, array.value)
    return operand(found, array.name)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWorkspace(Workspace):
    """Gives values memory of a frame, as arrays of ours: launches are told their stream, and ask no library for it."""

    device: int = 0

    def __call__(self, value: Value) -> Operand[object]:
        """See `Workspace`."""
        found = Workspace.__call__(self, value)
        return found if isinstance(found.value, DeviceArray) else ours(found, self.device)

    def inner(self, plan: Plan, places: Mapping[Value, Operand[object]]) -> "DeviceWorkspace":
        """See `Workspace`."""
        return DeviceWorkspace(self.frame.inner(plan), places, repeated=True, device=self.device)


class LaunchSequence:
    """A row of steps that only launch.

    moving: the values that lie elsewhere in each call: given, returned, or made by a step of the host
    """

    def __init__(self, steps: Sequence[LaunchingStep], plan: Plan, frame: Frame, device: int) -> None:
        self.steps, self.plan, self.frame, self.device = tuple(steps), plan, frame, device
        touched = [value for step in steps for value in (*step.group.inputs, *step.group.outputs)]
        roots = dict.fromkeys(plan.root(value) for value in touched)
        self.moving = tuple(value for value in roots if value not in frame.views and value.type.bytes)
        self.launches: BoundLaunches | None = None

    def begin(self, places: Mapping[Value, int], driver: Driver, stream: int) -> None:
        """Launch, with the values that move at the addresses in `places`."""
        launches = self.launches
        if launches is None:
            launches = self.launches = self._bound(places, driver)
        launches.places[:] = [places[value] for value in self.moving]
        launches.begin(stream)

    def _bound(self, places: Mapping[Value, int], driver: Driver) -> BoundLaunches:
        """Bind the launches to the arena, and to arrays at these addresses."""
        moving: Memory = {}
        for number, value in enumerate(self.moving):
            kind = value.type
            array = DeviceArray.over(places[value], kind.shape, kind.dtype.numpy, self.device, Moving(number))
            moving[value] = operand(array, value.name)
        noted = self._noted(moving)
        launches = [step for _, step in noted.steps if isinstance(step, LaunchPlan)]
        arguments: list[MovingArgument] = []
        for number, values in enumerate(noted.keep):
            for place, value in enumerate(cast("tuple[object, ...]", values)):
                found = _origin(value)
                if found is not None:
                    arguments.append(MovingArgument(number, place, *found))
        return BoundLaunches(driver, launches, arguments, [places[value] for value in self.moving], noted.keep)

    def _noted(self, moving: Memory) -> CapturedGraph:
        """Have the steps note their launches, each with its arguments."""
        space = DeviceWorkspace(self.frame, moving, repeated=True, device=self.device)
        memory: Memory = {**moving, **{value: space(value) for value in self.frame.views}}
        with deferred_interrupts():  # a recording that stays open would swallow every later launch
            return self._recorded(memory, space)

    def _recorded(self, memory: Memory, space: DeviceWorkspace) -> CapturedGraph:
        noted = open_recording()
        try:
            for step in self.steps:
                with_roots(step.group, self.plan, memory, space)
                step.run(memory, space)
        finally:
            close_recording()
        return noted


def with_roots(group: Group, plan: Plan, memory: Memory, space: Workspace) -> None:
    """Give what a group reads, and results that are other values in another shape, the memory of their roots."""
    shared = [value for value in group.outputs if value in plan.aliases]
    for value in (*group.inputs, *shared):
        root = plan.root(value)
        memory.setdefault(root, space(root))
        memory[value] = operand(memory[root].reshaped(value.type.shape), value.name)


def _origin(value: object) -> tuple[int, int] | None:
    """Return the number of the array that moves in which an argument lies, and where in it; None: in the arena."""
    array = owner = value
    while isinstance(owner, DeviceArray):
        array, owner = owner, owner.owner
    if not isinstance(value, DeviceArray) or not isinstance(array, DeviceArray) or not isinstance(owner, Moving):
        return None
    return owner.number, value.address - array.address
