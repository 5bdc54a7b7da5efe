"""Random graphs: what their kernels compute, interpreted and compiled, has the oracle's bits."""

from hypothesis import given, settings

from support.graphs import assert_same_bits, check, graphs, small_integers
from tessera.core.graph.graph import Graph
from tessera.lowering.graph.simplify import simplify
from tessera.runtime.interpret.graph import evaluate


@settings(max_examples=300)
@given(graphs())
def test_interpreted_kernels_have_the_bits_of_the_oracle(built: Graph):
    check(built, targets=("interpret",))


@settings(max_examples=40)
@given(graphs())
def test_compiled_kernels_have_the_bits_of_the_oracle(built: Graph):
    check(built, targets=("cpu",))


@settings(max_examples=500)
@given(graphs())
def test_simplified_graphs_have_the_bits_of_the_oracle(built: Graph):
    arrays = small_integers([value.type for value in built.inputs])
    for found, wanted in zip(evaluate(simplify(built), arrays), evaluate(built, arrays), strict=True):
        assert_same_bits(found, wanted)
