"""Dimensions of a launch: what ids are, and how often something happens under masks, against plain counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.work import Shape
from tessera.performance.index_evaluation import MOST, Table
from tessera.performance.iteration_space import LaunchSpace


def space(shape: Shape, *trips: int, lanes: bool = False, group: tuple[int, ...] = ()) -> LaunchSpace:
    return LaunchSpace(shape, trips, lanes=lanes, group=group or (shape.lanes,))


def test_groups_and_lanes_are_dimensions():
    found = space(Shape({}, 6, (3, 2, 1), 32), lanes=True)
    assert found.grid == [0, 1, 2]
    assert found.lane == 3
    assert found.zeros().shape == (3, 2, 1)
    assert found.identify("group", 1).values.tolist() == [0, 1]
    linear = found.identify("group", None)
    assert found.per_group(linear.values).tolist() == list(range(6))
    assert found.identify("lane", None).values.tolist() == list(range(32))
    assert found.identify("thread", 0).dims == (0, 3)
    assert found.identify("warp", 0) is None


def test_lanes_along_several_axes_are_in_the_order_of_arrays():
    found = space(Shape({}, 6, (3, 2, 1), 8), lanes=True, group=(2, 4))
    rows, columns = np.unravel_index(np.arange(8), (2, 4))
    assert found.identify("lane", 0).values.tolist() == rows.tolist()
    assert found.identify("lane", 1).values.tolist() == columns.tolist()
    assert found.identify("lane", 2).values.tolist() == [0] * 8
    assert found.identify("thread", 1).values.tolist() == [(4 * g + columns).tolist() for g in range(2)]
    assert [int(found.identify("group_lanes", axis).values) for axis in (None, 0, 1, 2)] == [8, 2, 4, 1]


def test_turns_of_loops_are_groups_where_they_are_spread():
    found = space(Shape({}, 12, ranges=2), 3, 4)
    assert found.zeros().shape == (3, 4)
    assert found.lane is None
    outer = found.along(found.grid[0])
    assert outer is not None
    counted = found.counts((), [outer], lanes=False)
    assert found.per_group(counted).tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_what_is_too_large_for_a_table_is_not_known():
    found = space(Shape({}, 1))
    assert found.along(found.dimension(MOST + 1)) is None
    assert found.along(found.dimension(-3)).values.size == 0


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.integers(0, 40))
def test_counts_are_those_of_plain_loops(groups: int, lanes: int, turns: int, bound: int):
    """Lanes of every group, in every turn of a loop, where group + lane * turn is below a bound."""
    found = space(Shape({}, groups, (groups, 1, 1), lanes), lanes=True)
    loop = found.dimension(turns)
    assert found.lane is not None
    group, lane, turn = np.ogrid[:groups, :lanes, :turns]
    mask = Table((0, found.lane, loop), (group + lane * turn < bound).astype(np.int64))
    for every, share in ((True, 1), (False, lanes)):
        counted = found.per_group(found.counts((loop,), [mask], lanes=every))
        np.testing.assert_allclose(counted, (group + lane * turn < bound).sum((1, 2)) / share)


@pytest.mark.parametrize(("lanes", "wanted"), [(True, [32, 32, 6]), (False, [1, 1, 1])])
def test_the_last_piece_of_a_launch_has_fewer_lanes(lanes: bool, wanted: list[int]):
    found = space(Shape({}, 3, (1, 1, 1), 32, whole=70), lanes=True)
    assert found.per_group(found.counts((), (), lanes=lanes)).tolist() == wanted
    assert found.identify("group_lanes", 0).values == 70
