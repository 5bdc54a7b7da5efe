"""Recognise totals that are replaced where they are 0, as divisors are: `select(l == 0, 1, l)`."""

from collections.abc import Mapping
from typing import cast

from tessera.core.graph.expr import Apply, Argument, Expr, Literal
from tessera.core.graph.graph import Node, Value
from tessera.core.graph.index_maps import is_reshape


def guarded_total(node: Node, producers: Mapping[Value, Node]) -> Value | None:
    """Return the operand of a map that is its result but where it is 0; None for any other node.

    The condition may be a value of its own, and its operand the total in another shape.
    """
    body, operands = node.body, node.operands
    if node.op != "map" or not isinstance(body, Apply) or body.opcode != "select":
        return None
    condition, instead, other = body.operands
    if not isinstance(instead, Literal) or instead.value == 0 or not isinstance(other, Argument):
        return None
    total = operands[other.number]
    if isinstance(condition, Argument):
        maker = producers.get(source_of(operands[condition.number], producers))
        if maker is None or maker.op != "map":
            return None
        condition, operands = cast("Expr", maker.body), maker.operands
    if not isinstance(condition, Apply) or (condition.opcode, condition.predicate) != ("cmp", "eq"):
        return None
    one, zero = condition.operands
    same = isinstance(one, Argument) and source_of(operands[one.number], producers) is source_of(total, producers)
    return total if same and isinstance(zero, Literal) and zero.value == 0 else None


def source_of(value: Value, producers: Mapping[Value, Node]) -> Value:
    """Return what a value is, element by element, in another shape."""
    while (maker := producers.get(value)) is not None and maker.op == "view":
        (operand,) = maker.operands
        if not is_reshape(maker.index_map, operand.type.shape):
            break
        value = operand
    return value
