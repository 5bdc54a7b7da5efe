"""Meshes and tensors of `tessera.dist` in the mesh view."""

import pytest

from tessera import dist
from tessera.core.errors.catalog import NothingToShow
from tessera.viz import mesh_view
from tessera.viz.mesh.model import Mesh, sharded
from tessera.viz.mesh.placed import array_model, mesh_model


def test_72_devices_stand_in_18_trays():
    mesh = mesh_model(dist.Mesh(("dp", "tp", "pp"), range(72), (4, 9, 2)))
    assert (mesh.name, mesh.link) == ("simulated NVL72", "one NVLink switch domain")
    assert len({device.enclosure for device in mesh.devices}) == 18
    assert mesh.devices[71].place == (3, 8, 1)
    real = mesh_model(dist.Mesh("dp", ["cpu:0", "cpu:9"]))
    assert (real.name, [device.enclosure for device in real.devices]) == ("mesh", ["host 0", "host 1"])


def test_blocks_are_those_of_the_view_itself():
    place = dist.Mesh(("a", "b"), range(6), (2, 3))
    x = dist.tensor((7, 5, 4), dist.Block((None, ("b", "a"))), place, "bf16", "x")
    found = array_model(x)
    want = sharded(Mesh.of({"a": 2, "b": 3}), (7, 5, 4), (None, ("b", "a"), None), x.type.dtype, "x")
    assert found is not None
    assert (found.shards, found.replicas, found.spec) == (want.shards, want.replicas, want.spec)


def test_what_a_change_of_layout_moves():
    place = dist.Mesh("tp", range(4))
    x = dist.tensor((8, 4), dist.Block("tp"), place, "bf16", "x")
    view = mesh_view(x, to=x.reshard(dist.Replicated()))
    assert sum(each.size for each in view.data.transfers) == x.plan(dist.Replicated()).received
    assert view.text().startswith("x: bf16[8, 4] over (tp, -) of ")
    assert mesh_view(place).text() == "mesh simulated mesh(tp=4), 4 devices"


def test_shards_that_are_no_blocks():
    x = dist.tensor((8,), dist.Cyclic("tp"), dist.Mesh("tp", range(4)))
    assert array_model(x) is None
    with pytest.raises(NothingToShow, match="an array in blocks"):
        mesh_view(x)
