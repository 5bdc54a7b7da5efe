"""Find what is absent behind the end of a loop's axis: elements that are loaded, and what is made of them."""

from collections.abc import Collection, Mapping, Sequence

from tessera.core.graph.expr import Apply, Argument, Expr, Literal, Number
from tessera.core.graph.graph import Node, Value
from tessera.core.graph.index_maps import Affine


def read_along(nodes: Sequence[Node], axis: int, axes: Mapping[Value, tuple[int, ...]]) -> set[Value]:
    """Return the values with elements from memory along an axis: behind its end these are absent, and no others.

    A part of an array is absent there where the array ends with it; `x[:50]` of 80 elements is followed by 30 others.
    """
    made = {value for node in nodes for value in node.results}
    found = {value for value, mine in axes.items() if value not in made and axis in mine}
    for node in nodes:
        if node.op == "view":
            (operand,), places = node.operands, axes[node.result]
            along = any(
                ends_outside(affine, size, node.result.type.shape, place)
                for affine, size in zip(node.index_map.axes, operand.type.shape, strict=True)
                for place, mine in enumerate(places) if mine == axis
            )  # fmt: skip
        else:
            along = axis in axes.get(node.result, ()) and any(operand in found for operand in node.operands)
        if along:
            found.add(node.result)
    return found


def ends_outside(affine: Affine, size: int, shape: Sequence[int], axis: int) -> bool:
    """Return whether an index into `size` elements is outside of them wherever axis `axis` of `shape` has ended."""
    mine = [term for term in affine.terms if term.axis == axis]
    if len(mine) != 1 or (mine[0].divisor, mine[0].modulus) != (1, 0):
        return False
    (term,) = mine
    reach = [each.scale * ((shape[each.axis] - 1) // each.divisor) for each in affine.terms if each.axis != axis]
    first = affine.constant + term.scale * shape[axis]
    if term.scale > 0:
        return first + sum(each for each in reach if each < 0) >= size
    return first + sum(each for each in reach if each > 0) < 0


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
