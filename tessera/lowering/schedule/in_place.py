"""Write results where their operands lie, where these are read for the last time, element by element.

    before: kernel 2 [maps]: reads %s: bf16[1024, 32000], writes %d: bf16[1024, 32000]
    after:  the same, and %d is in the memory of %s

What is written depends on what was there, so a block is read before it is written, and no other block is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import MAPS, PRODUCT, ROWS, Group, Plan

WORTH: Final = 2**20
"""Bytes of an array from which on its memory is used again."""


def in_place(plan: Plan, donated: Mapping[Value, Value]) -> Plan:
    """Return the plan with results in the memory of operands.

    donated: inputs whose memory the caller gives away, each with the output that it is for
    """
    last = _last_readers(plan)
    kept = {_root(plan, value) for value in plan.graph.outputs}
    groups: list[Group] = []
    for group in plan.groups:
        places: dict[Value, Value] = {}
        for value in group.outputs:
            for operand in group.inputs:
                if operand in donated:
                    free = donated[operand] is value
                else:
                    free = operand not in plan.graph.inputs and not {operand, value} & kept
                alone = last.get(operand) == group.ident and operand not in places.values()
                if free and alone and value not in places and _same_elements(group, operand, value):
                    places[value] = operand
        groups.append(replace(group, in_place=places) if places else group)
    return replace(plan, groups=tuple(groups))


def _same_elements(group: Group, operand: Value, value: Value) -> bool:
    """Return whether a kernel reads nothing of an array but the elements of the block that it writes."""
    if group.kind not in (MAPS, PRODUCT, ROWS) or operand.type != value.type or value.type.bytes < WORTH:
        return False
    arrays = {node.result: node.operands[0] for node in group.members if node.op == "view"}
    reads = [access for each, access in group.loads.items() if arrays.get(each, each) is operand]
    factors = {each for node in group.members if node.op == "contract" for each in node.operands}
    direct = any(arrays.get(each, each) is operand for each in factors)
    same = bool(reads) and all(access == group.stores[value] for access in reads)
    return same and not direct and _depends(group, value, operand)


def _depends(group: Group, value: Value, operand: Value) -> bool:
    """Return whether a value of a kernel is computed from an array."""
    makers = {each: node for node in group.members for each in node.results}
    stack, seen = [value], set[Value]()
    while stack:
        here = stack.pop()
        if here is operand:
            return True
        if here in makers and here not in seen:
            seen.add(here)
            stack += makers[here].operands
    return False


def _last_readers(plan: Plan) -> Mapping[Value, int]:
    """Return the last kernel that reads each array that is not also read or returned in another shape."""
    last = {value: group.ident for group in plan.groups for value in group.inputs}
    shared = {*plan.aliases.values(), *plan.aliases}
    return {value: number for value, number in last.items() if value not in shared}


def _root(plan: Plan, value: Value) -> Value:
    while value in plan.aliases:
        value = plan.aliases[value]
    return value


def donated_carries(plan: Plan, operands: Sequence[Value], carries: Collection[Value]) -> list[Value]:
    """Return the carries whose memory a loop may use: made by a kernel for this loop alone."""
    users = plan.graph.users
    made = {value for group in plan.groups for value in group.outputs}
    taken = {*plan.aliases, *plan.aliases.values(), *plan.graph.outputs}
    return [
        value for value in carries
        if value in made and value not in taken and len(users[value]) == 1 and list(operands).count(value) == 1
    ]  # fmt: skip
