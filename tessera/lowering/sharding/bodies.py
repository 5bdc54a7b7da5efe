"""Carry placements through the bodies of loops and branches, to where they stay from trip to trip.

before: h[8@dp, 64], w[64, 64]: h = loop(w, h) of h' = tanh(contract(h, w))
after:  the body has h[8@dp, 64] and gives it back so: nothing moves in any trip

Carries lie as costs least: as they begin, as a trip makes them of that, and so on, or whole on every device.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.graph.bodies import BRANCH, LOOP, WHILE, Parts, parts, trips
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.placement.placement import Placement
from tessera.lowering.sharding.assign import Assignment
from tessera.lowering.sharding.costs import REFERENCE, picoseconds, reference_extent
from tessera.lowering.sharding.placements import dims_of, joined, placed
from tessera.lowering.sharding.sharded_graph import ShardedGraph
from tessera.lowering.sharding.steps import moved_between

Propagate = Callable[[Graph, Mapping[Value, Placement]], ShardedGraph]
"""Places the values of a body, given those of its inputs."""
_TRIES: Final = 4
"""How often a trip is taken to see how it leaves the carries: each changes at least one of them."""
_FLAG: Final = placed(())


@dataclass(frozen=True, slots=True)
class ChosenBodies:
    """How a node with bodies is cut; cost, in picoseconds."""

    assignment: Assignment
    bodies: tuple[ShardedGraph, ...]
    cost: int


def choose_bodies(node: Node, given: Sequence[Placement], propagate: Propagate) -> ChosenBodies:
    """Return the placements of a node's operands and results, and of its bodies; given: of the operands."""
    return _RULES[node.op](node, [joined(each) for each in given], propagate)


def _loop(node: Node, given: Sequence[Placement], propagate: Propagate) -> ChosenBodies:
    (body,) = node.graphs
    lie = parts(node, given)
    slices = [placed(dims_of(each)[1:]) for each in lie.stacked]
    stacked = [_stacked(each) for each in slices]
    moved = _moved(parts(node, node.operands).stacked, lie.stacked, stacked)

    def taken(carries: Sequence[Placement]) -> ShardedGraph:
        return propagate(body, dict(zip(body.inputs, (*lie.constants, *carries, *slices), strict=True)))

    carries, trip = _carried(node, lie, taken, trips(node))
    operands = (*lie.constants, *carries, *stacked)
    results = (*carries, *map(_stacked, trip.outputs[len(carries) :]))
    return _chosen(operands, results, (trip,), moved + trips(node) * trip.cost)


def _while(node: Node, given: Sequence[Placement], propagate: Propagate) -> ChosenBodies:
    condition, body = node.graphs
    lie = parts(node, given)

    def taken(carries: Sequence[Placement]) -> ShardedGraph:
        return propagate(body, dict(zip(body.inputs, (*lie.constants, *carries), strict=True)))

    carries, trip = _carried(node, lie, taken, REFERENCE)
    operands = (*lie.constants, *carries)
    holds = replace(propagate(condition, dict(zip(condition.inputs, operands, strict=True))), outputs=(_FLAG,))
    return _chosen(operands, carries, (holds, trip), REFERENCE * (trip.cost + holds.cost))


def _branch(node: Node, given: Sequence[Placement], propagate: Propagate) -> ChosenBodies:
    operands = tuple(given[1:])
    both = [propagate(body, dict(zip(body.inputs, operands, strict=True))) for body in node.graphs]
    ways = dict.fromkeys([*(each.outputs for each in both), _whole(node.results)])
    ends = [tuple(replace(each, outputs=way) for each in both) for way in ways]
    costs = [sum(each.cost for each in bodies) for bodies in ends]
    bodies = ends[costs.index(min(costs))]
    moved = _moved(node.operands[:1], given[:1], [_FLAG])
    return _chosen((_FLAG, *operands), bodies[0].outputs, bodies, moved + min(costs))


def _carried(
    node: Node, lie: Parts[Placement], taken: Callable[[Sequence[Placement]], ShardedGraph], times: int
) -> tuple[tuple[Placement, ...], ShardedGraph]:
    """Return how carries lie between trips, and the body of a trip that takes and leaves them so."""
    begin = parts(node, node.operands).carries
    found: dict[tuple[Placement, ...], tuple[int, ShardedGraph]] = {}
    carries, whole = lie.carries, _whole(begin)
    for _ in range(_TRIES):
        if carries in found:
            break
        trip = taken(carries)
        found[carries] = _left(trip, carries, begin, lie.carries, times)
        carries = trip.outputs[: len(carries)]
    if whole not in found:
        found[whole] = _left(taken(whole), whole, begin, lie.carries, times)
    best = min(found, key=lambda each: found[each][0])  # the first of those that cost the same
    return best, found[best][1]


def _left(
    trip: ShardedGraph, carries: tuple[Placement, ...], begin: Sequence[Value], given: Sequence[Placement], times: int
) -> tuple[int, ShardedGraph]:
    """Return a trip that leaves carries as it takes them, and what the loop costs then."""
    made = replace(trip, outputs=(*carries, *trip.outputs[len(carries) :]))
    return _moved(begin, given, carries) + times * made.cost, made


def _moved(values: Sequence[Value], given: Sequence[Placement], wanted: Sequence[Placement]) -> int:
    pairs = zip(values, given, wanted, strict=True)
    return picoseconds(sent=sum(moved_between(here, end, each.type, reference_extent) for each, here, end in pairs))


def _stacked(placement: Placement) -> Placement:
    """Return how slices lie that are stacked along a first axis: every device has its part of each."""
    return placed(((), *dims_of(placement)))


def _whole(values: Sequence[Value]) -> tuple[Placement, ...]:
    return tuple(Placement.replicated(len(value.type.shape)) for value in values)


def _chosen(
    operands: Sequence[Placement], results: Sequence[Placement], bodies: tuple[ShardedGraph, ...], cost: int
) -> ChosenBodies:
    return ChosenBodies(Assignment({}, tuple(operands), tuple(results), {}), bodies, cost)


_RULES: Final[Mapping[str, Callable[[Node, Sequence[Placement], Propagate], ChosenBodies]]] = {
    LOOP: _loop, WHILE: _while, BRANCH: _branch,
}  # fmt: skip
