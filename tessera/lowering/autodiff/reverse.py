"""Reverse mode: `vjp`, `grad` and `value_and_grad`, by transposing the linearization.

Nodes are visited in reverse; what several consumers contribute to one cotangent becomes one sum, in the order of the
consumers, in f32 for shorter floats and rounded once.  So the bits do not depend on how the graph is gone through.  A
cotangent that is zero for certain does not exist, and what no output needs is removed.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import NotDifferentiable, WrongAdjoint
from tessera.core.graph.dead_code import live_nodes
from tessera.core.graph.graph import Graph, Node, Origin, Value
from tessera.lowering.autodiff.bodies_reverse import pull_bodies
from tessera.lowering.autodiff.composites import Adjoint, Region
from tessera.lowering.autodiff.linearize import Linearization, finished, linearize, not_differentiable
from tessera.lowering.autodiff.transpose import is_linear, transposed
from tessera.lowering.autodiff.window_adjoint import window_adjoint

Overrides = Mapping[str, Adjoint]
_NONE: Final[Overrides] = MappingProxyType({})


def vjp(graph: Graph, wrt: Sequence[int], overrides: Overrides = _NONE) -> Graph:
    """Return the graph with its derivative applied backwards.

    Inputs: those of `graph`, then a cotangent for each output that is a float, of its type.  Outputs: those of `graph`,
    then a cotangent for each input that `wrt` numbers, of its type.
    overrides: adjoints that replace the derived ones, by the name of the composite; see `composites.py`
    Raises NotDifferentiable for an input that is no float, or an operation without a derivative.
    """
    linear = linearize(graph, wrt, tuple(overrides), bodies=_pull_bodies)
    seeds = [_like(value, "cotangent") for value in graph.outputs if value.type.dtype.is_float]
    cotangents = _pulled_back(linear, seeds, overrides)
    return _with_outputs(linear, f"{graph.name}_vjp", seeds, (*graph.outputs, *cotangents))


def grad(graph: Graph, wrt: Sequence[int], overrides: Overrides = _NONE) -> Graph:
    """Return the graph of the gradients of output 0, a float of one element, by the inputs that `wrt` numbers.

    Inputs: those of `graph`.  Outputs: a gradient an input of `wrt`, of its type.
    Raises NotDifferentiable as `vjp` does, and for an output 0 of another type.
    """
    linear, gradients = _gradients(graph, wrt, overrides)
    return _with_outputs(linear, f"{graph.name}_grad", (), gradients)


def grad_and_aux(graph: Graph, wrt: Sequence[int], overrides: Overrides = _NONE) -> Graph:
    """Return the graph with the outputs of `grad`, then those of `graph` but for output 0."""
    linear, gradients = _gradients(graph, wrt, overrides)
    return _with_outputs(linear, f"{graph.name}_grad", (), (*gradients, *graph.outputs[1:]))


def value_and_grad(graph: Graph, wrt: Sequence[int], overrides: Overrides = _NONE) -> Graph:
    """Return the graph with the outputs of `graph`, then those of `grad`; further outputs are values beside."""
    linear, gradients = _gradients(graph, wrt, overrides)
    return _with_outputs(linear, f"{graph.name}_value_and_grad", (), (*graph.outputs, *gradients))


def _pull_bodies(linear: Linearization, node: Node) -> Region | None:
    return pull_bodies(linear, node, vjp)


def _gradients(graph: Graph, wrt: Sequence[int], overrides: Overrides) -> tuple[Linearization, list[Value]]:
    loss = graph.outputs[0].type if graph.outputs else None
    if loss is None or loss.size != 1 or not loss.dtype.is_float:
        raise NotDifferentiable(
            f"a gradient is that of one number, and {graph.name} returns {loss or 'nothing'}",
            graph.outputs[0].span if graph.outputs else graph.span,
            "return a sum or a mean first, or use vjp with a cotangent of that type",
        ).with_source(graph.source)
    linear = linearize(graph, wrt, tuple(overrides), bodies=_pull_bodies)
    with linear.builder.within(Origin("transpose", (), ("adjoint",))):
        seed = linear.builder.full(1.0, loss.dtype, loss.shape)
    return linear, _pulled_back(linear, [seed], overrides)


def _like(value: Value, what: str) -> Value:
    return Value(value.type, f"{value.name}_{what}" if value.name else "", value.span)


def _pulled_back(linear: Linearization, seeds: Sequence[Value], overrides: Overrides) -> list[Value]:
    """Return the cotangents of the inputs; seeds: those of the first outputs that are floats."""
    backward = _Backward(linear, overrides)
    floats = [value for value in linear.graph.outputs if value.type.dtype.is_float]
    for value, seed in reversed([*zip(floats, seeds, strict=False)]):
        if value in linear.tangents:
            backward.contribute(linear.tangents[value], seed)
    backward.run()
    found: list[Value] = []
    for tangent in linear.inputs:
        with linear.builder.within(Origin("transpose", (), ("adjoint",)), tangent.span):
            total = backward.total(tangent)
            found.append(total or linear.builder.full(0.0, tangent.type.dtype, tangent.type.shape))
    return found


class _Backward:
    """Transposes the linear nodes of a linearization, the last first."""

    def __init__(self, linear: Linearization, overrides: Overrides) -> None:
        self._linear = linear
        self._overrides = overrides
        self._contributions: dict[Value, list[Value]] = {}  # of each tangent, those of its last consumer first
        self._tangents = set(linear.inputs)
        self._nodes: list[Node] = []
        for node in linear.builder.nodes[len(linear.graph.nodes) :]:
            if not self._tangents.isdisjoint(node.operands):
                self._tangents.update(node.results)
                self._nodes.append(node)
        self._views = {node.result: node for node in self._nodes if node.op == "view"}

    def contribute(self, tangent: Value, cotangent: Value) -> None:
        """Add to the cotangent of the value whose tangent this is."""
        self._contributions.setdefault(tangent, []).append(cotangent)

    def total(self, tangent: Value) -> Value | None:
        """Return the cotangent of the value whose tangent this is, None where nothing contributes."""
        found = self._contributions.get(tangent)
        return self._linear.builder.total(found[::-1], tangent.type.dtype) if found else None

    def run(self) -> None:
        """Go from the last linear node to the first."""
        for node in reversed(self._nodes):
            place = ("adjoint", *node.origin.composite[1:])
            with self._linear.builder.within(Origin("transpose", node.origin.parents, place), node.span):
                self._transpose(node)

    def _transpose(self, node: Node) -> None:
        cotangents = [self.total(value) for value in node.results]
        if all(each is None for each in cotangents):
            return
        if node in self._linear.regions:
            found = self._overridden(node, cotangents)
        elif is_linear(node) and cotangents[0] is not None:
            places = range(len(node.operands))
            active = [place for place in places if node.operands[place] in self._tangents]
            found = [self._pulled(node, place, cotangents[0]) for place in active]
        else:
            raise not_differentiable(self._linear.graph, node)
        for tangent, cotangent in reversed(found):
            self.contribute(tangent, cotangent)

    def _pulled(self, node: Node, place: int, cotangent: Value) -> tuple[Value, Value]:
        """Return a tangent that a node is linear in, and its cotangent; of a product of windows, what is viewed."""
        operand, builder = node.operands[place], self._linear.builder
        view = self._views.get(operand) if node.op == "contract" else None
        made = None if view is None else window_adjoint(builder, view, node, place, cotangent)
        if view is None or made is None:
            return operand, transposed(builder, node, place, cotangent)
        return view.operands[0], made

    def _overridden(self, node: Node, cotangents: Sequence[Value | None]) -> list[tuple[Value, Value]]:
        """Let the adjoint of a composite make the cotangents of its inputs."""
        region, builder = self._linear.regions[node], self._linear.builder
        given = [
            each or builder.full(0.0, value.type.dtype, value.type.shape)
            for each, value in zip(cotangents, node.results, strict=True)
        ]
        adjoint = region.adjoint or self._overrides[region.name]
        try:
            made = adjoint(builder, region.inputs, region.outputs, given)
        except TesseraError as mistake:
            mistake.with_source(self._linear.graph.source)  # where it names a place in the graph's text
            raise
        wanted = tuple(value.type.shape for value in region.inputs)
        if len(made) != len(wanted) or any(v and v.type.shape != s for v, s in zip(made, wanted, strict=True)):
            raise WrongAdjoint(
                f"the adjoint of {region.name} returns {', '.join(str(v and v.type) for v in made)} for inputs "
                f"{', '.join(str(value.type) for value in region.inputs)}",
                region.nodes[0].span, "return one cotangent an input, in order, of its shape, or None",
            ).with_source(self._linear.graph.source)  # fmt: skip
        tangents = self._linear.tangents
        pairs = zip(region.inputs, made, strict=True)
        return [(tangents[value], each) for value, each in pairs if each is not None and value in tangents]


def _with_outputs(linear: Linearization, name: str, seeds: Sequence[Value], outputs: Sequence[Value]) -> Graph:
    """Return the graph of the outputs; what linearization made stands right before the node that reads it."""
    nodes, old = live_nodes(linear.builder.nodes, outputs), frozenset(linear.graph.nodes)
    residual = [node for node in nodes if node not in old and node.origin.rule == "linearize"]
    late = {value: node for node in residual for value in node.results}
    placed: list[Node] = []

    def place(node: Node) -> None:
        for value in node.operands:
            if value in late:
                place(late.pop(value))
        placed.append(node)

    for node in nodes:
        if node in old or node.origin.rule != "linearize":
            place(node)
    for value in outputs:
        if value in late:
            place(late.pop(value))
    return finished(linear, name, (*linear.graph.inputs, *seeds), outputs, placed)
