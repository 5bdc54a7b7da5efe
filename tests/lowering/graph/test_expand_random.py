"""Random bits as arithmetic have the oracle's bits, far beyond 32 bits of index too."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.base.dtypes import i64, u32
from tessera.core.base.philox import philox
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.verify import verify
from tessera.lowering.graph.expand_random import RULE, expand_random, philox_element
from tessera.runtime.interpret.graph import evaluate, evaluate_expr


def drawing(shape: tuple[int, ...], stream: int) -> Graph:
    builder, key = GraphBuilder(), Value(Tensor(u32, (2,)), "key")
    return builder.finish("g", [key], [builder.random(key, shape, stream)])


@settings(max_examples=20)
@given(
    st.lists(st.integers(0, 7), max_size=4).map(tuple), st.integers(0, 2**32 - 1), st.tuples(*[st.integers(0, 2**32 - 1)] * 2)
)  # fmt: skip
def test_the_oracle_agrees(shape: tuple[int, ...], stream: int, key: tuple[int, int]):
    graph = drawing(shape, stream)
    expanded = expand_random(graph)
    verify(expanded)
    assert {node.op for node in expanded.nodes} <= {"iota", "view", "map"}
    assert all(node.origin.rule == RULE for node in expanded.nodes)
    given = [np.array(key, np.uint32)]
    np.testing.assert_array_equal(evaluate(graph, given)[0], evaluate(expanded, given)[0])


@pytest.mark.parametrize("index", [0, 2**34 - 1, 2**34, 2**40 + 5, 2**62 + 3])
def test_indices_of_more_than_32_bits(index: int):
    keys = np.array(7, np.uint32), np.array(9, np.uint32)
    body = philox_element(Argument(0, i64), (Argument(1, u32), Argument(2, u32)), 1)
    got = evaluate_expr(body, [np.array(index, np.int64), *keys])
    block = index // 4
    counter = [np.array(word, np.uint32) for word in (block & 0xFFFFFFFF, block >> 32, 1, 0)]
    assert got == philox(counter, keys)[index % 4]


def test_graphs_without_randomness_stay():
    builder, x = GraphBuilder(), Value(Tensor(u32, (2,)))
    graph = builder.finish("g", [x], [builder.binary("add", x, x)])
    assert expand_random(graph) is graph
