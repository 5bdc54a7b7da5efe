"""Steps that run bodies: loops, whiles and branches, whose kernels are compiled once and launched by the host."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadCapture
from tessera.core.graph.bodies import BRANCH, LOOP, parts, steps
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, Tensor, Value
from tessera.core.placement.mesh import Mesh
from tessera.core.schedule.plan import Group
from tessera.graphs.execution.frames import Memory, Workspace
from tessera.graphs.execution.prepared import PreparedGraph
from tessera.runtime.arrays.interop import library_of
from tessera.runtime.arrays.pointers import address
from tessera.runtime.memory.device_arrays import device_of
from tessera.runtime.memory.operands import Operand, operand
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.streams.graph_capture import HostCall, recording

Arrays: TypeAlias = Sequence[Operand[object]]


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A body that is ready.  copier: gives the graph that copies one array of a type."""

    prepared: PreparedGraph
    copier: Callable[[Tensor], PreparedGraph]

    @property
    def launches_only(self) -> bool:
        """See `Step`."""
        return self.prepared.launches_only

    def run(self, inputs: Arrays, places: Arrays, allocate: Workspace) -> None:
        """Compute the outputs into `places`, with memory of the run around the body for everything else."""
        for made, place in zip(self.prepared.run(inputs, self._inner(places, allocate)), places, strict=True):
            self.copy(made, place, allocate)

    def run_together(
        self, inputs: Sequence[Arrays], places: Sequence[Arrays], allocate: Sequence[Workspace], mesh: Mesh
    ) -> None:
        """Compute the outputs of every device of a mesh, step by step together."""
        inner = [self._inner(*each) for each in zip(places, allocate, strict=True)]
        for made, mine, workspace in zip(
            self.prepared.run_together(inputs, inner, mesh), places, allocate, strict=True
        ):
            for each, place in zip(made, mine, strict=True):
                self.copy(each, place, workspace)

    def _inner(self, places: Arrays, allocate: Workspace) -> Workspace:
        prepared = self.prepared
        mine: Memory = {}
        for value, place in zip(prepared.graph.outputs, places, strict=True):
            root = prepared.plan.root(value)
            mine[root] = operand(place.reshaped(root.type.shape), place.name)
        return allocate.inner(prepared.plan, mine)

    def copy(self, made: Operand[object], place: Operand[object], allocate: Workspace) -> None:
        """Copy what a routine made in memory of its own, or what is an input, to its place."""
        if not place.view.size or address(made.view) == address(place.view):
            return
        copier = self.copier(Tensor(place.dtype, place.shape))
        (output,) = copier.graph.outputs
        root = copier.plan.root(output)
        target = operand(place.reshaped(root.type.shape), place.name)
        copier.run([made], allocate.inner(copier.plan, {root: target}))


def _is_at(one: Operand[object], other: Operand[object]) -> bool:
    """Return whether two arrays lie at the same place."""
    return bool(one.view.size) and address(one.view) == address(other.view)


def _results(node: Node, group: Group, memory: Memory, allocate: Workspace) -> list[Operand[object]]:
    # What is in place already is a carry that the loop changes where it begins.
    made = [memory[value] if value in memory else allocate(value) for value in node.results]
    memory.update((value, each) for value, each in zip(node.results, made, strict=True) if value in group.outputs)
    return made


@dataclass(frozen=True, slots=True, eq=False)
class LoopStep:
    """Runs a body a known number of times.

    spares: values for the carries of every other trip, but for those that the body changes where they lie
    """

    group: Group
    body: Body
    spares: tuple[Value, ...]

    @property
    def launches_only(self) -> bool:
        """See `Step`."""
        return self.body.launches_only

    def run(self, memory: Memory, allocate: Workspace) -> None:
        """Launch the kernels of every trip."""
        trips = _Trips(self, memory, allocate)
        for left, number in trips.order:
            self.body.run(*trips.taken(left, number), allocate)

    def run_together(self, memories: Sequence[Memory], allocate: Sequence[Workspace], mesh: Mesh) -> None:
        """Take each trip on every device before the next."""
        devices = [_Trips(self, *each) for each in zip(memories, allocate, strict=True)]
        for left, number in devices[0].order:
            taken = [each.taken(left, number) for each in devices]
            self.body.run_together([read for read, _ in taken], [written for _, written in taken], allocate, mesh)


class _Trips:
    """The trips of a loop on one device: carries lie in two sets of arrays in turn, slices are read in place.

    order: of each trip how many are left behind it, and the number of its slices
    """

    def __init__(self, step: LoopStep, memory: Memory, allocate: Workspace) -> None:
        (node,) = step.group.members
        self.given = parts(node, [memory[value] for value in node.operands])
        self.results = _results(node, step.group, memory, allocate)
        self.carries: Arrays = self.given.carries
        slices = steps(node)
        pairs = zip(self.results, self.carries, step.spares, strict=False)
        alone = len(slices) == 1
        spares = [made if alone or _is_at(made, begin) else allocate(spare) for made, begin, spare in pairs]
        self.turns = [self.results[: len(self.carries)], spares]
        self.order = tuple(zip(range(len(slices) - 1, -1, -1), slices, strict=True))

    def taken(self, left: int, number: int) -> tuple[Arrays, Arrays]:
        """Return what the next trip reads, and where it writes; the last one writes the results."""
        slices = [slice_of(each, number) for each in self.given.stacked]
        read = [*self.given.constants, *self.carries, *slices]
        self.carries = self.turns[left % 2]
        return read, [*self.carries, *(slice_of(each, number) for each in self.results[len(self.carries) :])]


@dataclass(frozen=True, slots=True, eq=False)
class WhileStep:
    """Runs a body while a condition holds, which the host reads before every trip."""

    group: Group
    condition: Body
    body: Body
    spares: tuple[Value, ...]

    @property
    def launches_only(self) -> bool:
        """See `Step`."""
        return False

    def run(self, memory: Memory, allocate: Workspace) -> None:
        """Launch the kernels of the condition and of the body in turn; in a captured graph, whenever it is launched."""
        _run_or_capture(self, self.group, memory, allocate)

    def take(self, operands: Arrays, results: Arrays, allocate: Workspace) -> None:
        """Go through the loop."""
        (node,) = self.group.members
        given = parts(node, operands)
        turns = (results, [allocate(value) for value in self.spares])
        carries: Arrays = given.carries
        trip = 0
        while self._holds([*given.constants, *carries], node, allocate):
            self.body.run([*given.constants, *carries], turns[trip % 2], allocate)
            carries = turns[trip % 2]
            trip += 1
        for made, place in zip(carries, results, strict=True):
            self.body.copy(made, place, allocate)

    def run_together(self, memories: Sequence[Memory], allocate: Sequence[Workspace], mesh: Mesh) -> None:
        """Go through the loop on all devices, which decide alike."""
        (node,) = self.group.members
        given = [parts(node, [memory[value] for value in node.operands]) for memory in memories]
        results = [_results(node, self.group, *each) for each in zip(memories, allocate, strict=True)]
        turns = (results, [[workspace(value) for value in self.spares] for workspace in allocate])
        carries: Sequence[Arrays] = [each.carries for each in given]
        trip, condition = 0, self.condition.prepared
        while True:
            inputs = [[*each.constants, *mine] for each, mine in zip(given, carries, strict=True)]
            inner = [workspace.inner(condition.plan, {}) for workspace in allocate]
            if not truth(condition.run_together(inputs, inner, mesh)[0][0], node):
                break
            carries = turns[trip % 2]
            self.body.run_together(inputs, carries, allocate, mesh)
            trip += 1
        for made, places, workspace in zip(carries, results, allocate, strict=True):
            for each, place in zip(made, places, strict=True):
                self.body.copy(each, place, workspace)

    def _holds(self, given: Arrays, node: Node, allocate: Workspace) -> bool:
        condition = self.condition.prepared
        (flag,) = condition.run(given, allocate.inner(condition.plan, {}))
        return truth(flag, node)


@dataclass(frozen=True, slots=True, eq=False)
class BranchStep:
    """Runs one of two bodies, by a bool that the host reads."""

    group: Group
    holds: Body
    fails: Body

    @property
    def launches_only(self) -> bool:
        """See `Step`."""
        return False

    def run(self, memory: Memory, allocate: Workspace) -> None:
        """Launch the kernels of the body that is chosen; in a captured graph, whenever it is launched."""
        _run_or_capture(self, self.group, memory, allocate)

    def take(self, operands: Arrays, results: Arrays, allocate: Workspace) -> None:
        """Choose, and run."""
        (node,) = self.group.members
        flag, *given = operands
        chosen = self.holds if truth(flag, node) else self.fails
        chosen.run(given, results, allocate)

    def run_together(self, memories: Sequence[Memory], allocate: Sequence[Workspace], mesh: Mesh) -> None:
        """Choose once for all devices, and run."""
        (node,) = self.group.members
        given = [[memory[value] for value in node.operands] for memory in memories]
        results = [_results(node, self.group, *each) for each in zip(memories, allocate, strict=True)]
        chosen = self.holds if truth(given[0][0], node) else self.fails
        chosen.run_together([mine[1:] for mine in given], results, allocate, mesh)


class _Deciding(Protocol):
    """A step that reads values to know what to launch."""

    def take(self, operands: Arrays, results: Arrays, allocate: Workspace) -> None:
        """Read, and launch."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CapturedDecision:
    """A step in a captured graph that reads values, on the same arrays each time."""

    step: _Deciding
    operands: Arrays
    results: Arrays
    allocate: Workspace

    def run(self) -> None:
        """Decide anew."""
        self.step.take(self.operands, self.results, self.allocate)

    def cancel(self) -> None:
        """Do nothing: its launches end by themselves."""


def _run_or_capture(step: _Deciding, group: Group, memory: Memory, allocate: Workspace) -> None:
    """Take a step, or note in the graph that is being captured that the host takes it there."""
    (node,) = group.members
    operands = [memory[value] for value in node.operands]
    results = _results(node, group, memory, allocate)
    noted = recording()
    if noted is None:
        step.take(operands, results, allocate)
    else:
        noted.add(None, HostCall(node.op, CapturedDecision(step, operands, results, allocate)))


def truth(flag: Operand[object], node: Node) -> bool:
    """Read a bool; a GPU is waited for.  Raises BadCapture inside of a capture, whose launches have not run."""
    if recording() is not None:
        raise at_call(BadCapture(
            f"what {node.op} does depends on a value that the host reads, and cannot be part of a captured graph",
            hint="leave out capture_graph=True, or use op.where or op.scan",
        ))  # fmt: skip
    if isinstance(flag.value, DeviceArray):
        return bool(flag.value.get())
    return bool(flag.value) if flag.on_device else bool(flag.view)


def slice_of(array: Operand[object], number: int) -> Operand[object]:
    """Return one slice along the first axis, in place."""
    value, shape = array.value, array.shape[1:]
    if library_of(value) in ("torch", "cupy"):
        taken = array.shapely[(number,)]
        return operand(taken, array.name)
    if not array.on_device:
        return operand(array.view[number, ...], array.name)
    each = Tensor(array.dtype, shape).bytes
    start = address(array.view)
    device = device_of([value]) or 0 if each else 0
    part = DeviceArray.over(start + number * each, shape, array.view.dtype, device, value)
    return operand(part, array.name)


def copy_of(kind: Tensor) -> Graph:
    """Return the graph that copies an array."""
    builder, given = GraphBuilder(), Value(kind, "x")
    return builder.finish("copy", [given], [builder.copy(given)])


def body_step(group: Group, bodies: Sequence[Body]) -> LoopStep | WhileStep | BranchStep:
    """Return the step of a group that is one node with bodies."""
    (node,) = group.members
    if node.op == BRANCH:
        holds, fails = bodies
        return BranchStep(group, holds, fails)
    carries = parts(node, node.operands).carries
    spares = tuple(Value(value.type, value.name) for value in carries)
    if node.op == LOOP:
        (body,) = bodies
        return LoopStep(group, body, spares)
    condition, body = bodies
    return WhileStep(group, condition, body, spares)


Placement: TypeAlias = Sequence[tuple[Value | None, bool]]
"""For each array of a body the value outside that it is, or is a part of; None: memory of its own.

With each, whether parts of it begin at multiples of 16 bytes where it does.
"""


def arrays_of_body(node: Node, number: int) -> tuple[Placement, Placement]:
    """Return where the inputs and the outputs of one of a node's bodies lie."""
    if node.op == BRANCH:
        return [(value, True) for value in node.operands[1:]], [(value, True) for value in node.results]
    given = parts(node, node.operands)
    count = len(given.carries)
    inputs = [*((value, True) for value in (*given.constants, *given.carries)), *map(_in_slices, given.stacked)]
    if node.op == LOOP:
        return inputs, [*((v, True) for v in node.results[:count]), *map(_in_slices, node.results[count:])]
    return inputs, [(value, True) for value in node.results] if number else [(None, True)]


def _in_slices(value: Value) -> tuple[Value, bool]:
    return value, Tensor(value.type.dtype, value.type.shape[1:]).bytes % 16 == 0
