"""Indices solved for the axes that they are made of."""

import pytest

from tessera.lowering.raising.positions import AffinePosition, Axis, NotAffine, along
from tessera.lowering.raising.solve import Overlapping, solve

GROUP, LANE, ROW, COLUMN = Axis(1, 4), Axis(2, 8), Axis(3, 32), Axis(4, 10)


def test_blocks_of_lanes():
    places, conditions = solve([along(GROUP).times(8).plus(along(LANE))], [along(ROW)])
    assert places == {GROUP: along(ROW).quotient(8), LANE: along(ROW).remainder(8)}
    assert not conditions


def test_an_axis_that_is_split_over_two_indices():
    linear = Axis(5, 320)
    places, conditions = solve([along(linear).quotient(10), along(linear).remainder(10)], [along(ROW), along(COLUMN)])
    assert places == {linear: along(ROW).times(10).plus(along(COLUMN))}
    assert not conditions


def test_strides_and_ends_are_conditions():
    places, conditions = solve([along(LANE).times(2)], [along(COLUMN)])
    assert places == {LANE: along(COLUMN).quotient(2)}
    assert along(COLUMN).remainder(2).times(-1) in conditions  # odd places are not reached
    places, conditions = solve([along(LANE).times(2).add(3)], [along(COLUMN)])
    assert places == {LANE: along(COLUMN).quotient(2).add(-1)}
    difference = along(COLUMN).remainder(2).add(-1)
    assert {difference.times(-1), along(COLUMN).quotient(2).add(-1)} & conditions
    backwards, _ = solve([along(COLUMN).times(-1).add(9)], [along(COLUMN)])
    assert backwards == {COLUMN: along(COLUMN).times(-1).add(9)}


def test_a_diagonal_is_a_condition():
    _, conditions = solve([along(LANE), along(LANE)], [along(ROW), along(COLUMN)])
    difference = along(ROW).plus(along(COLUMN), -1)
    assert {difference, difference.times(-1)} & conditions


@pytest.mark.parametrize("index", [along(GROUP).plus(along(LANE)), along(ROW).remainder(4), along(ROW).quotient(4)])
def test_places_that_several_points_reach(index: AffinePosition):
    with pytest.raises((Overlapping, NotAffine)):
        solve([index], [along(COLUMN)])
