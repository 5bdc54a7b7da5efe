"""Reverse mode of loops and branches.

A loop keeps what its adjoint needs of each trip, stacked, and a second loop goes through the trips from the other end:

before: h, ys = loop(W, h0, xs) {h', y = body(W, h, x)}
after:  h, ys, rs = loop(W, h0, xs) {h', y, r = the part of the body's adjoint that needs no cotangent}
        ch0, cW, cxs = loop(W, ch, 0, rs, xs, cys) reversed {ch, cW + ..., cx = the rest of it}

What depends on constants alone is computed again in the second loop, and with `recompute` everything but the carries.
A branch is taken again, by the same bool, with the adjoint of the body that was chosen.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tessera.core.errors.catalog import NotDifferentiable
from tessera.core.graph.bodies import BRANCH, LOOP, WHILE, Parts, parts
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, Origin, Tensor, Value
from tessera.lowering.autodiff.algebra import wide
from tessera.lowering.autodiff.bodies import active_inputs, active_outputs, with_ends
from tessera.lowering.autodiff.composites import Region
from tessera.lowering.autodiff.linearize import Linearization

Vjp: TypeAlias = Callable[[Graph, Sequence[int]], Graph]


def pull_bodies(linear: Linearization, node: Node, vjp: Vjp) -> Region | None:
    """Return a loop or a branch as a region with an adjoint; None where nothing of it has tangents.

    Raises NotDifferentiable for a while.
    """
    inputs = active_inputs(node, [place for place, value in enumerate(node.operands) if value in linear.tangents])
    outputs = active_outputs(node, inputs)
    if not inputs or not outputs:
        return None
    if node.op == WHILE:
        raise NotDifferentiable(
            "op.while_ has no derivative backwards: how many steps it takes, and keeps, is not known", node.span,
            "use op.scan with a number of steps, or tessera.jvp, which goes forwards",
        ).with_source(linear.graph.source)  # fmt: skip
    results = tuple(node.results[number] for number in outputs)
    pull = _pull_branch if node.op == BRANCH else _pull_loop

    def adjoint(
        builder: GraphBuilder, _: Sequence[Value], __: Sequence[Value], cotangents: Sequence[Value]
    ) -> Sequence[Value | None]:
        given = dict(zip(outputs, cotangents, strict=True))
        return pull(linear, builder, node, vjp, inputs, given)

    return Region(node.op, (node,), node.operands, results, adjoint)


class _Adjoint:
    """The adjoint of a body: seeds by the number of the output, gradients by that of the input."""

    def __init__(self, body: Graph, inputs: Sequence[int], vjp: Vjp) -> None:
        self.body, self.graph = body, vjp(body, inputs)
        floats = [number for number, value in enumerate(body.outputs) if value.type.dtype.is_float]
        self.seeds = dict(zip(floats, self.graph.inputs[len(body.inputs) :], strict=True))
        self.gradients = dict(zip(inputs, self.graph.outputs[len(body.outputs) :], strict=True))


def _pull_branch(
    linear: Linearization, builder: GraphBuilder, node: Node, vjp: Vjp, inputs: Sequence[int],
    cotangents: dict[int, Value],
) -> list[Value | None]:  # fmt: skip
    del linear
    bodies: list[Graph] = []
    for body in node.graphs:
        made = _Adjoint(body, inputs, vjp)
        given = (*body.inputs, *(made.seeds[number] for number in cotangents))
        bodies.append(with_ends(made.graph, given, [made.gradients[number] for number in inputs]))
    values = builder.add_all(BRANCH, (*node.operands, *cotangents.values()), tuple(bodies))
    found: list[Value | None] = [None] * len(node.operands)
    for number, value in zip(inputs, values, strict=True):
        found[number + 1] = value
    return found


def _pull_loop(
    linear: Linearization, builder: GraphBuilder, node: Node, vjp: Vjp, inputs: Sequence[int],
    cotangents: dict[int, Value],
) -> list[Value | None]:  # fmt: skip
    adjoint = _Adjoint(node.graphs[0], inputs, vjp)
    numbers = parts(node, range(len(node.operands)))
    active = Parts(*(tuple(n for n in group if n in adjoint.gradients) for group in (
        numbers.constants, numbers.carries, numbers.stacked)))  # fmt: skip
    residuals = _residuals(node, adjoint)
    kept = _with_residuals(linear, builder, node, adjoint.graph, residuals)
    body_inputs = parts(node, adjoint.body.inputs)
    operands = dict(zip(adjoint.body.inputs, node.operands, strict=True))
    sums = [_accumulator(adjoint.body.inputs[number]) for number in active.constants]
    first, count = len(numbers.constants), len(numbers.carries)
    slices = [n for n in cotangents if n >= count]
    given = Parts(
        body_inputs.constants,
        (*(adjoint.seeds[n - first] for n in active.carries), *sums),
        (*residuals, *body_inputs.stacked, *(adjoint.seeds[n] for n in slices)),
    )
    body = _backward_body(adjoint, active, given, sums)
    start = [cotangents[n - first] for n in active.carries]
    start += [builder.full(0.0, value.type.dtype, value.type.shape) for value in sums]
    stacks = [*kept, *(operands[value] for value in body_inputs.stacked), *(cotangents[n] for n in slices)]
    values = builder.add_all(
        LOOP, (*(operands[value] for value in given.constants), *start, *stacks), (body,),
        trips=node.attributes["trips"], constants=len(given.constants), carried=len(given.carries),
        reverse=not node.attributes["reverse"], recompute=False,
    )  # fmt: skip
    found: list[Value | None] = [None] * len(node.operands)
    for number, value in zip((*active.carries, *active.constants, *active.stacked), values, strict=True):
        found[number] = value
    return found


def _accumulator(value: Value) -> Value:
    """Return a value of the type in which cotangents of a constant are added up: f32 for shorter floats."""
    return Value(Tensor(wide(value.type.dtype), value.type.shape))


def _backward_body(adjoint: _Adjoint, active: Parts[int], given: Parts[Value], sums: Sequence[Value]) -> Graph:
    """Return one trip backwards: cotangents of carries, sums of those of constants, cotangents of slices."""
    builder = GraphBuilder(adjoint.graph.next_ident)
    builder.nodes.extend(adjoint.graph.nodes)
    with builder.within(Origin("transpose", (), ("adjoint",))):
        totals = [
            builder.sum_of([total, builder.cast(adjoint.gradients[number], total.type.dtype)])
            for number, total in zip(active.constants, sums, strict=True)
        ]
    outputs = [adjoint.gradients[number] for number in active.carries]
    outputs += [*totals, *(adjoint.gradients[number] for number in active.stacked)]
    whole = builder.finish(adjoint.graph.name, adjoint.graph.inputs, outputs, adjoint.graph.source, adjoint.graph.span)
    return with_ends(whole, given.all, outputs)


def _residuals(node: Node, adjoint: _Adjoint) -> list[Value]:
    """Return what the backward part of an adjoint reads of the forward part: carries, and what varies and is kept."""
    graph = adjoint.graph
    arranged = parts(node, adjoint.body.inputs)
    late, varying = set(adjoint.seeds.values()), {*arranged.carries, *arranged.stacked}
    for each in graph.nodes:
        for group in (late, varying):
            if not group.isdisjoint(each.operands):
                group.update(each.results)
    needed, kept = set(adjoint.gradients.values()), dict[Value, None]()
    for each in reversed(graph.nodes):
        if needed.isdisjoint(each.results):
            continue
        again = bool(node.attributes["recompute"]) or _is_free(each)
        if again or not late.isdisjoint(each.results) or varying.isdisjoint(each.results):
            needed.update(each.operands)
        else:
            kept.update((value, None) for value in each.results if value in needed)
    return [*(value for value in arranged.carries if value in needed), *reversed(kept)]


def _is_free(node: Node) -> bool:
    """Return whether a node only reads elsewhere, and no fewer elements: what it reads is kept in its place."""
    return node.op == "view" and node.operands[0].type.size <= node.result.type.size


def _with_residuals(
    linear: Linearization, builder: GraphBuilder, node: Node, adjoint: Graph, residuals: Sequence[Value]
) -> Sequence[Value]:
    """Let a loop that also returns the residuals stand for the loop, and return them, stacked."""
    if not residuals:
        return ()
    body = node.graphs[0]
    outputs = (*adjoint.outputs[: len(body.outputs)], *residuals)
    more = with_ends(adjoint, body.inputs, outputs)
    with builder.within(Origin("residuals", (node.ident,), node.origin.composite), node.span):
        values = builder.add_all(LOOP, node.operands, (more,), **node.attributes)
    count = len(node.results)
    linear.substitutes.update(zip(node.results, values[:count], strict=True))
    return values[count:]
