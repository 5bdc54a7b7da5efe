"""Print a plan: the kernels in order, what each reads, computes and writes, and the bytes and FLOPs it costs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import cast

from tessera.core.base.plurals import counted, short_bytes, short_count
from tessera.core.graph.expr import Apply, walk
from tessera.core.graph.expr import to_text as expr_text
from tessera.core.graph.graph import Node, Routine, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.infer import labels_of
from tessera.core.graph.text import index_map_text
from tessera.core.schedule.plan import CALL, Group, Plan


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A line of a schedule's text, with the kernel and the node that it is about."""

    text: str
    group: Group | None = None
    node: Node | None = None


def plan_text(plan: Plan) -> str:
    """Return the schedule of a graph as people read it, one kernel after the other."""
    return "\n".join(line.text for line in plan_lines(plan)) + "\n"


def plan_lines(plan: Plan, known: Mapping[Value, str] | None = None) -> Iterator[PlanLine]:
    """Yield the lines of the text.  known: names of values; without, inputs have theirs, and others numbers."""
    names = _PlanNames(plan, known or {})
    collectives = sum(_is_collective(group) for group in plan.groups)
    calls = sum(group.kind == CALL for group in plan.groups) - collectives
    kernels = len(plan.groups) - calls - collectives
    counts = ((kernels, "kernel"), (calls, "call"), (collectives, "collective"))
    listed = ", ".join(counted(count, what) for count, what in counts if count or what == "kernel")
    yield PlanLine(f"schedule {plan.graph.name}: {listed}")
    for group in plan.groups:
        yield from _group(group, names)
    for value, source in plan.aliases.items():
        text = f"  {names.of(value)} = {names.of(source)} as {value.type}, in the same memory"
        yield PlanLine(text, None, plan.graph.producers.get(value))
    yield from _arena(plan, names)


def bytes_moved(group: Group) -> int:
    """Return the bytes that a kernel reads and writes, each array once."""
    return sum(value.type.bytes for value in (*group.inputs, *group.outputs))


def operations(group: Group) -> int:
    """Return the floating-point operations of a kernel; those of maps count one each."""
    return sum(flops(node) for node in group.members)


def flops(node: Node) -> int:
    """Return the floating-point operations of a node."""
    if node.op == "contract":
        extents: dict[int, int] = {}
        for operand, labels in zip(node.operands, labels_of(node.attributes["labels"]), strict=True):
            extents.update(zip(labels, operand.type.shape, strict=True))
        return 2 * prod(extents.values())
    if node.op == "reduce":
        return node.operands[0].type.size
    if node.op == "map":
        steps = sum(isinstance(each, Apply) and each.opcode != "cast" for each in walk(node.expr))
        return steps * node.result.type.size
    return 0


def _is_collective(group: Group) -> bool:
    return group.kind == CALL and group.members[0].op == "collective"


class _PlanNames:
    def __init__(self, plan: Plan, known: Mapping[Value, str]) -> None:
        self._names: dict[Value, str] = {value: f"%{value.name}" for value in plan.graph.inputs}
        for node in plan.graph.nodes:
            for value in node.results:
                self._names[value] = f"%{value.name}" if value.name else f"%g{node.ident}"
            if len(node.results) > 1:
                self._names |= {value: f"%g{node.ident}_{number}" for number, value in enumerate(node.results)}
        self._names.update(known)

    def of(self, value: Value) -> str:
        return self._names.get(value, "%?")


def _group(group: Group, names: _PlanNames) -> Iterator[PlanLine]:
    if group.kind == CALL:
        yield from _call(group, names)
        return
    axes = " ".join(f"{_axis(axis)}={extent}{'*' if axis in group.reduced else ''}"
                    for axis, extent in enumerate(group.extents))  # fmt: skip
    cost = f"{short_count(operations(group))}FLOP, {short_bytes(bytes_moved(group))}"
    yield PlanLine(f"  kernel {group.ident} {group.name} [{group.kind}] over {axes or 'one element'}: {cost}", group)
    yield PlanLine(f"    reads  {', '.join(f'{names.of(v)}: {v.type}' for v in group.inputs)}", group)
    for node in group.members:
        yield PlanLine(f"    {_node(node, group, names)}", group, node)
    yield PlanLine(f"    writes {', '.join(f'{names.of(v)}: {v.type}' for v in group.outputs)}", group)


def _arena(plan: Plan, names: _PlanNames) -> Iterator[PlanLine]:
    """Yield the places of what passes between the kernels."""
    if plan.buffers:
        yield PlanLine(f"  arena: {short_bytes(plan.arena_bytes)}")
    for each in plan.buffers:
        first, last = each.alive
        where = f"at {each.offset}" if each.replaces is None else f"in place of {names.of(each.replaces)}"
        text = f"    {names.of(each.value)} {where}, {short_bytes(each.value.type.bytes)}, kernels {first} to {last}"
        yield PlanLine(text)


def _call(group: Group, names: _PlanNames) -> Iterator[PlanLine]:
    (node,) = group.members
    library = f" ({node.routine.library})" if isinstance(node.body, Routine) and node.body.library else ""
    what = f"call {group.ident} {group.name}{library}"
    if _is_collective(group):
        given = group.members[0].attributes
        over = ", ".join(map(str, cast("tuple[str, ...]", given["axes"])))
        what = f"collective {group.ident} {given['kind']} over {over}"
    yield PlanLine(f"  {what}: {short_bytes(bytes_moved(group))}", group)
    yield PlanLine(f"    reads  {', '.join(f'{names.of(v)}: {v.type}' for v in group.inputs)}", group)
    where = f"  # line {node.span.line} {'/'.join(node.origin.composite)}" if node.span.line else ""
    written = ", ".join(f"{names.of(v)}: {v.type}" for v in group.outputs)
    yield PlanLine(f"    writes {written}{where}", group, node)


def _node(node: Node, group: Group, names: _PlanNames) -> str:
    operands = [names.of(value) + _index(group, value) for value in node.operands]
    head = f"{names.of(node.result)}{_index(group, node.result)} = "
    if node.op == "map":
        text = head + expr_text(node.expr, operands)
    elif node.op == "contract":
        text = f"{head}sum {' * '.join(operands)}"
    elif node.op == "reduce":
        text = f"{head}{node.attributes['kind']} {operands[0]}"
    elif isinstance(node.body, IndexMap):
        text = f"{head}view {operands[0]} {index_map_text(node.body)}"
    else:
        text = f"{head}{node.op} {', '.join(operands)}"
    where = f"  # line {node.span.line}" if node.span.line else ""
    composite = f" {'/'.join(node.origin.composite)}" if node.origin.composite else ""
    return f"{text}{where}{composite if where else ''}"


def _index(group: Group, value: Value) -> str:
    axes = group.axes.get(value)
    return "" if axes is None else f"[{', '.join(map(_axis, axes))}]"


def _axis(axis: int) -> str:
    return chr(ord("i") + axis) if axis < 18 else f"a{axis}"
