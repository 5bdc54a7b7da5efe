"""Placements and their maps: against NumPy's own cutting, for every distribution, several axes on one dimension."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tessera.core.errors.catalog import BadMesh, BadShardSpec
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement, ShardMap
from tessera.core.placement.splits import Split

MESH = Mesh.of(("dp", "tp", "pp"), range(12), (2, 3, 2))


@st.composite
def placements(draw: st.DrawFn) -> tuple[tuple[int, ...], Placement]:
    """A shape, and a placement of it on MESH."""
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=0, max_size=3)))
    axes = draw(st.permutations(MESH.axes))
    splits = [Split()] * len(shape)
    for axis in axes[: draw(st.integers(0, 3))]:
        if not shape:
            break
        number = draw(st.integers(0, len(shape) - 1))
        splits[number] = Split((*splits[number].axes, axis), draw(st.integers(0, 3)))
    left = [axis for axis in axes if not any(axis in split.axes for split in splits)]
    return shape, Placement(tuple(splits), tuple(left[: draw(st.integers(0, len(left)))]))


def part_of(whole: NDArray[np.int64], shards: ShardMap, rank: int) -> NDArray[np.int64]:
    """What a rank holds of an array, by `np.ix_`."""
    pairs = zip(whole.shape, shards.indices(rank), strict=True)
    return whole[np.ix_(*(np.arange(extent)[index] for extent, index in pairs))]


@given(placements())
def test_maps_go_both_ways(given_placement: tuple[tuple[int, ...], Placement]):
    shape, placement = given_placement
    shards = ShardMap.of(shape, placement, MESH)
    whole: NDArray[np.int64] = np.arange(math.prod(shape)).reshape(shape)
    held = {rank: part_of(whole, shards, rank) for rank in range(MESH.size())}
    for index in itertools.product(*map(range, shape)):
        ranks = shards.ranks_of(index)
        assert len(ranks) == shards.replicas
        local = shards.local_index(index)
        for rank in ranks:
            assert held[rank][local] == whole[index]
            assert shards.global_index(rank, local) == index
    for rank, part in held.items():
        assert part.shape == shards.local_shape(rank)
        assert all(a <= b for a, b in zip(part.shape, shards.padded_shape, strict=True))
    assert sum(part.size for part in held.values()) == whole.size * shards.replicas
    ranks = [rank for _, holders in shards.shards() for rank in holders]
    assert sorted(ranks) == list(range(MESH.size()))


def test_several_axes_on_one_dimension_the_first_slowest():
    shards = ShardMap.of((12,), Placement((Split(("tp", "dp")),)), MESH)
    assert shards.local_shape(0) == (2,)
    # dp = 1, tp = 2 holds piece 2 * 2 + 1.
    assert shards.indices(MESH.rank((1, 2, 0))) == (slice(10, 12),)
    assert (shards.replicas, shards.even) == (2, True)
    assert shards.ranks_of((11,)) == (MESH.rank((1, 2, 0)), MESH.rank((1, 2, 1)))


def test_one_way_to_write_a_placement():
    even = Placement((Split(("dp",), 4), Split((), 3)), ("pp", "tp"), "max").normal((8, 5), MESH)
    assert even == Placement((Split(("dp",)), Split()), ("tp", "pp"), "max")
    assert Placement((Split(("dp",), 3),)).normal((8,), MESH).splits == (Split(("dp",), 3),)
    assert Placement((Split(),), (), "max").normal((8,), MESH) == Placement.replicated(1)


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (Placement((Split(("dp",)), Split(("dp",)))), "mesh axis 'dp' is used twice"),
        (Placement((Split(("dp",)), Split()), ("dp",)), "mesh axis 'dp' is used twice"),
        (Placement((Split(("dp",)),)), r"1 dimensions are placed, and the shape \(8, 8\) has 2"),
    ],
)
def test_what_is_no_placement(placement: Placement, message: str):
    with pytest.raises(BadShardSpec, match=message):
        ShardMap.of((8, 8), placement, MESH)


def test_axes_that_there_are_not():
    with pytest.raises(BadMesh, match="the mesh has no axis 'ep'"):
        ShardMap.of((8,), Placement((Split(("ep",)),)), MESH)
