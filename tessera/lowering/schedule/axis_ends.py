"""Find what is absent behind the end of a loop's axis: elements that are loaded, and what is made of them."""

from collections.abc import Collection, Mapping, Sequence

from tessera.core.graph.expr import Apply, Argument, Expr, Literal, Number
from tessera.core.graph.graph import Node, Value


def read_along(nodes: Sequence[Node], axis: int, axes: Mapping[Value, tuple[int, ...]]) -> set[Value]:
    """Return the values with elements from memory along an axis: behind its end these are absent, and no others."""
    made = {value for node in nodes for value in node.results}
    found = {value for value, mine in axes.items() if value not in made and axis in mine}
    for node in nodes:
        if node.op == "view":
            places = {term.axis for affine in node.index_map.axes for term in affine.terms}
            along = any(axes[node.result][place] == axis for place in places)
        else:
            along = axis in axes.get(node.result, ()) and any(operand in found for operand in node.operands)
        if along:
            found.add(node.result)
    return found


def ends(expr: Expr, absent: Collection[int], neutral: Number) -> bool:
    """Return whether `expr` is absent, or `neutral`, where the arguments `absent` are.

    A `select` is what it chooses: of a mask and a number there may be the number.
    """
    if isinstance(expr, Argument):
        return expr.number in absent
    if isinstance(expr, Literal):
        return expr.value == neutral
    if expr.opcode == "select":
        condition, *sides = expr.operands
        return _absent(condition, absent) or all(ends(side, absent, neutral) for side in sides)
    return _absent(expr, absent)


def _absent(expr: Expr, absent: Collection[int]) -> bool:
    if isinstance(expr, Argument):
        return expr.number in absent
    if not isinstance(expr, Apply):
        return False
    if expr.opcode == "select":
        condition, *sides = expr.operands
        return _absent(condition, absent) or all(_absent(side, absent) for side in sides)
    return any(_absent(operand, absent) for operand in expr.operands)
