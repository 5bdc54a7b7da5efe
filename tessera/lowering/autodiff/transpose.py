"""Transposes of linear primitives: from the cotangent of a result to that of one operand.

A rule may return the cotangent in f32 where the operand is a shorter float: contributions are added in f32 and rounded
once (`DerivedBuilder.total`).
"""

from collections.abc import Callable, Mapping
from typing import Final, cast

from tessera.core.base.dtypes import DType, bf16, f32, f64
from tessera.core.graph.expr import Argument, Expr, arguments
from tessera.core.graph.graph import Node, Value
from tessera.core.graph.index_maps import IndexMap, window
from tessera.core.graph.infer import labels_of, numbers
from tessera.lowering.autodiff.algebra import convert, is_number, mul, wide
from tessera.lowering.autodiff.derivatives import derivative
from tessera.lowering.autodiff.derived_builder import DerivedBuilder
from tessera.lowering.autodiff.view_adjoint import view_adjoint


def transposed(builder: DerivedBuilder, node: Node, place: int, cotangent: Value) -> Value:
    """Return the cotangent of operand `place` of a node that is linear in it.

    Raises KeyError for an operation that is not linear.
    """
    return _RULES[node.op](builder, node, place, cotangent)


def is_linear(node: Node) -> bool:
    """Return whether the node has a transpose."""
    return node.op in _RULES


def _map(builder: DerivedBuilder, node: Node, place: int, cotangent: Value) -> Value:
    """Multiply by the factor of the operand, and sum along the axes that the operand lacks."""
    shape, axes = node.result.type.shape, labels_of(node.attributes["axes"])
    factor, mine, where = derivative(cast("Expr", node.body), place), axes[place], tuple(range(len(shape)))
    summed = tuple(axis for axis in where if axis not in mine)
    if summed and all(set(axes[number]) <= set(mine) for number in arguments(factor)):
        # The factor is the same along these axes: sum first, and multiply what is left.
        cotangent = builder.reduce(builder.widened(cotangent), summed)
        where, summed = tuple(sorted(mine)), ()
    if is_number(factor, 1):
        return builder.transpose(cotangent, [where.index(axis) for axis in mine])
    # The operand's axes come first, in its own order: what is left after the sum needs no transposition.
    order = {axis: new for new, axis in enumerate((*mine, *summed))}
    places = [tuple(order[axis] for axis in each if axis in order) for each in (*axes, where)]
    argument = convert(Argument(len(node.operands), cotangent.type.dtype), wide(cotangent.type.dtype))
    operands, extents = (*node.operands, cotangent), [shape[axis] for axis in order]
    product = builder.expression(mul(factor, argument), operands, places, extents)
    return builder.reduce(product, range(len(mine), len(extents)))


def _contract(builder: DerivedBuilder, node: Node, place: int, cotangent: Value) -> Value:
    """Contract the cotangent with the other operand.

    Factors have the dtype of the forward contraction's: the cotangent of a product of 16-bit floats is rounded to that
    dtype, as the product's own operands were (f32 where `exact`; bf16 for floats of 8 bits, which it holds exactly).
    """
    labels, result = labels_of(node.attributes["labels"]), numbers(node.attributes["result"])
    other = node.operands[1 - place]
    mine, theirs = labels[place], labels[1 - place]
    kind = factor_dtype(other.type.dtype, cotangent.type.dtype, exact=bool(node.attributes["exact"]))
    found = tuple(label for label in mine if label in result or label in theirs)
    sides = [(builder.cast(cotangent, kind), result), (builder.cast(other, kind), theirs)]
    if found and found[-1] in result and found[-1] not in theirs:
        sides.reverse()  # rows of what is made are rows of the left factor, so that they are written as they lie
    (left, ours), (right, its) = sides
    product = builder.contract(
        left, right, (ours, its), found,
        exact=bool(node.attributes["exact"]), compute=str(node.attributes["compute"] or "") if kind == f32 else "",
    )  # fmt: skip
    # A label that only this operand has was summed over it alone.
    return builder.broadcast(product, [mine.index(label) for label in found], node.operands[place].type.shape)


def factor_dtype(operand: DType, cotangent: DType, *, exact: bool) -> DType:
    """Return the dtype of the factors of a transposed contraction, of those of its operand and of the cotangent."""
    if f64 in (cotangent, operand):
        return f64
    if operand.bits >= f32.bits or exact:
        return f32
    return bf16 if operand.is_storage else operand


def _reduce(builder: DerivedBuilder, node: Node, place: int, cotangent: Value) -> Value:
    del place
    shape, axes = node.operands[0].type.shape, numbers(node.attributes["axes"])
    return builder.broadcast(cotangent, [axis for axis in range(len(shape)) if axis not in axes], shape)


def _view(builder: DerivedBuilder, node: Node, place: int, cotangent: Value) -> Value:
    del place
    return view_adjoint(builder, cast("IndexMap", node.body), node.operands[0].type.shape, cotangent)


def _concat(builder: DerivedBuilder, node: Node, place: int, cotangent: Value) -> Value:
    """Take the operand's slice."""
    axis = cast("int", node.attributes["axis"])
    shape, rank = cotangent.type.shape, len(cotangent.type.shape)
    starts = [0] * rank
    starts[axis] = sum(each.type.shape[axis] for each in node.operands[:place])
    return builder.view(cotangent, window(shape, starts, [1] * rank, node.operands[place].type.shape))


def _gather(builder: DerivedBuilder, node: Node, place: int, cotangent: Value) -> Value:
    """Add to the rows that were taken, in the order of the indices."""
    del place
    table, index = node.operands
    axis = cast("int", node.attributes["axis"])
    return builder.scatter_add(index, builder.widened(cotangent), table.type.shape[axis], axis)


def _scatter_add(builder: DerivedBuilder, node: Node, place: int, cotangent: Value) -> Value:
    """Take the rows that were added to."""
    del place
    return builder.gather(cotangent, node.operands[0], cast("int", node.attributes["axis"]))


def _scan(builder: DerivedBuilder, node: Node, place: int, cotangent: Value) -> Value:
    """Scan from the other end."""
    del place
    axis, shape = cast("int", node.attributes["axis"]), cotangent.type.shape
    starts, steps = [0] * len(shape), [1] * len(shape)
    starts[axis], steps[axis] = shape[axis] - 1, -1
    flip = window(shape, starts, steps, shape)
    flipped = builder.like(node, (builder.view(cotangent, flip),))
    return builder.view(flipped, flip)


_RULES: Final[Mapping[str, Callable[[DerivedBuilder, Node, int, Value], Value]]] = {
    "map": _map, "contract": _contract, "reduce": _reduce, "view": _view, "concat": _concat, "gather": _gather,
    "scatter_add": _scatter_add, "scan": _scan,
}  # fmt: skip
