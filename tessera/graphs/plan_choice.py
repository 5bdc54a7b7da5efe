"""Choose among rewritten graphs by their plans: which kernels the planner really makes of each.

Prices are those of the reference machine, so the choice is the same for every target.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tessera.core.graph.graph import Graph, Node
from tessera.core.schedule.plan import Group, Plan
from tessera.core.schedule.text import bytes_moved, flops, operations
from tessera.lowering.graph.egraph.reference_costs import ELEMENTWISE, LAUNCH, PICO, moving_time, product_rate
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.graph.split_reductions import split_reductions
from tessera.lowering.schedule.plan_graph import plan_graph


@dataclass(frozen=True, slots=True, eq=False)
class PlannedGraph:
    """A graph after all passes, with its plan.

    place: which of the candidates it was made of
    """

    graph: Graph
    plan: Plan
    place: int


def cheapest_plan(candidates: Sequence[Graph]) -> PlannedGraph:
    """Return the candidate whose plan costs least; of equals the one that comes first."""
    planned = [PlannedGraph(ready, plan_graph(ready), place) for place, ready in enumerate(map(prepared, candidates))]
    return min(planned, key=lambda each: (plan_price(each.plan), each.place))


def prepared(graph: Graph) -> Graph:
    """Return a graph as the planner takes it: simplified again, long reductions in parts."""
    again = simplify(graph)
    split = split_reductions(again)
    return again if split is again else simplify(split)


def plan_price(plan: Plan) -> int:
    """Return the picoseconds that the kernels of a plan take on the reference machine, one after the other."""
    return sum(map(_group_price, plan.groups))


def _group_price(group: Group) -> int:
    products = sum(flops(node) * PICO // _rate(node) for node in group.members if node.op == "contract")
    rest = operations(group) - sum(flops(node) for node in group.members if node.op == "contract")
    return LAUNCH + max(products + rest * PICO // ELEMENTWISE, moving_time(bytes_moved(group)))


def _rate(node: Node) -> int:
    return product_rate(str(node.attributes.get("compute") or node.operands[0].type.dtype.name))
