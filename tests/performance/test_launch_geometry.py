"""Grids of launches, and the order in which rasterized kernels do their groups."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.compilations import saxpy_compilation
from tessera.core.artifact import Binding, LaunchRule
from tessera.core.base.dtypes import f32
from tessera.core.base.source import NOWHERE
from tessera.core.program.types import Array
from tessera.core.work import Shape
from tessera.performance.launch_geometry import GridAxis, coordinates, grid_axes, raster_order, tiled_array


def artifact(rule: LaunchRule):
    return dataclasses.replace(saxpy_compilation().artifact, launch=rule)


def test_ranges_are_axes_named_after_what_they_divide():
    found = grid_axes(artifact(LaunchRule("ranges", ranges=(("m", 64), ("n", 32)))), Shape({"m": 130, "n": 64}, 6))
    assert found == (GridAxis("m", 3, 64), GridAxis("n", 2, 32))


def test_grids_that_were_given_are_axes_by_letter():
    rule = LaunchRule("groups", group=(8, 16))
    assert grid_axes(artifact(rule), Shape({}, 12, (3, 4, 1))) == (GridAxis("x", 3, 8), GridAxis("y", 4, 16))
    assert grid_axes(artifact(rule), Shape({}, 5, (5, 1, 1))) == (GridAxis("x", 5, 8),)


def test_lanes_are_one_axis():
    rule = LaunchRule("lanes", extents=("n",), lanes_per_group=256)
    assert grid_axes(artifact(rule), Shape({"n": 1000}, 4)) == (GridAxis("n", 4, 256),)


def test_a_grid_that_does_not_multiply_to_the_groups_is_one_axis():
    rule = LaunchRule("ranges", ranges=(("m", 64),))
    assert grid_axes(artifact(rule), Shape({"m": 640}, 7)) == (GridAxis("group", 7, 1),)
    assert grid_axes(artifact(LaunchRule("single")), Shape({}, 1)) == (GridAxis("group", 1, 1),)


def test_the_written_array_that_a_grid_divides():
    bindings = (
        Binding("A", Array(f32, ("m", "n")), mutable=False, span=NOWHERE),
        Binding("s", Array(f32, ("m",)), mutable=True, span=NOWHERE),
        Binding("C", Array(f32, (2, "n", "m")), mutable=True, span=NOWHERE),
    )
    made = dataclasses.replace(artifact(LaunchRule("single")), bindings=bindings)
    found = tiled_array(made, (GridAxis("m", 3, 64), GridAxis("n", 2, 32)), {"m": 130, "n": 64})
    assert found is not None
    assert (found.name, found.shape, found.dims) == ("C", (2, 64, 130), (2, 1))
    assert tiled_array(made, (GridAxis("k", 3, 64),), {"m": 130, "n": 64}) is None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_coordinates_count_the_last_axis_fastest(sizes: list[int], data: st.DataObject):
    group = data.draw(st.integers(0, math.prod(sizes) - 1))
    assert coordinates(group, sizes) == tuple(int(n) for n in np.unravel_index(group, sizes))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 9), st.sampled_from([1, 2]))
def test_rasterization_does_every_group(rows: int, columns: int, raster_group: int, cluster: int):
    raster_group *= cluster
    order = raster_order(rows, columns, raster_group, cluster)
    assert set(order.tolist()) == set(range(rows * columns))
    if cluster == 1:
        assert len(order) == rows * columns


@pytest.mark.parametrize(("raster_group", "expected"), [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 2, 1, 3, 4, 5])])
def test_bands_go_column_after_column(raster_group: int, expected: list[int]):
    assert raster_order(3, 2, raster_group).tolist() == expected
