"""How many groups a launch has."""

import numpy as np
import pytest

from support.artifacts import scale_artifact
from tessera.core.artifact import LaunchRule
from tessera.core.errors.catalog import BadGrid, MissingSchedule
from tessera.runtime.binding.grid import Grid, GridRule, Shape, read_grid

ONE = (1, 1, 1)


def shape_of(rule: LaunchRule, grid: Grid | None = None, *, n: int = 1000, m: int = 70) -> Shape:
    places = {"n": (0, 1), "m": (1, 1), "K": (1, 2)}
    return GridRule(scale_artifact(launch=rule), places.__getitem__).shape([n, m], grid)


def test_lanes_cover_the_largest_extent():
    rule = LaunchRule("lanes", ("m", "n", 5), lanes_per_group=256)
    assert shape_of(rule) == Shape(ONE, 4, 1000)
    assert shape_of(rule, n=0, m=0) == Shape(ONE, 1, 5)


def test_lanes_of_an_explicit_grid():
    rule = LaunchRule("lanes", ("n",), lanes_per_group=100)
    assert shape_of(rule, Grid((2, 3), (16, 2))) == Shape(ONE, 2, 192)
    assert shape_of(rule, Grid((7,))) == Shape(ONE, 1, 7)


def test_nothing_to_do():
    assert shape_of(LaunchRule("lanes", ("n",), lanes_per_group=100), n=0).units == 0
    assert shape_of(LaunchRule("lanes", ("n",), lanes_per_group=100), Grid((0,), (4,))).units == 0


def test_groups_cover_the_domain():
    assert shape_of(LaunchRule("groups", ("n",), (16, 8))) == Shape((8, 1, 1), 8, 1024)


def test_groups_counted_by_a_symbol():
    rule = LaunchRule("groups", ("n",), (128,), count=("m", 3))
    assert shape_of(rule) == Shape((70, 1, 1), 70, 70 * 128)


def test_a_scaled_symbol():
    assert shape_of(LaunchRule("groups", (), (1,), count=("K",))).units == 140


def test_groups_of_an_explicit_grid():
    rule = LaunchRule("groups", ("n",), (128,))
    assert shape_of(rule, Grid((2, 3, 4))) == Shape((2, 3, 4), 24, 24 * 128)
    assert shape_of(rule, Grid((2,), (128, 1))).units == 2


def test_a_block_that_is_not_the_kernels():
    with pytest.raises(
        BadGrid, match="scale has groups of \\(128,\\) lanes, the launch gives blocks of \\(64,\\)"
    ) as caught:
        shape_of(LaunchRule("groups", ("n",), (128,)), Grid((2,), (64,)))
    assert caught.value.hint == "write scale[(2,), (128,)](...)"


def test_ranges_and_single_run_the_same_on_any_grid():
    ranges = LaunchRule("ranges", ranges=(("n", 128), ("m", 64), (10, 3)))
    assert shape_of(ranges).units == 8 * 2 * 4
    assert shape_of(ranges, Grid((5,), (5,))).units == 64
    assert shape_of(LaunchRule("single"), Grid((9,))) == Shape(ONE, 1, 1)


def test_a_domain_that_nothing_tells():
    with pytest.raises(MissingSchedule, match="nothing tells how many lanes scale needs"):
        shape_of(LaunchRule("lanes", lanes_per_group=128))
    assert shape_of(LaunchRule("lanes", lanes_per_group=128), Grid((1,), (128,))).units == 1


@pytest.mark.parametrize(
    ("blocks", "threads", "grid"),
    [(4, None, Grid((4,))), ((4, 2), 32, Grid((4, 2), (32,))), ([1, 2, 3], (np.int64(8),), Grid((1, 2, 3), (8,)))],
)
def test_read_grid(blocks: object, threads: object, grid: Grid):
    assert read_grid(blocks, threads) == grid


@pytest.mark.parametrize(
    ("blocks", "threads", "message"),
    [
        (1.5, None, "made of integers, got 1.5"),
        ("4", None, "got '4'"),
        (True, None, "got True"),
        ((), None, "1 to 3 axes, got 0"),
        ((1, 1, 1, 1), None, "got 4"),
        ((-1,), None, "grid of \\(-1,\\)"),
        ((1,), (0,), "block of \\(0,\\)"),
        ((1 << 31,), None, "grid of"),
    ],
)
def test_bad_grids(blocks: object, threads: object, message: str):
    with pytest.raises(BadGrid, match=message):
        read_grid(blocks, threads)
