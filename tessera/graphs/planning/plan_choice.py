"""Choose among rewritten graphs by their plans: which kernels the planner really makes of each.

Prices are those of the reference machine, so the choice is the same for every target.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Final, cast

from tessera.core.graph.extents import larger
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.schedule.plan import PRODUCT, Group, Plan, is_long
from tessera.core.schedule.text import bytes_moved, flops, operations
from tessera.lowering.graph.chunk import chunk, is_large
from tessera.lowering.graph.egraph.reference_costs import ELEMENTWISE, LAUNCH, PICO, moving_time, product_rate
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.graph.split_reductions import split_reductions
from tessera.lowering.schedule.group_order import NoKernel
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.lowering.schedule.recompute import recompute_weights
from tessera.lowering.schedule.regroup import looped_reductions
from tessera.lowering.schedule.separate_uses import separate_uses

_ROWS: Final = 128
"""Rows and columns of a block of a product on the reference machine."""
_STAGED: Final = 16
"""Operations of an element that goes through registers to shared memory; a scale of the keys of attention, with 4096
queries and keys of 128 elements, made it 3.6 times as slow on an H100."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedGraph:
    """A graph after all passes, with its plan.

    place: which of the candidates it was made of
    """

    graph: Graph
    plan: Plan
    place: int


def cheapest_plan(candidates: Sequence[Graph]) -> PlannedGraph:
    """Return the candidate whose plan costs least; of equals the one that comes first.

    Each is planned as it is, and with weights that loops compute again, where there are any.
    """
    planned: list[PlannedGraph] = []
    for place, ready in enumerate(map(prepared, candidates)):
        planned.append(PlannedGraph(ready, plan_graph(ready), place))
        if (made := recompute_weights(ready)) is not None:
            # Weights that are computed again may leave a group that is no kernel: then they are kept.
            with suppress(NoKernel):
                planned.append(PlannedGraph(made.graph, plan_graph(made.graph, made.again), place))
    return min(planned, key=lambda each: (plan_price(each.plan), each.place))


def settled_plan(graph: Graph, *, recomputes: bool) -> PlannedGraph:
    """Return the plan of a graph that was settled before a mesh cut it; see `settled_graph.py`.

    recomputes: whether kernels compute weights again, where this part of the graph still has any
    """
    ready = prepared(graph)
    made = recompute_weights(ready) if recomputes else None
    if made is not None:
        with suppress(NoKernel):
            return PlannedGraph(made.graph, plan_graph(made.graph, made.again), 0)
    return PlannedGraph(ready, plan_graph(ready), 0)


def chunked_plan(chosen: PlannedGraph, candidate: Graph, *, shorter: bool) -> PlannedGraph:
    """Return the plan with loops over slices in the place of values that are too large to be kept; itself without any.

    candidate: the graph that was planned, as rewriting left it
    shorter: whether sums may be carried from slice to slice in the type that they are rounded to in the end
    """
    sizes = {number: size for group in chosen.plan.groups for number, size in _written(group) if is_large(size)}
    if not sizes:
        return chosen
    graph = simplify(candidate)
    made = {node.result: sizes[node.ident] for node in graph.nodes if node.ident in sizes}
    found = chunk(graph, made, shorter=shorter)
    if found is graph:
        return chosen
    return replace(cheapest_plan([found]), place=chosen.place)


def _written(group: Group) -> list[tuple[int, int]]:
    """Return the numbers of contractions of which a kernel writes all elements, and the bytes that these have then."""
    if group.kind != PRODUCT:
        return []
    products = [node for node in group.members if node.op == "contract"]
    bytes_of = {value.type.size: value.type.bytes for value in sorted(group.outputs, key=lambda v: v.type.bytes)}
    return [(node.ident, bytes_of[size]) for node in products if (size := node.result.type.size) in bytes_of]


def prepared(graph: Graph) -> Graph:
    """Return a graph as the planner takes it: simplified again, and what no loop reduces is in parts."""
    again = simplify(graph)
    if not any(map(is_long, again.nodes)):
        return again
    looped = {node.ident for node in looped_reductions(separate_uses(again))}
    split = simplify(split_reductions(again, looped))
    left = {node.ident for node in split.nodes if is_long(node)}
    if left <= {node.ident for node in looped_reductions(separate_uses(split))}:
        return split
    return simplify(split_reductions(again))


def plan_price(plan: Plan) -> int:
    """Return the picoseconds that the kernels of a plan take on the reference machine, one after the other."""
    return sum(map(group_price, plan.groups))


def group_price(group: Group) -> int:
    """Return the picoseconds of one kernel."""
    products = sum(flops(node) * PICO // _rate(node) for node in group.members if node.op == "contract")
    rest = operations(group) - sum(flops(node) for node in group.members if node.op == "contract") + _staging(group)
    return LAUNCH + larger(products + rest * PICO // ELEMENTWISE, moving_time(bytes_moved(group)))


def run_price(group: Group) -> int:
    """Return the picoseconds of one step of a plan with all trips of its loops; a `while` is taken to have one."""
    node = group.members[0]
    if not node.graphs:
        return group_price(group)
    bodies = [sum(map(run_price, cheapest_plan([body]).plan.groups)) for body in node.graphs]
    return max(bodies) * cast("int", node.attributes.get("trips", 1))


def _staging(group: Group) -> int:
    """Return what it costs to bring operands of products to the tensor cores that a kernel computes from what it reads.

    They are computed again for every block of the other operand, and go through registers to shared memory, where what
    lies in memory is copied by the copy engine.  What is made of another product's result is in registers already.
    """
    made = {value: node for node in group.members for value in node.results}
    total = 0
    for node in group.members:
        for operand in node.operands if node.op == "contract" else ():
            if _is_staged(operand, made):
                others = set(group.axes[node.result]) - set(group.axes[operand]) - set(group.reduced)
                total += operand.type.size * prod(-(-group.extents[axis] // _ROWS) for axis in others) * _STAGED
    return total


def _is_staged(operand: Value, made: Mapping[Value, Node]) -> bool:
    """Return whether an operand is computed, but not of a contraction's result."""
    computed, stack = False, [operand]
    while stack:
        node = made.get(stack.pop())
        if node is None:
            continue
        if node.op == "contract":
            return False
        computed = computed or node.op != "view"
        stack += node.operands
    return computed


def _rate(node: Node) -> int:
    return product_rate(str(node.attributes.get("compute") or node.operands[0].type.dtype.name))
