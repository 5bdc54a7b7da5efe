"""Smallest cuts, compared with all cuts of small networks."""

from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.min_cut import FlowNetwork

Edges = list[tuple[int, int, int]]


def side_of(count: int, edges: Edges) -> frozenset[int]:
    network = FlowNetwork(count)
    for edge in edges:
        network.add_edge(*edge)
    return network.source_side(0, count - 1)


def cost(side: frozenset[int], edges: Edges) -> int:
    return sum(capacity for start, end, capacity in edges if start in side and end not in side)


def smallest(count: int, edges: Edges) -> frozenset[int]:
    """Return what all smallest cuts have in common, which is one."""
    sides = [
        frozenset({0, *(node for node, chosen in enumerate(bits, 1) if chosen)})
        for bits in product((False, True), repeat=count - 2)
    ]
    least = min(cost(side, edges) for side in sides)
    found = frozenset(range(count))
    for side in sides:
        found = found & side if cost(side, edges) == least else found
    return found


def test_a_chain_is_cut_at_its_first_narrowest_edge():
    assert side_of(5, [(0, 1, 5), (1, 2, 3), (2, 3, 3), (3, 4, 4)]) == {0, 1}


def test_a_flow_that_must_be_sent_back():
    edges = [(0, 1, 10), (0, 2, 10), (1, 2, 1), (1, 3, 4), (1, 4, 8), (2, 4, 9), (4, 3, 6), (3, 5, 10), (4, 5, 10)]
    assert cost(side_of(6, edges), edges) == 19


def test_a_sink_that_is_not_reached():
    assert side_of(4, [(0, 1, 5), (2, 3, 5)]) == {0, 1}


def test_a_long_chain_needs_no_recursion():
    assert side_of(5001, [(n, n + 1, 2) for n in range(5000)]) == {0}


@st.composite
def networks(draw: st.DrawFn) -> tuple[int, Edges]:
    count = draw(st.integers(2, 7))
    node = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(node, node, st.integers(0, 5)), max_size=16))
    return count, [(a, b, c) for a, b, c in edges if b not in (a, 0) and a != count - 1]


@given(networks(), st.randoms())
def test_the_unique_cut_nearest_to_the_source(network: tuple[int, Edges], random: Random):
    count, edges = network
    wanted = smallest(count, edges)
    for _ in range(3):
        random.shuffle(edges)
        assert side_of(count, edges) == wanted
