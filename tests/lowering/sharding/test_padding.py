"""What shards are padded by: masks, neutral elements, and which shards are made of others."""

# Builders are handed to lambdas in tables, which have no place for their types.
# pyright: reportUnknownMemberType=false

import numpy as np
import pytest

from support.gradients import graph_of
from support.graphs import assert_same_bits
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i32, i64, u32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.graph.verify import verify
from tessera.core.placement.mesh import Mesh
from tessera.lowering.sharding.padding import lengths, masked, nested, neutral, place_along, resized, rows_left, within
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.mesh import evaluate_on_mesh

MESH = Mesh.of(("dp", "tp"), range(6), (2, 3))


@pytest.mark.parametrize("axes", [("tp",), ("dp", "tp"), ("tp", "dp")])
@pytest.mark.parametrize("extent", [1, 5, 6, 13])
def test_rows_past_the_end_are_chosen_away(axes: tuple[str, ...], extent: int):
    parts = MESH.size(axes)
    rows = -(-extent // parts)

    def make(b: GraphBuilder, x: Value) -> Value:
        left = rows_left(b, place_along(b, axes, parts), rows, extent)
        return masked(b, x, within(b, rows, left), (1,), -0.0)

    graph = graph_of(make, (f32, (2, rows)))
    verify(graph)
    made = evaluate_on_mesh(graph, MESH, [[np.full((2, rows), np.nan, np.float32)]] * MESH.size())
    for rank, (found,) in enumerate(made):
        there = np.arange(rows) < extent - MESH.position(rank, axes) * rows
        assert_same_bits(found, np.where(there, np.float32(np.nan), np.float32(-0.0))[None].repeat(2, 0))


def test_neutral_elements():
    assert [str(neutral("sum", each)) for each in (f32, bf16, f64, i32, u32)] == ["-0.0", "-0.0", "-0.0", "0", "0"]
    assert (neutral("max", f32), neutral("min", f16)) == (-np.inf, np.inf)
    assert (neutral("max", i64), neutral("min", u32)) == (-(2**63), 2**32 - 1)
    assert (neutral("max", boolean), neutral("min", boolean)) == (False, True)


@pytest.mark.parametrize("dtype", [f32, bf16, boolean, i64])
def test_views_that_pad_and_trim(dtype: DType):
    x = np.ones((3, 2)).astype(dtype.numpy)
    longer, shorter = evaluate(graph_of(lambda b, x: (resized(b, x, 0, 5), resized(b, x, 1, 1)), (dtype, (3, 2))), [x])
    np.testing.assert_array_equal(longer.astype(np.float32), [[1, 1]] * 3 + [[0, 0]] * 2)
    np.testing.assert_array_equal(shorter.astype(np.float32), [[1]] * 3)


@pytest.mark.parametrize(
    ("extent", "one", "other", "wanted"),
    [
        (12, ("dp",), ("dp", "tp"), True),
        (11, ("dp",), ("dp", "tp"), True),  # 6 and 5; 2, 2, 2, 2, 2, 1
        (7, ("dp",), ("dp", "tp"), False),  # 4 and 3; 2, 2, 2, 1, 0, 0
        (7, (), ("dp", "tp"), True),
        (7, ("dp", "tp"), (), True),
        (1, ("dp",), ("dp", "tp"), True),
        (7, ("dp",), ("tp",), False),
        (6, ("dp",), ("tp",), True),
    ],
)
def test_shards_that_are_made_of_others(extent: int, one: tuple[str, ...], other: tuple[str, ...], wanted: bool):
    assert nested(extent, one, other, MESH) is wanted
    assert nested(extent, other, one, MESH) is wanted


def test_lengths_in_words():
    assert lengths(1001, 4) == "1,001 over 4: 3 of 251, then 248"
    assert lengths(3, 4) == "3 over 4: 3 of 1, 1 without any"
    assert lengths(10, 8) == "10 over 8: 5 of 2, 3 without any"
    assert lengths(1, 2) == "1 over 2: 1 of 1, 1 without any"
