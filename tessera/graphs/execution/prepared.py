"""A planned graph whose steps are ready for a target: launches of kernels, calls, loops and branches, in order."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

from tessera.core.graph.graph import Graph, Value
from tessera.core.placement.devices import ON_GPU, Device
from tessera.core.placement.mesh import Mesh
from tessera.core.schedule.plan import CALL, Group, Plan
from tessera.graphs.execution.frames import FramePool, Memory, Workspace
from tessera.graphs.execution.supply import Supply
from tessera.lowering.schedule.emit.to_program import Lowered, arguments_of
from tessera.runtime.driver import driver as door
from tessera.runtime.launch.launch_events import told_launch
from tessera.runtime.launch.launchers import Launcher
from tessera.runtime.launch.on_stream import record_launch
from tessera.runtime.memory.operands import Operand
from tessera.runtime.streams.graph_capture import CaptureSession, recording
from tessera.session.compiled import Compiled

Aliases: TypeAlias = tuple[tuple[Value, Value], ...]
"""Values, each with the one that it is in another shape."""


@runtime_checkable
class StepTogether(Protocol):
    """A step that the devices of a mesh take together: a collective, or one with bodies that may hold some."""

    @property
    def group(self) -> Group:
        """Return the group that it computes."""
        ...

    def run_together(self, memories: Sequence[Memory], allocate: Sequence[Workspace], mesh: Mesh) -> None:
        """Read operands from each device's memory, and put results there."""
        ...


class Step(Protocol):
    """One step of a graph."""

    @property
    def group(self) -> Group:
        """Return the group that it computes."""
        ...

    @property
    def launches_only(self) -> bool:
        """Return whether it does nothing but launch kernels on a GPU."""
        ...

    def run(self, memory: Memory, allocate: Workspace) -> None:
        """Read operands from `memory`, and put results there."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GroupKernel:
    """One group's kernel for a target.  compiled: None for the target `interpret`."""

    group: Group
    lowered: Lowered
    compiled: Compiled | None


@dataclass(frozen=True, slots=True, eq=False)
class KernelStep:
    """Launches the kernel of a group."""

    kernel: GroupKernel
    launcher: Launcher

    @property
    def group(self) -> Group:
        """Return the group that it computes."""
        return self.kernel.group

    @property
    def launches_only(self) -> bool:
        """See `Step`."""
        return self.launcher.on_streams is not None

    def run(self, memory: Memory, allocate: Workspace) -> None:
        """Launch, or record the launch in the graph that is being captured."""
        self._allocate(memory, allocate)
        needed = self.kernel.lowered.arguments
        noted = recording()
        quick = self.launcher.quick
        on_host = noted is None and quick is not None and not CaptureSession.count and not self.launches_only
        if on_host and quick is not None:  # an array of another library would be looked at in full, for each kernel
            views = [memory[each.value].on_host(each.shape) for each in needed]
            if all(view is not None for view in views) and quick(views):
                return
        arguments = tuple([memory[each.value].reshaped(each.shape) for each in needed])
        if noted is not None:
            record_launch(noted, None, self.launcher, arguments, None)
            return
        if CaptureSession.count or quick is None or not quick(arguments):
            with told_launch(self.launcher):
                self.launcher(*arguments)

    def arguments(self, memory: Memory, allocate: Workspace) -> tuple[object, ...]:
        """Give the outputs memory, and return the arrays of a launch."""
        self._allocate(memory, allocate)
        return tuple([memory[each.value].reshaped(each.shape) for each in self.kernel.lowered.arguments])

    def _allocate(self, memory: Memory, allocate: Workspace) -> None:
        in_place = self.kernel.group.in_place
        for value in self.kernel.group.outputs:
            memory[value] = memory[in_place[value]] if value in in_place else allocate(value)


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """A graph, its plan, and a step for each group of it."""

    graph: Graph
    plan: Plan
    steps: tuple[Step, ...]

    @property
    def frames(self) -> FramePool:
        """The arenas of calls."""
        return self._frames

    @cached_property
    def _frames(self) -> FramePool:
        return FramePool(self.plan)

    @property
    def launches_only(self) -> bool:
        """Return whether all steps do nothing but launch kernels on a GPU."""
        return all(step.launches_only for step in self.steps)

    def call(
        self, inputs: Sequence[Operand[object]], supply: Supply, *, captured: bool = False
    ) -> list[Operand[object]]:
        """Run in an arena that no other call has meanwhile, and return the outputs, which are arrays of their own.

        captured: see `FramePool.lent`
        """
        with self.frames.lent(supply, captured=captured) as frame:
            return self.run(inputs, Workspace(frame))

    def run(self, inputs: Sequence[Operand[object]], allocate: Workspace) -> list[Operand[object]]:
        """Take the steps in order, and return the outputs; arrays are let go behind their last use."""
        memory: Memory = dict(zip(self.graph.inputs, inputs, strict=True))
        alias(memory, self._aliases[0])
        for (step, last_used), aliases in zip(self.ordered, self._aliases[1:], strict=True):
            step.run(memory, allocate)
            alias(memory, aliases)
            for value in last_used:
                del memory[value]
        return [memory[value] for value in self.graph.outputs]

    def run_together(
        self, inputs: Sequence[Sequence[Operand[object]]], allocate: Sequence[Workspace], mesh: Mesh,
        tell: Callable[[Group, int | None], None] | None = None,
    ) -> list[list[Operand[object]]]:  # fmt: skip
        """Take each step on every device of a mesh before the next, and return the outputs of each.

        tell: is called when a device is done with a step; with None, when all are that take it together
        """
        memories: list[Memory] = [dict(zip(self.graph.inputs, mine, strict=True)) for mine in inputs]
        for memory in memories:
            alias(memory, self._aliases[0])
        for (step, ended), together, aliases in zip(self.ordered, self._together, self._aliases[1:], strict=True):
            if together is None:
                _take(step, memories, allocate, mesh, tell)
            else:
                together.run_together(memories, allocate, mesh)
                if tell is not None:
                    tell(step.group, None)
            for memory in memories:
                alias(memory, aliases)
                for value in ended:
                    del memory[value]
        return [[memory[value] for value in self.graph.outputs] for memory in memories]

    @cached_property
    def ordered(self) -> tuple[tuple[Step, tuple[Value, ...]], ...]:
        """The steps in order, each with the values that nothing needs behind it."""
        return tuple(zip(self.steps, self._last_used, strict=True))

    @cached_property
    def _aliases(self) -> tuple[Aliases, ...]:
        """The values that are others in another shape: of inputs, then of what each step computes."""
        return aliases_after(self.plan.aliases, [self.graph.inputs, *(group.outputs for group in self.plan.groups)])

    @cached_property
    def _together(self) -> tuple["StepTogether | None", ...]:
        """The steps that all devices take together; None for others.  Python takes 20 us to look at a protocol."""
        return tuple(step if isinstance(step, StepTogether) else None for step in self.steps)

    @cached_property
    def _last_used(self) -> list[tuple[Value, ...]]:
        return _last_uses(self.plan.groups, self.graph.outputs)


def _on(device: Device) -> AbstractContextManager[None]:
    """Let work go to a device."""
    return door.driver().inside(device.index) if device.kind == ON_GPU else nullcontext()


def _take(
    step: Step, memories: Sequence[Memory], allocate: Sequence[Workspace], mesh: Mesh,
    tell: Callable[[Group, int | None], None] | None,
) -> None:  # fmt: skip
    for rank, (memory, workspace) in enumerate(zip(memories, allocate, strict=True)):
        with _on(mesh.devices[rank]):
            step.run(memory, workspace)
        if tell is not None:
            tell(step.group, rank)


def _last_uses(groups: Sequence[Group], kept: Sequence[Value]) -> list[tuple[Value, ...]]:
    """Return the values that each group is the last one to use, but for those that are kept."""
    last: dict[Value, int] = {}
    for number, group in enumerate(groups):
        used = [*group.inputs, *group.outputs]
        if group.kind != CALL:
            used = [*(argument.value for _, argument in arguments_of(group)), *group.in_place.values()]
        last.update(dict.fromkeys(used, number))
    return [tuple(value for value, at in last.items() if at == n and value not in kept) for n in range(len(groups))]


def aliases_after(aliases: Mapping[Value, Value], computed: Sequence[Sequence[Value]]) -> tuple[Aliases, ...]:
    """Return for each of some steps the aliases, each after its source, that it gives a place to."""
    waiting, stored = dict(aliases), set[Value]()
    after_steps: list[Aliases] = []
    for values in computed:
        stored.update(values)
        ready: list[tuple[Value, Value]] = []
        while pairs := [pair for pair in waiting.items() if pair[1] in stored]:
            ready += pairs
            for value, _ in pairs:
                stored.add(value)
                del waiting[value]
        after_steps.append(tuple(ready))
    return tuple(after_steps)


def alias(memory: Memory, aliases: Aliases) -> None:
    """Give values that are others in another shape the place of these."""
    for value, source in aliases:
        memory[value] = memory[source].alike(value.type.shape, value.name)
