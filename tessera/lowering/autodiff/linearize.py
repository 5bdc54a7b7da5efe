"""The linearization of every primitive: what forward mode computes, and reverse mode transposes.

The derivative of a node at its operands is a linear function of their tangents.  Here it is written as nodes that are
linear in tangents: `transpose.py` turns just these around.  A tangent that is zero for certain does not exist.

Where a primitive has no derivative, one is chosen:
* maxima and minima: equal elements share the tangent evenly; one that the outputs do not depend on (the maximum that a
  softmax is shifted by) has tangent 0, see `shifts.py`
* integers and bools have no tangent
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import NotDifferentiable
from tessera.core.graph.bodies import WITH_BODIES
from tessera.core.graph.dead_code import live_nodes
from tessera.core.graph.expr import Argument, Expr, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Node, Origin, Value
from tessera.core.graph.infer import numbers
from tessera.lowering.autodiff.algebra import add, convert, div, is_zero, literal, mul, replaced, select, wide
from tessera.lowering.autodiff.composites import Region, called, regions_of
from tessera.lowering.autodiff.derivatives import derivative
from tessera.lowering.autodiff.derived_builder import DerivedBuilder
from tessera.lowering.autodiff.guards import joined
from tessera.lowering.autodiff.shifts import ShiftAnalysis

Tangents: TypeAlias = dict[Value, Value]
"""The tangent of each value that has one."""


@dataclass(slots=True)
class Linearization:
    """A graph with its tangents.

    builder: the graph's nodes, then derived ones; inputs: the tangents of the inputs `wrt`
    tangents: by value; regions: what the opaque `call` nodes of overridden composites stand for
    substitutes: of results of loops and branches, the results of what stands for these in the end
    """

    graph: Graph
    builder: DerivedBuilder
    inputs: tuple[Value, ...]
    tangents: Tangents
    shifts: ShiftAnalysis
    regions: dict[Node, Region] = field(default_factory=dict[Node, Region])
    producers: Mapping[Value, Node] = field(default_factory=dict[Value, Node])
    substitutes: dict[Value, Value] = field(default_factory=dict[Value, Value])


Push: TypeAlias = Callable[[Linearization, Region], None]
"""Gives the outputs of a region their tangents."""
BodyRule: TypeAlias = Callable[[Linearization, Node], Region | None]
"""Returns a loop or a branch as a region, or gives its results tangents itself and returns None."""


def tangent_or_zeros(linear: Linearization, value: Value) -> Value:
    """Return the tangent of a value, zeros where it has none."""
    found = linear.tangents.get(value)
    return found or linear.builder.full(0.0, value.type.dtype, value.type.shape)


def finished(
    linear: Linearization, name: str, inputs: Sequence[Value], outputs: Sequence[Value], nodes: Sequence[Node]
) -> Graph:
    """Return the live part of `nodes` as a graph; an output that is an input becomes a value of its own."""
    graph, builder = linear.graph, linear.builder
    given, before = frozenset(inputs), len(builder.nodes)
    outputs = [linear.substitutes.get(value, value) for value in outputs]
    with builder.within(Origin("differentiate")):
        outputs = [builder.copy(value) if value in given else value for value in outputs]
    nodes, old = [*nodes, *builder.nodes[before:]], frozenset(graph.nodes)
    if linear.substitutes:
        renamed = _with_substitutes(nodes, linear.substitutes)
        old = frozenset(new for new, node in zip(renamed, nodes, strict=True) if node in old)
        nodes = _in_order(renamed)
    live = live_nodes(nodes, outputs)
    fresh = _renumbered(live, old, graph.next_ident)
    return Graph(name, tuple(inputs), tuple(fresh), tuple(outputs), graph.source, graph.span)


def _with_substitutes(nodes: Sequence[Node], values: Mapping[Value, Value]) -> list[Node]:
    found: list[Node] = []
    for node in nodes:
        operands = tuple([values.get(value, value) for value in node.operands])
        found.append(node if operands == node.operands else replace(node, operands=operands))
    return found


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    """Put each node behind those whose results it uses, and leave the order as it is otherwise."""
    makers = {value: node for node in nodes for value in node.results}
    done: dict[Node, None] = {}
    for node in nodes:
        stack = [node]
        while stack:
            last = stack[-1]
            missing = [makers[value] for value in last.operands if value in makers and makers[value] not in done]
            if missing:
                stack += reversed(missing)
            else:
                done[stack.pop()] = None
    return list(done)


def _renumbered(nodes: Sequence[Node], old: frozenset[Node], first: int) -> list[Node]:
    """Number the nodes that are not in `old` from `first` on, in order: their numbers are not known anywhere yet."""
    found: list[Node] = []
    for node in nodes:
        if node in old:
            found.append(node)
            continue
        attributes = dict(node.attributes)
        found.append(
            Node(node.op, node.operands, node.results, attributes, node.body, first, node.origin, node.span)
        )  # fmt: skip
        first += 1
    return found


def linearize(
    graph: Graph, wrt: Sequence[int], overridden: Sequence[str] = (), push: Push | None = None,
    bodies: BodyRule | None = None,
) -> Linearization:  # fmt: skip
    """Return the graph followed by the nodes of its tangents.

    overridden: names of composites that stay opaque, one linear `call` each
    push: gives what a call makes its tangents; None: calls stay opaque as well
    bodies: of loops and branches, which have no tangents without
    """
    inputs = _tangent_inputs(graph, wrt)
    hidden = regions_of(graph, overridden)
    inside = {node for region in hidden for node in region.nodes}
    last = {region.nodes[-1]: region for region in hidden}
    builder = DerivedBuilder(graph)
    linear = Linearization(graph, builder, tuple(inputs.values()), dict(inputs), ShiftAnalysis(graph))
    linear.producers = {value: node for value, node in graph.producers.items() if node not in inside}
    for node in graph.nodes:
        origin = Origin("linearize", (node.ident,), ("tangent", *node.origin.composite))
        with builder.within(origin, node.span):
            if node in last:
                _linearize_region(linear, last[node])
            elif node in inside:
                continue
            elif node.op == "call":
                _linearize_call(linear, node, push)
            elif bodies is not None and node.op in WITH_BODIES:
                _linearize_bodies(linear, node, bodies)
            else:
                _linearize_node(linear, node)
    return linear


def _tangent_inputs(graph: Graph, wrt: Sequence[int]) -> dict[Value, Value]:
    found: dict[Value, Value] = {}
    for number in wrt:
        if not 0 <= number < len(graph.inputs):
            raise ValueError(f"{graph.name} has no input {number}: it has {len(graph.inputs)}")
        value = graph.inputs[number]
        if value in found:
            raise ValueError(f"input {number} of {graph.name} is there twice")
        if not value.type.dtype.is_float:
            name = value.name or f"input {number}"
            raise NotDifferentiable(
                f"{name} is {value.type}, and only floats have derivatives",
                value.span if value.span.line else graph.span,
                "leave it out of the inputs to differentiate by, or convert it to a float first",
            ).with_source(graph.source)
        found[value] = Value(value.type, f"{value.name}_tangent" if value.name else "", value.span)
    return found


def _linearize_region(linear: Linearization, region: Region) -> None:
    """Give the outputs of an overridden composite tangents that one opaque node makes."""
    active = [value for value in region.inputs if value in linear.tangents]
    if not active:
        return
    outputs = [value for value in region.outputs if value.type.dtype.is_float]
    results = tuple(Value(value.type, "", value.span) for value in outputs)
    operands = tuple(linear.tangents[value] for value in active)
    linear.builder.append(
        Node("call", operands, results, {"name": region.name}, origin=linear.builder.origin, span=linear.builder.span)
    )
    linear.regions[linear.builder.nodes[-1]] = region
    linear.tangents.update(zip(outputs, results, strict=True))


def _linearize_call(linear: Linearization, node: Node, push: Push | None) -> None:
    """Give the results of a call tangents, by its adjoint.  Raises NotDifferentiable for one that has none."""
    active = any(operand in linear.tangents for operand in node.operands)
    if not active or not any(value.type.dtype.is_float for value in node.results):
        return
    if node.routine.adjoint is None:
        raise not_differentiable(linear.graph, node)
    region = called(node, node.routine.adjoint)
    if push is None:
        _linearize_region(linear, region)
    else:
        push(linear, region)


def _linearize_bodies(linear: Linearization, node: Node, bodies: BodyRule) -> None:
    region = bodies(linear, node)
    if region is not None:
        _linearize_region(linear, region)


def _linearize_node(linear: Linearization, node: Node) -> None:
    if not any(value.type.dtype.is_float for value in node.results):
        return
    if node.op == "map":
        tangent = _map(linear, node)
    elif not any(value in linear.tangents for value in node.operands):
        return
    elif node.op in _RULES:
        tangent = _RULES[node.op](linear, node)
    else:
        raise not_differentiable(linear.graph, node)
    if tangent is not None:
        linear.tangents[node.result] = tangent


def not_differentiable(graph: Graph, node: Node) -> TesseraError:
    """Return the mistake of differentiating a node that has no derivative."""
    if node.op == "call":
        name = node.routine.name
        hint = f"write @op.custom(adjoint=f) where {name} is made: f(inputs, outputs, cotangents)"
        mistake = NotDifferentiable(f"{name} has no adjoint", node.span, hint)
    else:
        mistake = NotDifferentiable(
            f"{node.op} has no derivative", node.span, "give the operator of which it is part an adjoint"
        )
    return mistake.with_source(graph.source)


def _map(linear: Linearization, node: Node) -> Value | None:
    """Add the partial derivatives, each times its operand's tangent."""
    tangents = linear.tangents
    if not any(operand in tangents for operand in node.operands):
        return None
    whole = joined(node, linear.producers)
    operands, axes = [*whole.operands], [*whole.axes]
    table: dict[Expr, Expr] = {}
    for expr, value, where in whole.values:
        table.setdefault(expr, Argument(len(operands), value.type.dtype))
        operands.append(value)
        axes.append(where)
    kind = node.result.type.dtype
    total: Expr = literal(0, wide(kind))
    for number, operand in enumerate(whole.operands):
        if operand not in tangents:
            continue
        partial = replaced(derivative(whole.body, number), table)
        argument = Argument(len(operands), operand.type.dtype)
        total = add(total, mul(partial, convert(argument, wide(operand.type.dtype))))
        operands.append(tangents[operand])
        axes.append(whole.axes[number])
    if is_zero(total):
        return None
    return linear.builder.expression(cast_expr(total, kind), operands, axes, node.result.type.shape)


def _contract(linear: Linearization, node: Node) -> Value:
    """Apply the rule of the product: contractions of one operand's tangent with the other operand."""
    terms: list[Value] = []
    for place, operand in enumerate(node.operands):
        if operand in linear.tangents:
            factors = list(node.operands)
            factors[place] = linear.tangents[operand]
            terms.append(linear.builder.like(node, factors))
    return linear.builder.total(terms, node.result.type.dtype)


def _reduce(linear: Linearization, node: Node) -> Value | None:
    (operand,) = node.operands
    tangent, axes = linear.tangents[operand], numbers(node.attributes["axes"])
    if node.attributes["kind"] == "sum":
        return linear.builder.reduce(tangent, axes)
    if linear.shifts.cancels(node.result):
        return None
    return _extreme(linear, node, tangent, axes)


def _extreme(linear: Linearization, node: Node, tangent: Value, axes: tuple[int, ...]) -> Value:
    """Add up the tangents of the elements that equal the extreme, divided by how many there are."""
    builder, (operand,) = linear.builder, node.operands
    shape, dtype = operand.type.shape, operand.type.dtype
    everywhere = tuple(range(len(shape)))
    kept = tuple(axis for axis in everywhere if axis not in axes)
    x, extreme, count, t = (Argument(number, dtype) for number in range(4))
    equal = apply("cmp", x, extreme, predicate="eq")
    one, zero = literal(1, dtype), literal(0, dtype)
    ones = builder.expression(
        select(equal, one, zero), (operand, node.result), (everywhere, kept), shape
    )  # fmt: skip
    counted = builder.reduce(ones, axes)
    shared = builder.expression(
        mul(select(equal, div(one, count), zero), t), (operand, node.result, counted, tangent),
        (everywhere, kept, kept, everywhere), shape,
    )  # fmt: skip
    return builder.reduce(shared, axes)


def _moved(linear: Linearization, node: Node) -> Value:
    """Do to the tangents what the node does to the operands: views, concatenations, gathers, scatters, scans."""
    builder = linear.builder
    operands: list[Value] = []
    for value in node.operands:
        if not value.type.dtype.is_float:
            operands.append(value)
        elif value in linear.tangents:
            operands.append(linear.tangents[value])
        else:
            operands.append(builder.full(0.0, value.type.dtype, value.type.shape))
    return builder.like(node, operands)


_RULES: Final[Mapping[str, Callable[[Linearization, Node], Value | None]]] = {
    "contract": _contract, "reduce": _reduce, "view": _moved, "concat": _moved, "gather": _moved,
    "scatter_add": _moved, "scan": _moved,
}  # fmt: skip
