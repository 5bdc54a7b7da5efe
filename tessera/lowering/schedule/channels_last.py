"""Copy the arrays of a product of windows, so that the axis of its steps comes last in memory.

before: u = view(x) [n, c, r, s, p, q], x: [n, c, h, w]; y = contract(w, u) over c, r and s
after:  t = view(x) [n, h, w, c]; u = view(t); the same of w, and y as before: t is a kernel, which u is read through

A window reads each element once for every tap, and a copy only once: steps of neighbouring channels are whole lines of
memory then, which tensor cores and vectors read as they are.  An array of which a tap is the last axis, or moves along
it, has no such lines.
"""

from dataclasses import replace
from typing import Final

from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.index_maps import IndexMap, identity, transpose
from tessera.core.graph.rewrite import Rewriter
from tessera.lowering.schedule.axes import AxisSpace, axis_space
from tessera.lowering.schedule.form import FEWEST_CHANNELS, product_axes, sum_axes

COPY: Final = "channels_last"
"""The rule of the views that are copies: kernels do not read through them."""


def channels_last(graph: Graph) -> Graph:
    """Return the graph with a copy of each array that a product of windows reads across its steps."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        operands = list(node.operands)
        space = axis_space((node,), (node.result, *operands)) if node.op == "contract" else None
        if space is not None and _reads_windows(graph, node, space):
            blocked = product_axes(node, space)
            if space.extents[blocked[-1]] >= FEWEST_CHANNELS:
                operands = [_turned(graph, rewriter, node, value, (space, blocked)) for value in operands]
        rewriter.keep(node, [rewriter.value(value) for value in operands])
    return rewriter.finish()


def _reads_windows(graph: Graph, node: Node, space: AxisSpace) -> bool:
    """Return whether an operand is a view of which a summed axis moves along one that stays."""
    summed = set(sum_axes(node, space))
    for value in node.operands:
        maker = graph.producers.get(value)
        axes = space.axes[value]
        if (
            maker is not None
            and maker.op == "view"
            and any(
                len(affine.terms) > 1 and any(axes[term.axis] in summed for term in affine.terms)
                for affine in maker.index_map.axes
            )
        ):
            return True
    return False


def _turned(
    graph: Graph, rewriter: Rewriter, user: Node, value: Value, how: tuple[AxisSpace, tuple[int | None, ...]]
) -> Value:  # fmt: skip
    """Return an operand as a view of a copy in which the axis of steps comes last in memory.

    Itself, where another axis of blocks does: tensor cores take rows and columns that lie side by side, too.
    """
    space, blocked = how
    axes = space.axes[value]
    step = axes.index(blocked[-1])
    maker = graph.producers.get(value)
    viewed = maker is not None and maker.op == "view"
    array = maker.operands[0] if maker is not None and viewed else value
    index_map = maker.index_map if maker is not None and viewed else identity(value.type.shape)
    places = [place for place, affine in enumerate(index_map.axes) if any(term.axis == step for term in affine.terms)]
    rank = len(array.type.shape)
    last = [axes[term.axis] for term in index_map.axes[-1].terms]
    summed = set(sum_axes(user, space)) - {blocked[-1]}
    if len(places) != 1 or (not summed.intersection(last) and not set(blocked).isdisjoint(last)):
        return value
    order = [*(axis for axis in range(rank) if axis != places[0]), places[0]]
    origin = rewriter.origin(user)
    with rewriter.builder.within(replace(origin, rule=COPY), user.span):
        copied = rewriter.builder.view(rewriter.value(array), transpose(array.type.shape, order))
    with rewriter.builder.within(origin, user.span):
        seen = IndexMap(index_map.shape, tuple(index_map.axes[axis] for axis in order), index_map.padded)
        return rewriter.builder.view(copied, seen)
