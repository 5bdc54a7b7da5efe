"""Arrays of a captured function over time: from which kernel to which each is needed, and how many bytes that is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import Group, Plan
from tessera.lowering.autodiff.peak_memory import peak_memory
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
    """The bytes that are alive while a kernel runs, by the kinds of arrays."""

    kernel: str
    arguments: int
    intermediates: int
    results: int
    lines: tuple[int, ...]

    @property
    def total(self) -> int:
        """All of them."""
        return self.arguments + self.intermediates + self.results


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
    def peak_bytes(self) -> int:
        """The greatest number of bytes that are alive at once; without kernels, that of the arguments."""
        arguments = sum(each.bytes for each in self.arrays if each.kind == ARGUMENT)
        return max((moment.total for moment in self.moments), default=arguments)


def memory_model(captured: CapturedGraph) -> MemoryModel:
    """Return the lifetimes of a captured function's arrays."""
    plan = captured.plan
    arrays = tuple(_lifetimes(captured, plan))
    moments = tuple(_moment(captured, arrays, group) for group in plan.groups)
    unfused = peak_memory(captured.executable.graph)
    return MemoryModel(captured.name, captured.selection, arrays, moments, unfused, plan.arena_bytes)


def _moment(captured: CapturedGraph, arrays: tuple[Lifetime, ...], group: Group) -> AliveBytes:
    arguments, intermediates, results = (_alive(arrays, kind, group.ident) for kind in KINDS)
    lines = sorted({span.line for node in group.members for span in captured.ancestry.spans(node)})
    return AliveBytes(f"{group.ident} {group.name}", arguments, intermediates, results, tuple(lines))


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
