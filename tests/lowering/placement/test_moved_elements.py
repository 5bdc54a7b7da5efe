"""Counts of elements that are kept, missing and within reach, against sets of indices."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.placement.mesh import Mesh
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.placement.splits import Pieces
from tessera.lowering.placement.moved_elements import common, covers, gathered_bytes, kept, positions, sizes

MESH = Mesh.of(("dp", "tp"), range(6), (2, 3))


def held(text: str, rank: int) -> set[tuple[int, ...]]:
    shards = ShardedType.parse(text).on(MESH)
    places = itertools.product(*map(range, shards.local_shape(rank)))
    return {shards.global_index(rank, place) for place in places}


@given(st.integers(0, 60), *([st.integers(1, 5), st.integers(0, 7)] * 2))
def test_what_pieces_have_in_common(extent: int, p: int, block: int, q: int, other: int):
    a, b = Pieces.of(extent, p, block), Pieces.of(extent, q, other)
    want = np.zeros((p, q), int)
    for index in range(extent):
        want[a.owner(index), b.owner(index)] += 1
    np.testing.assert_array_equal(common(a, b), want)


def test_large_extents_take_no_more_time():
    table = common(Pieces.of(10**12, 8, 1), Pieces.of(10**12, 12, 2))
    assert table.sum() == 10**12
    assert common(Pieces.of(10**12, 8), Pieces.of(10**12, 8)).diagonal().sum() == 10**12


CASES = ("f32[7@dp, 5]", "f32[7, 5@tp]", "f32[7@tp*dp, 5]", "f32[7@dp*tp, 5]", "f32[7@tp:cyclic, 5@dp]", "f32[7, 5]")


def test_kept_sizes_and_reach():
    for before, after in itertools.product(CASES, CASES):
        old, new = ShardedType.parse(before).on(MESH), ShardedType.parse(after).on(MESH)
        want = [len(held(before, rank) & held(after, rank)) for rank in range(6)]
        assert kept(old, new).tolist() == want
        assert sizes(new).tolist() == [len(held(after, rank)) for rank in range(6)]
        for axes in ((), ("dp",), ("tp",), ("dp", "tp")):
            reach = [
                set[tuple[int, ...]]().union(*(held(before, each) for each in MESH.group(rank, axes)))
                for rank in range(6)
            ]
            assert covers(old, new, axes) == all(held(after, rank) <= reach[rank] for rank in range(6))


def test_positions():
    assert positions(MESH, ("tp", "dp")).tolist() == [MESH.position(rank, ("tp", "dp")) for rank in range(6)]


def test_gathering_everything():
    def gathered(text: str) -> int:
        given = ShardedType.parse(text)
        return gathered_bytes(given.placement, given.shape, MESH, 4)

    assert gathered("f32[6, 5]") == 0
    assert gathered("f32[6@tp, 5]") == 6 * 20 * 4
    assert gathered("f32[6, 5]{sum: dp}") == 3 * 2 * 30 * 4
    assert gathered("f32[6@tp, 5]{sum: dp}") == 6 * 20 * 4 + 3 * 2 * 30 * 4
