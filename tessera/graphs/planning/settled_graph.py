"""Settle how a graph is computed before a mesh cuts it, so that all sizes of a mesh have the same kernels.

Prices depend on extents, and the extents of a device's part depend on the mesh.  Chosen by them, the cheapest rewritten
graph would vary with the mesh, and so would whether the weights of a softmax are kept or computed again, which adds the
same products in another order.  So the graph as a whole is rewritten and planned, and the graph of one device follows.

before: loop(w, x) {s = softmax(...), ...}
after:  loop(w, x) {s = softmax(...), ...} settled=(True,): of a plan that computes weights again
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, cast

from tessera.core.graph.graph import Graph, Node
from tessera.core.graph.rewrite import own_outputs
from tessera.graphs.planning.plan_choice import cheapest_plan, prepared
from tessera.lowering.graph.rewrite import Rewritten, rewrite
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule.recompute import recompute_weights

_SETTLED: Final = "settled"


@dataclass(frozen=True, slots=True, eq=False)
class SettledGraph:
    """A graph that a mesh is to cut.

    graph: the chosen one, whose bodies are settled, too; place: of the candidates of `rewritten`
    recomputes: whether kernels compute the weights of a softmax again
    """

    graph: Graph
    rewritten: Rewritten
    place: int
    recomputes: bool

    @property
    def is_rewritten(self) -> bool:
        """Tell whether it is another graph than the one that was given."""
        return self.place < len(self.rewritten.candidates) - 1


def settle(graph: Graph, algebra: Collection[str]) -> SettledGraph:
    """Choose a rewritten graph by the prices of the whole, for it and for the bodies of its loops and branches.

    algebra: the classes of rewrites that are permitted
    """
    rewritten = rewrite(graph, algebra, on_mesh=True)
    best, place, recomputes = rewritten.graph, 0, False
    if len(rewritten.candidates) > 1 or recompute_weights(prepared(best)) is not None:
        chosen = cheapest_plan(rewritten.candidates)
        best, place, recomputes = rewritten.candidates[chosen.place], chosen.place, bool(chosen.plan.again)
    nodes = [_with_settled_bodies(node, algebra) for node in best.nodes]
    return SettledGraph(replace(best, nodes=tuple(nodes)), rewritten, place, recomputes)


def _with_settled_bodies(node: Node, algebra: Collection[str]) -> Node:
    if not node.graphs:
        return node
    bodies = [settle(simplify(own_outputs(body)), algebra) for body in node.graphs]
    attributes = {**node.attributes, _SETTLED: tuple(body.recomputes for body in bodies)}
    return replace(node, attributes=attributes, body=tuple(body.graph for body in bodies))


def recomputes_in_bodies(node: Node) -> tuple[bool | None, ...]:
    """Return for each body of a node whether its kernels compute weights again; None: prices decide."""
    settled = cast("tuple[bool, ...] | None", node.attributes.get(_SETTLED))
    return (None,) * len(node.graphs) if settled is None else settled
