"""Recomputation: the same bits, less memory, one cut."""

import random

import numpy as np
import pytest

from support.gradients import causal_attention, drawn, gelu, graph_of, layernorm, matmul, mean, reals, softmax
from tessera.core.base.min_cut import FlowNetwork
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.text import to_text
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.peak_memory import peak_memory
from tessera.lowering.autodiff.recompute import is_backward, multiply_adds, recompute
from tessera.lowering.autodiff.reverse import value_and_grad, vjp
from tessera.runtime.interpret.graph import evaluate

MANY = 1 << 60


def network() -> Graph:
    """Return a feed-forward block: gelu(x @ w) @ w', whose middle is wide."""

    def block(b: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
        return mean(b, b.unary("tanh", matmul(b, gelu(b, matmul(b, x, w)), v)))

    return value_and_grad(graph_of(block, reals(16, 4), reals(4, 64), reals(64, 4)), (0, 1, 2))


def attention() -> Graph:
    return vjp(graph_of(causal_attention, *[reals(2, 16, 4)] * 3), (0, 1, 2))


def deep() -> Graph:
    def layers(b: GraphBuilder, x: Value, gain: Value, bias: Value) -> Value:
        for _ in range(8):
            x = b.binary("add", x, gelu(b, layernorm(b, x, gain, bias)))
        return mean(b, softmax(b, x))

    return value_and_grad(graph_of(layers, reals(8, 32), reals(32), reals(32)), (0, 1, 2))


GRAPHS = {"network": network, "attention": attention, "deep": deep}


def recomputed(graph: Graph) -> set[int]:
    return {node.origin.parents[0] for node in graph.nodes if node.origin.rule == "recompute"}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_same_bits_with_less_memory(name: str):
    graph = GRAPHS[name]()
    whole = recompute(graph, 0, most_multiply_adds=MANY)
    assert not whole.fits
    wanted = evaluate(graph, drawn(graph))
    for limit in (rung.peak for rung in whole.rungs):
        found = recompute(graph, limit, most_multiply_adds=MANY)
        assert found.fits
        assert found.rungs[-1].peak == peak_memory(found.graph) <= limit
        verify(found.graph)
        for a, b in zip(evaluate(found.graph, drawn(graph)), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    assert peak_memory(whole.graph) == min(rung.peak for rung in whole.rungs)


def test_a_deep_network_needs_less_than_half_with_checkpoints():
    """The fewest bytes are not the lowest peak: computed again from its inputs, all of it is in memory at once."""
    rungs = recompute(deep(), 0).rungs
    assert min(rung.peak for rung in rungs) < rungs[0].peak / 2
    fewest = min(rungs, key=lambda rung: rung.kept)
    assert fewest.peak > rungs[0].peak / 2


@pytest.mark.parametrize("name", GRAPHS)
def test_with_enough_memory_nothing_is_computed_again(name: str):
    graph = GRAPHS[name]()
    found = recompute(graph, peak_memory(graph))
    assert found.fits
    assert found.graph.nodes == graph.nodes
    assert [rung.name for rung in found.rungs] == ["nothing"]


def test_maps_are_computed_again_before_contractions():
    graph = network()
    rungs = recompute(graph, 0).rungs
    assert [rung.name.partition(",")[0] for rung in rungs] == ["nothing", "maps and moves", "maps and moves"]
    # What is kept of the wide middle is the product before the gelu alone: 16 x 64, and the 16 x 4 after it.
    assert rungs[-1].kept == 8 * (16 * 64 + 16 * 4) < rungs[0].kept
    assert len({frozenset((rung.kept, rung.recomputed)) for rung in rungs}) == len(rungs)


def test_contractions_are_computed_again_within_the_budget_alone():
    graph = network()
    products = sorted({multiply_adds(node) for node in graph.nodes if node.op == "contract" and not is_backward(node)})
    assert products == [16 * 4 * 64]
    for most, wanted in ((products[0] - 1, 0), (products[0], 2)):
        rungs = recompute(graph, 0, most_multiply_adds=most).rungs
        assert sum("contractions of 4096, every" in rung.name for rung in rungs) == wanted
        assert (rungs[-1].name == "contractions of 4096") == (wanted > 0)


def test_what_is_marked_is_kept():
    graph = deep()
    free = recomputed(recompute(graph, 0).graph)
    assert free
    marked = recompute(graph, 0, keep=free)
    assert recomputed(marked.graph).isdisjoint(free)


def test_new_nodes_stand_before_the_first_that_reads_them_and_name_what_they_repeat():
    graph = deep()
    again = recompute(graph, 0).graph
    numbers = [node.ident for node in again.nodes if node.origin.rule == "recompute"]
    assert numbers == list(range(graph.next_ident, graph.next_ident + len(numbers)))
    forward = [node for node in again.nodes if not is_backward(node)]
    assert list(again.nodes[: len(forward)]) == forward
    old = {node.ident: node for node in graph.nodes}
    for node in again.nodes:
        if node.origin.rule == "recompute":
            (parent,) = node.origin.parents
            assert (node.op, node.body, node.attributes) == (old[parent].op, old[parent].body, old[parent].attributes)


def test_the_cut_does_not_depend_on_the_order_of_the_edges(monkeypatch: pytest.MonkeyPatch):
    graph = deep()
    plain = to_text(recompute(graph, 0).graph)
    source_side = FlowNetwork.source_side

    def shuffled(network: FlowNetwork, source: int, sink: int) -> frozenset[int]:
        for edges in network._edges:
            random.shuffle(edges)
        return source_side(network, source, sink)

    monkeypatch.setattr(FlowNetwork, "source_side", shuffled)
    for _ in range(5):
        assert to_text(recompute(graph, 0).graph) == plain
