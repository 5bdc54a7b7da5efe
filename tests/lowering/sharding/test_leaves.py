"""Rows of sums cut by halving: blocks of devices, leaves of blocks, and rows that move between shards."""

import numpy as np
import pytest

from support.gradients import graph_of
from support.graphs import assert_same_bits
from tessera.core.base.dtypes import f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.graph.verify import verify
from tessera.core.placement.fold_reference import reduce_leaves
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.reduction_rules import reduction
from tessera.core.placement.reduction_trees import ReductionTree
from tessera.lowering.sharding.leaves import (
    block_rows,
    blocks_of,
    chosen,
    fold_leaves,
    in_blocks,
    is_power_of_two,
    leaf_holds,
    leaf_window,
    may_be_empty,
    most_leaves,
)
from tessera.lowering.sharding.padding import place_along
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.mesh import evaluate_on_mesh


def test_blocks_are_halves_of_halves():
    assert blocks_of(13, 2) == ((0, 7), (7, 13))
    assert blocks_of(13, 4) == ((0, 4), (4, 7), (7, 11), (11, 13))
    assert blocks_of(2, 4) == ((0, 1), (1, 1), (1, 2), (2, 2))
    assert blocks_of(64, 8) == tuple((n, n + 8) for n in range(0, 64, 8))


@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize("extent", [*range(1, 20), 1001, 50257])
def test_blocks_of_more_parts_lie_in_those_of_fewer(extent: int, parts: int):
    fine, coarse = blocks_of(extent, parts), blocks_of(extent, parts // 2)
    assert [(a[0], b[1]) for a, b in zip(fine[::2], fine[1::2], strict=True)] == list(coarse)
    rows = -(-extent // parts)
    assert all(end - first <= rows for first, end in fine), "there is room for them in a shard"
    assert all(first <= number * rows for number, (first, _) in enumerate(fine)), "and none begins behind it"


@pytest.mark.parametrize("leaves", [2, 4, 8])
@pytest.mark.parametrize("rows", [2, 3, 5, 8, 13])
@pytest.mark.parametrize("short", [0, 1, 3])
def test_leaves_of_a_device_are_its_blocks(rows: int, leaves: int, short: int):
    mine, count = most_leaves(rows, leaves), max(rows - short, 0)

    def make(b: GraphBuilder, x: Value, left: Value) -> tuple[Value, Value]:
        return b.view(x, leaf_window(x.type.shape, 1, mine)), leaf_holds(b, rows, mine, left)

    graph = graph_of(make, (f32, (2, rows, 3)), (i64, ()))
    verify(graph)
    x = np.random.default_rng(0).normal(size=(2, rows, 3)).astype(np.float32)
    split, holds = evaluate(graph, [x, np.array(count)])
    wanted = [(first, min(end, count)) for first, end in blocks_of(rows, mine)]
    for leaf, (first, end) in enumerate(wanted):
        np.testing.assert_array_equal(split[:, leaf][:, holds[leaf]], x[:, first : max(first, end)])
    assert may_be_empty(rows, mine, [count]) == any(first >= end for first, end in wanted)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("leaves", [2, 4, 8])
def test_ranks_that_fold_their_leaves_first_make_the_tree_over_all_leaves(leaves: int, ranks: int):
    graph = graph_of(lambda b, x: fold_leaves(b, x, leaves), (f32, (leaves, 5, 3)))
    verify(graph)
    drawn = np.random.default_rng(leaves).normal(size=(ranks, leaves, 5, 3)).astype(np.float32)
    sums = [evaluate(graph, [of_rank])[0] for of_rank in drawn]
    rule = reduction("sum", f32)
    total = reduce_leaves(sums, ReductionTree.binary(ranks), rule)
    expected = reduce_leaves([*drawn.reshape(-1, 5, 3)], ReductionTree.binary(ranks * leaves), rule)
    assert_same_bits(total, expected)


def test_leaves_that_halving_makes_even_are_a_reshape():
    assert leaf_window((24,), 0, 8).shape == (8, 3)
    assert not leaf_window((24,), 0, 8).padded
    assert [most_leaves(rows, 8) for rows in (0, 1, 2, 3, 5, 9)] == [1, 1, 2, 4, 8, 8]
    assert [number for number in range(10) if is_power_of_two(number)] == [1, 2, 4, 8]


def test_a_number_of_each_device():
    mesh = Mesh.of("tp", range(4))
    graph = graph_of(lambda b: chosen(b, place_along(b, ("tp",), 4), [5, 7, 7, 2]))
    assert [int(found) for (found,) in evaluate_on_mesh(graph, mesh, [[]] * 4)] == [5, 7, 7, 2]


@pytest.mark.parametrize("parts", [4, 8])
@pytest.mark.parametrize("extent", [5, 9, 13, 17, 42, 1001])
def test_rows_move_to_their_blocks(extent: int, parts: int):
    mesh, rows, blocks = Mesh.of("tp", range(parts)), -(-extent // parts), blocks_of(extent, parts)

    def make(b: GraphBuilder, x: Value) -> Value:
        numbers = block_rows(b, place_along(b, ("tp",), parts), rows, blocks)
        return in_blocks(b, x, 1, ("tp",), blocks, numbers)

    graph = graph_of(make, (f32, (2, rows)))
    verify(graph)
    whole = np.full((2, rows * parts), np.nan, np.float32)
    whole[:, :extent] = np.random.default_rng(0).normal(size=(2, extent))
    made = evaluate_on_mesh(graph, mesh, [[part] for part in np.split(whole, parts, axis=1)])
    for (first, end), (found,) in zip(blocks, made, strict=True):
        np.testing.assert_array_equal(found[:, : end - first], whole[:, first:end])
    moved = [node for node in graph.nodes if node.op == "collective" and node.attributes["kind"] == "all_gather"]
    assert extent < 42 or moved[0].operands[0].type.shape[1] <= 6, "a few rows of each"
