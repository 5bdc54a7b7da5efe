"""Meshes: factoring, coordinates, groups along axes, physical domains, and what makes no mesh."""

import math

import numpy as np
import pytest

from tessera.core.errors.catalog import BadMesh
from tessera.core.placement.devices import Device
from tessera.core.placement.mesh import Mesh, PhysicalDomain, even_shape


@pytest.mark.parametrize(
    ("count", "axes", "shape"),
    [(72, 3, (6, 4, 3)), (72, 2, (9, 8)), (72, 1, (72,)), (8, 3, (2, 2, 2)), (8, 2, (4, 2)), (7, 2, (7, 1)),
     (1, 3, (1, 1, 1)), (64, 3, (4, 4, 4)), (12, 2, (4, 3)), (36, 3, (4, 3, 3))],
)  # fmt: skip
def test_factoring_is_as_even_as_possible_and_the_first_largest(count: int, axes: int, shape: tuple[int, ...]):
    assert even_shape(count, axes) == shape


def test_every_factorization_is_one():
    for count in range(1, 145):
        for axes in (1, 2, 3, 4):
            shape = even_shape(count, axes)
            assert math.prod(shape) == count
            assert list(shape) == sorted(shape, reverse=True)


def test_both_spellings_of_the_documents():
    mesh = Mesh.of(["tp", "pp", "dp"], range(72))
    assert mesh.shape == (6, 4, 3)
    assert str(mesh) == "mesh(tp=6, pp=4, dp=3), 72 devices: sim:0 to sim:71"
    given = Mesh.of(("dp", "tp", "pp"), [f"cuda:{i}" for i in range(72)], (4, 9, 2))
    assert (given.shape, given.devices[71], given.simulated) == ((4, 9, 2), Device("cuda", 71), ())


def test_coordinates_are_in_row_major_order():
    mesh = Mesh.of(("dp", "tp", "pp"), range(72), (4, 9, 2))
    table = np.arange(72).reshape(4, 9, 2)
    for rank in range(72):
        place = mesh.coordinates(rank)
        assert table[place] == rank
        assert mesh.rank(place) == rank


def test_groups_along_axes():
    mesh = Mesh.of(("dp", "tp", "pp"), range(24), (4, 3, 2))
    table = np.arange(24).reshape(4, 3, 2)
    assert mesh.along(("tp",)) == tuple(tuple(table[a, :, b].tolist()) for a in range(4) for b in range(2))
    assert mesh.along(("dp", "pp"))[1] == tuple(table[:, 1, :].reshape(-1).tolist())
    # The last named axis is fastest, whatever the order of the mesh.
    assert mesh.along(("pp", "dp"))[1] == tuple(table[:, 1, :].T.reshape(-1).tolist())
    assert mesh.along("tp") == mesh.along(("tp",))
    assert mesh.along(()) == tuple((rank,) for rank in range(24))
    assert sorted(rank for group in mesh.along(("dp", "tp")) for rank in group) == list(range(24))
    for rank in range(24):
        assert mesh.group(rank, ("tp", "dp"))[mesh.position(rank, ("tp", "dp"))] == rank


def test_sizes():
    mesh = Mesh.of(("dp", "tp", "pp"), range(24), (4, 3, 2))
    assert (mesh.size(), mesh.size("tp"), mesh.size(("dp", "pp")), mesh.size(())) == (24, 3, 8, 1)


def test_parts_of_a_mesh():
    mesh = Mesh.of(("dp", "tp"), range(6), (2, 3))
    part = mesh.at({"dp": 1})
    assert (part.axes, part.shape) == (("tp",), (3,))
    assert [each.index for each in part.devices] == [3, 4, 5]
    with pytest.raises(BadMesh, match="no axis is left"):
        mesh.at({"dp": 0, "tp": 0})
    with pytest.raises(BadMesh, match="axis 'dp' has no place 2"):
        mesh.at({"dp": 2})


def test_72_are_18_trays_of_4():
    mesh = Mesh.of(("dp", "tp", "pp"), range(72), (4, 9, 2))
    assert [str(each) for each in mesh.domains] == ["tray of 4", "NVL72 of 72"]
    assert {mesh.domain_of(rank) for rank in range(72)} == set(range(18))
    assert mesh.level_of((0, 3)) == 0
    assert mesh.level_of((3, 4)) == 1
    hosts = Mesh.of("dp", range(16))
    assert hosts.domains == (PhysicalDomain("host", 8),)
    assert hosts.level_of((7, 8)) == 1
    # Where a device stands is its own number, not its rank.
    assert Mesh.of("dp", [8, 0]).domain_of(0) == 1


def test_meshes_are_values():
    mesh = Mesh.of("tp", range(4))
    assert mesh == Mesh.of(("tp",), ["sim:0", "sim:1", "sim:2", "sim:3"], shape=4)
    assert len({mesh, Mesh.of("tp", range(4)), Mesh.of("dp", range(4))}) == 2


@pytest.mark.parametrize(
    ("axes", "devices", "shape", "message", "hint"),
    [
        (["tp"], range(8), (9,), "9 = 9 places do not fit 8 devices", "write shape=(8), say, or leave it out"),
        (("a", "b"), range(8), (2, 3), "2 x 3 = 6 places do not fit 8 devices", "write shape=(4, 2), say"),
        (("a", "b"), range(8), (8,), r"shape=\(8,\) does not fit the axes a, b", "a number from 1 on for each of a, b"),
        (("a", "b"), range(8), (8, 0), "does not fit the axes", "a number from 1 on"),
        (("a", "a"), range(4), None, "two axes are called 'a'", "a name of its own"),
        ((), range(4), None, "are no names of axes", "names as of variables"),
        (["d p"], range(4), None, "are no names of axes", "names as of variables"),
        (3, range(4), None, "axes=3 are no names of axes", "names as of variables"),
        (["a"], [], None, "needs at least one device", "devices=range"),
    ],
)
def test_what_makes_no_mesh(axes: object, devices: list[object], shape: object, message: str, hint: str):
    with pytest.raises(BadMesh, match=message) as raised:
        Mesh.of(axes, devices, shape)
    assert hint in raised.value.hint


def test_an_axis_that_there_is_not():
    with pytest.raises(BadMesh, match="the mesh has no axis 'pp'") as raised:
        Mesh.of(("dp", "tp"), range(4)).size("pp")
    assert raised.value.hint == "its axes are dp, tp"
