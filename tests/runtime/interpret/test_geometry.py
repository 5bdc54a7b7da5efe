"""Groups, lanes and ids of a launch."""

import numpy as np
import pytest

from support.builder import Builder
from tessera.core.program.program import Domain
from tessera.runtime.interpret.geometry import Geometry, Window, launch_geometry

LANES = Domain("lanes", ("n", "m", 7))


@pytest.mark.parametrize(
    ("domain", "tile", "grid", "group", "expected"),
    [
        (Domain("single"), None, None, None, ((1, 1, 1), (1, 1, 1))),
        (Domain("single"), None, (4,), (32,), ((1, 1, 1), (1, 1, 1))),
        (LANES, None, None, None, ((1, 1, 1), (100, 1, 1))),
        (LANES, None, (4,), (32,), ((1, 1, 1), (128, 1, 1))),
        (LANES, None, (2, 3), (8, 4), ((1, 1, 1), (192, 1, 1))),
        (LANES, (32,), None, None, ((4, 1, 1), (32, 1, 1))),
        (LANES, (8, 4), None, None, ((4, 1, 1), (8, 4, 1))),
        (LANES, (32,), (2, 3), None, ((2, 3, 1), (32, 1, 1))),
        (LANES, (32,), (5,), (32,), ((5, 1, 1), (32, 1, 1))),
        (Domain("groups", ("m",)), (32,), None, None, ((40, 1, 1), (32, 1, 1))),
        (Domain("lanes", (("mul", 2, ("mul", "n", "m")),)), (32,), None, None, ((250, 1, 1), (32, 1, 1))),
        (Domain("lanes", axes=(("n", 8), ("m",))), (8, 4), None, None, ((13, 10, 1), (8, 4, 1))),
        (Domain("lanes", axes=(("n",), ("m",))), (8, 4), (2, 3), None, ((2, 3, 1), (8, 4, 1))),
        (Domain("groups", ("m",)), None, None, None, ((40, 1, 1), (1, 1, 1))),
    ],
)
def test_launch_geometry(
    domain: Domain,
    tile: tuple[int, ...] | None,
    grid: tuple[int, ...] | None,
    group: tuple[int, ...] | None,
    expected: tuple[tuple[int, int, int], tuple[int, int, int]],
) -> None:
    program = Builder("k").program(domain=domain, group=tile)
    geometry = launch_geometry(program, grid, group, {"n": 100, "m": 40})
    assert (geometry.grid, geometry.group) == expected


def test_a_domain_that_is_not_known_needs_a_grid() -> None:
    program = Builder("k").program(domain=Domain("lanes"), group=(32,))
    with pytest.raises(ValueError, match="a grid must be given"):
        launch_geometry(program, None, None, {})
    assert launch_geometry(program, (3,), None, {}).groups == 3


def test_nothing_to_do() -> None:
    program = Builder("k").program(domain=Domain("lanes", ("n",)))
    assert launch_geometry(program, None, None, {"n": 0}).groups == 0


def test_ids_with_the_last_axis_fastest() -> None:
    geometry = Geometry((2, 3, 1), (2, 4, 1))
    window = Window(geometry, 5, 0, 8)
    assert window.identity("lane", None).tolist() == list(range(8))
    assert window.identity("lane", 0).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert window.identity("lane", 1).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert window.identity("lane", 2).tolist() == [0] * 8
    assert [int(window.identity("group", axis)) for axis in (None, 0, 1, 2)] == [5, 1, 2, 0]
    assert window.identity("thread", None).tolist() == list(range(40, 48))
    assert window.identity("thread", 0).tolist() == [2, 2, 2, 2, 3, 3, 3, 3]
    assert window.identity("thread", 1).tolist() == [8, 9, 10, 11, 8, 9, 10, 11]
    assert [int(window.identity("group_lanes", axis)) for axis in (None, 0, 1, 2)] == [8, 2, 4, 1]
    assert [int(window.identity("grid_groups", axis)) for axis in (None, 0, 1, 2)] == [6, 2, 3, 1]


def test_warps() -> None:
    window = Window(Geometry((1, 1, 1), (100, 1, 1)), 0, 32, 100)
    assert np.array_equal(window.identity("warp", None), np.arange(32, 100) // 32)
    assert np.array_equal(window.identity("lane_in_warp", None), np.arange(32, 100) % 32)
    assert window.identity("group", None).shape == ()
