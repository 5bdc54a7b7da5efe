"""Print a plan: the kernels in order, what each reads, computes and writes, and the bytes and FLOPs it costs."""

from collections.abc import Iterator
from math import prod

from tessera.core.base.plurals import counted
from tessera.core.graph.expr import Apply, walk
from tessera.core.graph.expr import to_text as expr_text
from tessera.core.graph.graph import Node, Routine, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.infer import labels_of
from tessera.core.graph.text import index_map_text
from tessera.core.schedule.plan import CALL, Group, Plan


def plan_text(plan: Plan) -> str:
    """Return the schedule of a graph as people read it, one kernel after the other."""
    names = _PlanNames(plan)
    calls = sum(group.kind == CALL for group in plan.groups)
    also = f", {counted(calls, 'call')}" if calls else ""
    lines = [f"schedule {plan.graph.name}: {counted(len(plan.groups) - calls, 'kernel')}{also}"]
    for group in plan.groups:
        lines += _group(group, names)
    for value, source in plan.aliases.items():
        lines.append(f"  {names.of(value)} = {names.of(source)} as {value.type}, in the same memory")
    return "\n".join(lines) + "\n"


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


class _PlanNames:
    def __init__(self, plan: Plan) -> None:
        self._names: dict[Value, str] = {value: f"%{value.name}" for value in plan.graph.inputs}
        for node in plan.graph.nodes:
            for value in node.results:
                self._names[value] = f"%{value.name}" if value.name else f"%g{node.ident}"
            if len(node.results) > 1:
                self._names |= {value: f"%g{node.ident}_{number}" for number, value in enumerate(node.results)}

    def of(self, value: Value) -> str:
        return self._names.get(value, "%?")


def _group(group: Group, names: _PlanNames) -> Iterator[str]:
    if group.kind == CALL:
        yield from _call(group, names)
        return
    axes = " ".join(f"{_axis(axis)}={extent}{'*' if axis in group.reduced else ''}"
                    for axis, extent in enumerate(group.extents))  # fmt: skip
    cost = f"{_count(operations(group))}FLOP, {_count(bytes_moved(group))}B"
    yield f"  kernel {group.ident} {group.name} [{group.kind}] over {axes or 'one element'}: {cost}"
    yield f"    reads  {', '.join(f'{names.of(v)}: {v.type}' for v in group.inputs)}"
    for node in group.members:
        yield f"    {_node(node, group, names)}"
    yield f"    writes {', '.join(f'{names.of(v)}: {v.type}' for v in group.outputs)}"


def _call(group: Group, names: _PlanNames) -> Iterator[str]:
    (node,) = group.members
    library = f" ({node.routine.library})" if isinstance(node.body, Routine) and node.body.library else ""
    yield f"  call {group.ident} {group.name}{library}: {_count(bytes_moved(group))}B"
    yield f"    reads  {', '.join(f'{names.of(v)}: {v.type}' for v in group.inputs)}"
    where = f"  # line {node.span.line} {'/'.join(node.origin.composite)}" if node.span.line else ""
    yield f"    writes {', '.join(f'{names.of(v)}: {v.type}' for v in group.outputs)}{where}"


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


def _count(number: int) -> str:
    for unit, name in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number} "
