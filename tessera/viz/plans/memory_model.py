"""Arrays of a captured function over time: from which kernel to which each is needed, and how many bytes that is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import Group, Plan
from tessera.graphs.executable import Executable
from tessera.lowering.autodiff.peak_memory import peak_memory
from tessera.runtime.launch.phases import launch_bytes
from tessera.viz.operators.captured import CapturedGraph
from tessera.viz.operators.names import value_names

ARGUMENT: Final = "argument"
INTERMEDIATE: Final = "intermediate"
RESULT: Final = "result"
KINDS: Final = (ARGUMENT, INTERMEDIATE, RESULT)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An array.

    made: the kernel that writes it, -1 for arguments; last: the last kernel that it is needed for
    reads: the kernels that read it; lines, ops: of the node that makes it
    offset: its place in the arena; None for arrays of the caller's, and for what routines return
    """

    name: str
    type: str
    bytes: int
    kind: str
    made: int
    last: int
    reads: tuple[int, ...]
    lines: tuple[int, ...]
    ops: tuple[int, ...]
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class AliveBytes:
    """The bytes that are alive while a kernel runs, by the kinds of arrays.

    launch: what its launch takes by itself, see `launch_bytes`
    """

    kernel: str
    arguments: int
    intermediates: int
    results: int
    lines: tuple[int, ...]
    launch: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.arguments + self.intermediates + self.results + self.launch


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """Memory over time.

    arrays: arguments, then in the order in which they are made; moments: one a kernel
    unfused: the peak node by node, without fusion; arena: the bytes that hold all intermediates
    """

    name: str
    group: str
    arrays: tuple[Lifetime, ...]
    moments: tuple[AliveBytes, ...]
    unfused: int
    arena: int = 0

    @property
    def peak(self) -> int:
        """The number of the kernel at which most is alive, the first one of several; 0 without kernels."""
        totals = [moment.total for moment in self.moments]
        return totals.index(max(totals)) if totals else 0

    @property
    def launch_bytes(self) -> int:
        """The most that one launch takes by itself."""
        return max((moment.launch for moment in self.moments), default=0)

    @property
    def peak_bytes(self) -> int:
        """The greatest number of bytes that are alive at once; without kernels, that of the arguments."""
        arguments = sum(each.bytes for each in self.arrays if each.kind == ARGUMENT)
        return max((moment.total for moment in self.moments), default=arguments)


def memory_model(captured: CapturedGraph) -> MemoryModel:
    """Return the lifetimes of a captured function's arrays."""
    plan = captured.plan
    arrays = tuple(_lifetimes(captured, plan))
    taken = _launch_bytes(captured)
    moments = tuple(_moment(captured, arrays, group, taken.get(group, 0)) for group in plan.groups)
    unfused = peak_memory(captured.executable.graph)
    return MemoryModel(captured.name, captured.selection, arrays, moments, unfused, plan.arena_bytes)


def _launch_bytes(captured: CapturedGraph) -> Mapping[Group, int]:
    """Return what the launch of each group takes by itself; of a loop or a branch, the most of those in its bodies.

    Only GPUs copy arrays before a launch: for other targets nothing is compiled.
    """
    target = captured.target()
    if not target.kind.on_gpu:
        return {}
    owner = dict(_owners(captured.executable))
    taken: dict[Group, int] = {}
    for kernel in captured.executable.kernels(target, captured.rows_aligned):
        compiled = kernel.compiled
        if compiled is not None:
            size = launch_bytes(compiled.artifacts, compiled.workspaces, kernel.lowered.arguments)
            group = owner[kernel.group]
            taken[group] = max(size, taken.get(group, 0))
    return taken


def _owners(executable: Executable) -> Iterator[tuple[Group, Group]]:
    """Yield each group of a plan, and of the bodies in it at any depth, with the group of the plan that runs it."""
    for group in executable.plan.groups:
        yield group, group
        for node in group.members:
            for body in executable.bodies.get(node, ()):
                yield from ((inner, group) for inner, _ in _owners(body))


def _moment(captured: CapturedGraph, arrays: tuple[Lifetime, ...], group: Group, launch: int) -> AliveBytes:
    arguments, intermediates, results = (_alive(arrays, kind, group.ident) for kind in KINDS)
    lines = sorted({span.line for node in group.members for span in captured.ancestry.spans(node)})
    return AliveBytes(f"{group.ident} {group.name}", arguments, intermediates, results, tuple(lines), launch)


def _alive(arrays: tuple[Lifetime, ...], kind: str, kernel: int) -> int:
    return sum(each.bytes for each in arrays if each.kind == kind and each.made <= kernel <= each.last)


def _lifetimes(captured: CapturedGraph, plan: Plan) -> Iterator[Lifetime]:
    names, end = value_names(plan.graph), max(0, len(plan.groups) - 1)
    reads: dict[Value, list[int]] = {}
    for group in plan.groups:
        for value in dict.fromkeys(plan.root(each) for each in group.inputs):
            reads.setdefault(value, []).append(group.ident)
    results = {plan.root(value) for value in plan.graph.outputs}
    places = {each.value: each.offset for each in plan.buffers}
    for value in plan.graph.inputs:
        read = tuple(reads.get(value, ()))
        yield Lifetime(names[value], str(value.type), value.type.bytes, ARGUMENT, -1, end, read, (), ())
    for group in plan.groups:
        for value in group.outputs:
            node, read = plan.graph.producers[value], tuple(reads.get(value, ()))
            lines = tuple(span.line for span in captured.ancestry.spans(node))
            result = value in results
            last = end if result else max(read, default=group.ident)
            kind = RESULT if result else INTERMEDIATE
            yield Lifetime(names[value], str(value.type), value.type.bytes, kind, group.ident, last, read, lines,
                           captured.ancestry.numbers(node), places.get(value))  # fmt: skip
