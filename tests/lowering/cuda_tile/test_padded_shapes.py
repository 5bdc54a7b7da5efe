"""Padding, and which reshapes keep it behind the elements."""

from unittest.mock import sentinel

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.lowering.cuda_tile.builder import TileBuilder
from tessera.lowering.cuda_tile.instructions import Block, TileType, Value, padded
from tessera.lowering.cuda_tile.padded_shapes import keeps_places, real_elements


def test_which_reshapes_are_possible():
    assert keeps_places([5], [5, 1])
    assert keeps_places([1, 5, 7], [5, 1, 7])
    assert keeps_places([12, 8], [3, 4, 8])
    assert keeps_places([5, 4], [20])
    assert keeps_places([64, 32], [2048])
    assert not keeps_places([5, 6], [30])
    assert not keeps_places([4, 5], [20])
    assert not keeps_places([6, 10], [5, 12])


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.lists(st.integers(1, 12), min_size=1, max_size=3))
def test_a_reshape_that_is_said_to_keep_places_does(before: list[int], after: list[int]):
    if np.prod(before) != np.prod(after) or not keeps_places(before, after):
        return
    held = np.full(padded(before), -1)
    held[tuple(slice(n) for n in before)] = np.arange(np.prod(before)).reshape(before)
    moved = held.reshape(padded(after))[tuple(slice(n) for n in after)]
    assert np.array_equal(moved, np.arange(np.prod(after)).reshape(after))


def test_powers_of_two_have_no_padding():
    build = TileBuilder(Block(), sentinel.location)
    assert real_elements(build, [4, 8], [0, 1]) is None
    assert real_elements(build, [4, 5], [0]) is None
    mask = real_elements(build, [4, 5], [0, 1])
    assert isinstance(mask, Value)
    assert mask.type == TileType("i1", (4, 8))
