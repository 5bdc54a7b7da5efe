"""Forward mode: `jvp`.

What has an adjoint of its own, such as a call, is pushed forward by that adjoint: it is linear in the cotangent, and
its transpose is the derivative.

before: v = call(u), adjoint(c) = A(u, v, c), tangent t of u
after:  the transpose of c -> A(u, v, c), applied to t
"""

from collections.abc import Sequence

from tessera.core.graph.graph import Graph, Node, Value
from tessera.lowering.autodiff.bodies_forward import push_bodies
from tessera.lowering.autodiff.composites import Region
from tessera.lowering.autodiff.derived_builder import DerivedBuilder
from tessera.lowering.autodiff.linearize import Linearization, finished, linearize, tangent_or_zeros
from tessera.lowering.autodiff.reverse import vjp


def jvp(graph: Graph, wrt: Sequence[int]) -> Graph:
    """Return the graph with its derivative in a direction.

    Inputs: those of `graph`, then a tangent for each input that `wrt` numbers, of its type.  Outputs: those of `graph`,
    then a tangent for each that is a float, of its type.
    Raises NotDifferentiable for an input that is no float, or an operation without a derivative.
    """
    linear = linearize(graph, wrt, (), _push, _push_bodies)
    builder = linear.builder
    tangents = [tangent_or_zeros(linear, value) for value in graph.outputs if value.type.dtype.is_float]
    outputs = (*graph.outputs, *tangents)
    return finished(linear, f"{graph.name}_jvp", (*graph.inputs, *linear.inputs), outputs, [*builder.nodes])


def _push_bodies(linear: Linearization, node: Node) -> None:
    push_bodies(linear, node, jvp)


def _push(linear: Linearization, region: Region) -> None:
    """Give the outputs of a region tangents: the transpose of its adjoint, applied to those of its inputs."""
    assert region.adjoint is not None
    floats = [value for value in region.outputs if value.type.dtype.is_float]
    seeds = [Value(value.type) for value in floats]
    outer = tuple(dict.fromkeys((*region.inputs, *region.outputs)))
    builder = DerivedBuilder(Graph(region.name, (*outer, *seeds), (), ()))
    pulled = list(region.adjoint(builder, region.inputs, region.outputs, seeds))
    pairs = [(value, each) for value, each in zip(region.inputs, pulled, strict=True) if each is not None]
    pairs = [(value, each) for value, each in pairs if value in linear.tangents]
    adjoint = builder.finish(region.name, (*outer, *seeds), [each for _, each in pairs], linear.graph.source)
    transposed = vjp(adjoint, range(len(outer), len(outer) + len(seeds)))
    zeros = [linear.builder.full(0.0, value.type.dtype, value.type.shape) for value in floats]
    tangents = [linear.tangents[value] for value, _ in pairs]
    made = linear.builder.inline(transposed, (*outer, *zeros, *tangents))
    linear.tangents.update(zip(floats, made[len(pairs) :], strict=True))
