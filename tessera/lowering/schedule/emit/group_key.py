"""Tell equal groups: those that become the same program, but for names, so that one of them is emitted for all."""

from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.known_forms import Key, node_code


def group_key(group: Group) -> Key:
    """Return what a group computes, how its arrays lie along its axes, and its places in the user's text."""
    numbers: dict[Value, int] = {value: number for number, value in enumerate(group.inputs)}
    rows: list[object] = [group.kind, group.name, group.extents, group.reduced]
    rows.append(tuple([(value.type, value.span) for value in group.inputs]))
    for node in group.members:
        rows.append((node_code(node), node.span, tuple([numbers[value] for value in node.operands])))
        for value in node.results:
            numbers[value] = len(numbers)
    rows.append(tuple([(numbers[value], access) for value, access in group.loads.items()]))
    rows.append(tuple([(numbers[value], access) for value, access in group.stores.items()]))
    rows.append(tuple([(numbers[value], axes) for value, axes in group.axes.items()]))
    rows.append(tuple([(numbers[value], numbers[operand]) for value, operand in group.in_place.items()]))
    return tuple(rows)
