"""Explain placements: why a value of a graph on a mesh is cut as it is, and what each collective costs.

y = contract(h: f32[8, 256@tp], v: f32[256@tp, 64]) -> f32[8, 64]{sum: tp}    line 4
  tp: axis 1 of h and axis 0 of v, which are summed: each device has a part of the sum
  all_reduce over tp of y: 2.0 kB a device, 15.0 us
  instead (f32[8, 256], f32[256, 64]) -> f32[8, 64]: 1.2 us more on the reference mesh
"""

from collections.abc import Iterator
from math import lcm, prod
from typing import Final

from tessera.core.graph.graph import Node, Value
from tessera.core.placement.link_costs import LINKS
from tessera.core.placement.memory import amount
from tessera.lowering.sharding.assign import Assignment
from tessera.lowering.sharding.factors import factors_of
from tessera.lowering.sharding.padding import lengths, nested
from tessera.lowering.sharding.partial_results import cut_rows, leaves_of
from tessera.lowering.sharding.partition import LEAVES
from tessera.lowering.sharding.placements import Axes, dims_of, local_rows, local_type, text
from tessera.lowering.sharding.sharded_graph import Choice, ShardedGraph
from tessera.lowering.sharding.steps import ALL_REDUCE, Step, steps_between

_MOST_REJECTED: Final = 2
"""Ways to cut a node that are shown beside the one that was taken, where that one moves something."""


def explain(sharded: ShardedGraph, only: Value | None = None) -> str:
    """Return the placements of a graph's values in words, or of one of them."""
    inputs = [value for value in sharded.graph.inputs if only is None or value is only]
    lines = [f"{sharded.graph.name} on {sharded.mesh}"]
    lines += [f"{_name(sharded, each)}: {text(each.type, sharded.placements[each])}, as it is given" for each in inputs]
    for node in sharded.graph.nodes:
        if only is None or only in node.results:
            lines += _of_node(sharded, sharded.choices[node])
    for place, (value, wanted) in enumerate(zip(sharded.graph.outputs, sharded.outputs, strict=True)):
        steps = steps_between(sharded.placements[value], wanted)
        if steps and (only is None or only is value):
            lines.append(f"output {place}: {text(value.type, wanted)}")
            lines += [f"  {_cost(sharded, step, value)}" for step in steps]
    return "\n".join(lines)


def _of_node(sharded: ShardedGraph, choice: Choice) -> Iterator[str]:
    node, assignment = choice.node, choice.assignment
    given = ", ".join(
        f"{_name(sharded, value)}: {text(value.type, wanted)}"
        for value, wanted in zip(node.operands, assignment.operands, strict=True)
    )
    made = ", ".join(text(value.type, each) for value, each in zip(node.results, assignment.results, strict=True))
    line = f"    line {node.span.line}" if node.span.line else ""
    yield f"{_name(sharded, node.results[0])} = {node.op}({given}) -> {made}{line}"
    yield from (f"  {each}" for each in _reasons(sharded, node, assignment))
    steps = [
        (value, step)
        for value, wanted in dict.fromkeys(zip(node.operands, assignment.operands, strict=True))
        for step in steps_between(sharded.placements[value], wanted)
    ]
    yield from (f"  {_cost(sharded, step, value)}" for value, step in steps)
    yield from _leaves_sent(sharded, node, assignment)
    for value, result in zip(node.results, assignment.results, strict=True):
        for step in steps_between(result, sharded.placements[value]):
            yield f"  {_cost(sharded, step, value)}, as it is asked for"
    for body in choice.bodies:
        yield f"  {body.graph.name}, which it holds:"
        yield from (f"    {line}" for line in explain(body).splitlines()[1:])
    moves = bool(steps) or any(each.partial for each in assignment.results)
    for cost, other in choice.rejected[:_MOST_REJECTED] if moves else ():
        yield f"  instead {_in_words(node, other)}: {(cost - choice.cost) / 1e6:.2g} us more on the reference mesh"


def _reasons(sharded: ShardedGraph, node: Node, assignment: Assignment) -> Iterator[str]:
    """Yield for each axis of the mesh which axes of operands it cuts, and what that makes of the result."""
    factors = factors_of(node)
    for factor, axes in assignment.axes.items():
        found = [
            f"axis {axis} of {_name(sharded, value)}"
            for value, dims in dict(zip(node.operands, factors.operands, strict=True)).items()
            for axis, dim in enumerate(dims) if factor in dim
        ]  # fmt: skip
        made = [
            f"axis {axis}" for dims in factors.results for axis, dim in enumerate(dims) if factor in dim
        ] or ["which is reduced: each device has a part"]  # fmt: skip
        cuts = " and ".join(found) or "no operand"
        yield f"{', '.join(axes)}: {cuts}, {made[0] if factors.factors[factor].reduces else made[0] + ' of the result'}"
        extent, parts = factors.factors[factor].extent, sharded.mesh.size(axes)
        if extent % parts:
            yield f"  {lengths(extent, parts)}{', masked behind its end' if factors.factors[factor].reduces else ''}"


def _leaves_sent(sharded: ShardedGraph, node: Node, assignment: Assignment) -> Iterator[str]:
    """Yield what a sum over several axes that are cut adds over all devices, for each leaf of the axes before."""
    cuts = cut_rows(factors_of(node), assignment, sharded.mesh)
    leaves = leaves_of(node, cuts, LEAVES)
    for place in range(len(leaves) - 1, 0, -1):
        cut, count = cuts[place], prod(leaves[:place])
        (made,) = assignment.results
        size = count * local_type(node.result.type, made, sharded.mesh).bytes
        moved = 2 * (cut.parts - 1) * size // cut.parts
        costs = _amount(sharded, moved, ALL_REDUCE, cut.axes)
        yield f"  {ALL_REDUCE} over {', '.join(cut.axes)} of its {count} sums, so that all meshes add alike: {costs}"


def _amount(sharded: ShardedGraph, moved: int, kind: str, axes: Axes) -> str:
    cost = LINKS.cost(kind, sharded.mesh, axes, moved)
    model = "" if cost.measured else " (unmeasured)"
    return f"{amount(moved)} a device, {cost.seconds * 1e6:,.1f} us{model}" if moved else "nothing moves"


def _cost(sharded: ShardedGraph, step: Step, value: Value) -> str:
    moved = step.moved(value.type, sharded.mesh.size)
    costs = _amount(sharded, moved, step.kind, step.axes)
    return f"{step} of {_name(sharded, value)}: {costs}{_through_whole(sharded, step, value)}"


def _through_whole(sharded: ShardedGraph, step: Step, value: Value) -> str:
    """Say where a step brings all rows to every device, as shards before and behind it do not nest."""
    for extent, before, after in zip(value.type.shape, dims_of(step.before), dims_of(step.after), strict=True):
        if before != after and not nested(extent, before, after, sharded.mesh):
            parts = lcm(*(sharded.mesh.size(axes) for axes in (before, after)))
            whole = f"{local_rows(extent, parts) * parts:,}"
            return f"; shards of {extent:,} rows do not nest, so all go everywhere: pad them to {whole}"
    return ""


def _in_words(node: Node, assignment: Assignment) -> str:
    operands = ", ".join(text(v.type, each) for each, v in zip(assignment.operands, node.operands, strict=True))
    results = ", ".join(text(v.type, each) for each, v in zip(assignment.results, node.results, strict=True))
    return f"({operands}) -> {results}"


def _name(sharded: ShardedGraph, value: Value) -> str:
    node = sharded.graph.producers.get(value)
    return value.name or (f"%g{node.ident}" if node is not None else "an input")
