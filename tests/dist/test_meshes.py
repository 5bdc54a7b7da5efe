"""The public mesh: what is simulated and how axes were factored is printed; the mesh in use."""

import pytest

from support.documents import BLOCKS
from tessera import dist
from tessera.api.source_module import compile_source
from tessera.core.errors.catalog import BadMesh
from tessera.core.placement.mesh import Mesh as PlacedMesh
from tessera.dist import meshes
from tessera.dist.meshes import mesh_in_use


def run(name: str) -> dist.Mesh:
    """The mesh of a block of the documents, as plain Python."""
    found: dict[str, object] = {}
    exec(BLOCKS[name], found)
    mesh = found["mesh"]
    assert isinstance(mesh, dist.Mesh)
    return mesh


@pytest.mark.parametrize("in_a_cell", [False, True])
def test_the_mesh_of_72(in_a_cell: bool, capsys: pytest.CaptureFixture[str]):
    mesh = compile_source(BLOCKS["mesh_72"]).mesh if in_a_cell else run("mesh_72")
    assert (mesh.axes, mesh.shape) == (("tp", "pp", "dp"), (6, 4, 3))
    assert len(mesh.simulated) == 72
    assert capsys.readouterr().out == "mesh(tp=6, pp=4, dp=3), 72 devices, all simulated: sim:0 to sim:71\n"


@pytest.mark.parametrize("in_a_cell", [False, True])
def test_the_mesh_with_a_shape(in_a_cell: bool, capsys: pytest.CaptureFixture[str]):
    mesh = compile_source(BLOCKS["mesh"]).mesh if in_a_cell else run("mesh")
    assert (mesh.axes, mesh.shape) == (("dp", "tp", "pp"), (4, 9, 2))
    assert mesh.domain_of(71) == 17
    assert capsys.readouterr().out == "mesh(dp=4, tp=9, pp=2), 72 devices, all simulated: cuda:0 to cuda:71\n"


def test_what_there_is_nothing_to_say_about(capsys: pytest.CaptureFixture[str]):
    mesh = dist.Mesh("dp", ["cpu:0", "cpu:1"])
    assert not mesh.simulated
    assert capsys.readouterr().out == ""
    assert repr(mesh) == "mesh(dp=2), 2 devices: cpu:0 to cpu:1"
    dist.Mesh(("dp", "tp"), ["cpu:0", "cpu:1"])  # factored
    assert capsys.readouterr().out == "mesh(dp=2, tp=1), 2 devices: cpu:0 to cpu:1\n"
    dist.Mesh("dp", ["cpu:0", "cuda:1"])
    assert capsys.readouterr().out == "mesh(dp=2), 2 devices, 1 of them simulated: cuda:1\n"


def test_gpus_are_taken_where_there_are_enough(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(meshes, "count", lambda: 4)
    assert [str(each) for each in dist.Mesh("dp", range(4)).devices] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert [str(each) for each in dist.Mesh("dp", ["cuda:3", "sim:9"]).devices] == ["cuda:3", "sim:9"]
    assert capsys.readouterr().out == "mesh(dp=2), 2 devices, 1 of them simulated: cuda:3, sim:9\n"
    assert all(each.kind == "sim" for each in dist.Mesh("dp", range(5)).devices)
    assert all(each.kind == "sim" for each in dist.Mesh("dp", ["cuda:1", "cuda:4"]).devices)


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count none, whatever the machine has."""
    monkeypatch.setattr(meshes, "count", lambda: 0)


def test_meshes_are_values():
    mesh = dist.mesh("dp", range(4))
    assert mesh == dist.Mesh("dp", range(4)) == PlacedMesh.of("dp", range(4))
    assert PlacedMesh.of("dp", range(4)) == mesh
    assert mesh != dist.Mesh("tp", range(4))
    assert (mesh == 3) is False
    assert len({mesh, dist.Mesh("dp", range(4))}) == 1
    assert dist.Mesh("dp", range(4), memory=1 << 30).memory == 1 << 30


def test_the_mesh_in_use():
    first = dist.Mesh("dp", range(4))
    second = dist.Mesh("tp", range(2))
    assert mesh_in_use() is second
    with first:
        assert mesh_in_use() is first
        with second:
            assert mesh_in_use() is second
        assert mesh_in_use(("dp",)) is first
    assert mesh_in_use() is second
    with pytest.raises(BadMesh, match="the mesh has no axis 'dp'"):
        mesh_in_use(("dp",))


def test_without_a_mesh(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dist.Mesh, "latest", None)
    with pytest.raises(BadMesh, match="there is no mesh yet") as raised:
        dist.tensor((8,))
    assert (
        str(raised.value).splitlines()[-1] == '  try: make one first: mesh = dist.Mesh(axes=["dp"], devices=range(8))'
    )


def test_mistakes_point_into_the_users_text():
    with pytest.raises(BadMesh) as raised:
        dist.Mesh(axes=["tp"], devices=range(8), shape=(9,))
    line = raised.value.span.line
    assert str(raised.value).splitlines() == [
        "TSR-E601 not a mesh: 9 = 9 places do not fit 8 devices",
        f"  --> {__file__}, line {line}, column 9",
        f'{line:>4} |         dist.Mesh(axes=["tp"], devices=range(8), shape=(9,))',
        f"     |         {'^' * 52}",
        "  try: write shape=(8), say, or leave it out",
    ]


def test_numbers_that_are_named_twice():
    with pytest.raises(BadMesh, match=r"device 3 is named twice"):
        dist.Mesh("tp", [1, 3, 3])
