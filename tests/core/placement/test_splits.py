"""Pieces of a dimension: every distribution against a plain enumeration, and what they are called."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.placement.splits import Pieces, even_share


@given(st.integers(0, 70), st.integers(1, 9), st.integers(0, 12))
def test_every_index_has_one_owner_and_a_place_of_its_own(extent: int, pieces: int, block: int):
    cut = Pieces.of(extent, pieces, block)
    held: dict[int, list[int]] = {piece: [] for piece in range(pieces)}
    for index in range(extent):
        piece, local = cut.owner(index), cut.local(index)
        assert len(held[piece]) == local
        assert cut.index(piece, local) == index
        held[piece].append(index)
    for piece, indices in held.items():
        assert cut.count(piece) == len(indices)
        np.testing.assert_array_equal(np.arange(extent)[cut.indices(piece)], indices)
    assert cut.padded == max(map(len, held.values()))
    assert cut.even == (len({len(each) for each in held.values()}) == 1 and extent % cut.block == 0)


def test_the_distributions():
    block, cyclic, cyclic_by_2 = (Pieces.of(10, 3, block) for block in (0, 1, 2))
    assert [np.arange(10)[block.indices(piece)].tolist() for piece in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [np.arange(10)[cyclic.indices(piece)].tolist() for piece in range(3)] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert [np.arange(10)[cyclic_by_2.indices(piece)].tolist() for piece in range(3)] == [
        [0, 1, 6, 7], [2, 3, 8, 9], [4, 5],
    ]  # fmt: skip


@pytest.mark.parametrize(("extent", "pieces", "share"), [(8192, 9, 911), (8, 9, 1), (0, 3, 1), (72, 9, 8)])
def test_even_shares(extent: int, pieces: int, share: int):
    assert even_share(extent, pieces) == share


def test_large_extents_cost_nothing():
    cut = Pieces.of(10**12, 72)
    assert cut.indices(71) == slice(71 * cut.block, 10**12)
    assert cut.owner(10**12 - 1) == 71
