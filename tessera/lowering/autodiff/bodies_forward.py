"""Forward mode of nodes with bodies: tangents go along with what they are tangents of, trip by trip.

before: h, ys = loop(W, h0, xs) {h', y = body(W, h, x)}
after:  h, th, ys, tys = loop(W, tW, h0, th0, xs, txs) {h', th', y, ty = jvp of body}

The new node stands for the old one, so that nothing is computed twice.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tessera.core.graph.bodies import BRANCH, WHILE, parts
from tessera.core.graph.graph import Graph, Node, Value
from tessera.lowering.autodiff.bodies import active_inputs, active_outputs, with_ends
from tessera.lowering.autodiff.linearize import Linearization, tangent_or_zeros

Jvp: TypeAlias = Callable[[Graph, Sequence[int]], Graph]


def push_bodies(linear: Linearization, node: Node, jvp: Jvp) -> None:
    """Give the results of a loop, a while or a branch tangents."""
    operands = node.operands
    inputs = active_inputs(node, [place for place, value in enumerate(operands) if value in linear.tangents])
    outputs = active_outputs(node, inputs)
    if inputs and outputs:
        (_branch if node.op == BRANCH else _loop)(linear, node, jvp, inputs, outputs)


class _Tangents:
    """A body with its tangents: those of inputs and of outputs by their numbers."""

    def __init__(self, body: Graph, inputs: Sequence[int], jvp: Jvp) -> None:
        self.body, self.graph = body, jvp(body, inputs)
        self.inputs = dict(zip(inputs, self.graph.inputs[len(body.inputs) :], strict=True))
        floats = [number for number, value in enumerate(body.outputs) if value.type.dtype.is_float]
        self.outputs = dict(zip(floats, self.graph.outputs[len(body.outputs) :], strict=True))

    def with_ends(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Graph:
        return with_ends(self.graph, inputs, outputs)


def _branch(linear: Linearization, node: Node, jvp: Jvp, inputs: Sequence[int], outputs: Sequence[int]) -> None:
    bodies: list[Graph] = []
    for body in node.graphs:
        made = _Tangents(body, inputs, jvp)
        results = (*made.graph.outputs[: len(body.outputs)], *(made.outputs[number] for number in outputs))
        bodies.append(made.with_ends((*body.inputs, *made.inputs.values()), results))
    tangents = [linear.tangents[node.operands[number + 1]] for number in inputs]
    made = linear.builder.add_all(node.op, (*node.operands, *tangents), tuple(bodies), **node.attributes)
    _stand_in(linear, node, made[: len(node.results)], outputs, made[len(node.results) :])


def _loop(linear: Linearization, node: Node, jvp: Jvp, inputs: Sequence[int], outputs: Sequence[int]) -> None:
    made = _Tangents(node.graphs[-1], inputs, jvp)
    given, numbers = parts(node, node.operands), parts(node, range(len(node.operands)))
    count = len(given.carries)
    tangents = {number: tangent_or_zeros(linear, node.operands[number]) for number in inputs}
    moved = [[number for number in group if number in made.inputs] for group in (
        numbers.constants, numbers.carries, numbers.stacked)]  # fmt: skip

    def interleaved(values: Sequence[Value], others: dict[int, Value]) -> list[Value]:
        arranged = parts(node, values)
        groups = zip((arranged.constants, arranged.carries, arranged.stacked), moved, strict=True)
        return [value for group, mine in groups for value in (*group, *(others[number] for number in mine))]

    primal, tangent = made.graph.outputs[: len(made.body.outputs)], made.outputs
    carried = [number - len(given.constants) for number in moved[1]]
    stacked = [number for number in outputs if number >= count]
    results = (
        *primal[:count], *(tangent[number] for number in carried), *primal[count:],
        *(tangent[number] for number in stacked),
    )  # fmt: skip
    body = made.with_ends(interleaved(made.body.inputs, made.inputs), results)
    attributes = {**node.attributes, "constants": len(given.constants) + len(moved[0]), "carried": count + len(carried)}
    graphs = (body,)
    if node.op == WHILE:
        condition = node.graphs[0]
        others = {number: Value(value.type) for number, value in tangents.items()}
        graphs = (with_ends(condition, interleaved(condition.inputs, others), condition.outputs), body)
    values = linear.builder.add_all(node.op, interleaved(node.operands, tangents), graphs, **attributes)
    end = count + len(carried)
    plain = (*values[:count], *values[end : end + len(primal) - count])
    _stand_in(linear, node, plain, (*carried, *stacked), (*values[count:end], *values[end + len(primal) - count :]))


def _stand_in(
    linear: Linearization, node: Node, results: Sequence[Value], numbers: Sequence[int], tangents: Sequence[Value]
) -> None:
    linear.substitutes.update(zip(node.results, results, strict=True))
    linear.tangents.update((node.results[number], each) for number, each in zip(numbers, tangents, strict=True))
