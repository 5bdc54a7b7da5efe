"""The collectives view: shards before and after, bytes between each pair, and texts."""

from support.mesh_mlp import arrays, line, mlp
from tessera import dist, op, viz
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer
from tessera.lowering.sharding.inserted import inserted_collectives
from tessera.viz.mesh.collectives_view import pairwise
from tessera.viz.mesh.on_mesh import on_mesh


def test_an_all_reduce_before_and_after():
    view = viz.collectives(mlp, *arrays(line(), stored=False))
    (each,) = view.data.collectives
    assert (each.kind, each.axes, each.before, each.after) == (
        "all_reduce",
        "tp",
        "f32[16@dp, 8]{sum: tp}",
        "f32[16@dp, 8]",
    )
    assert each.sent == 384
    assert each.line > 0
    assert each.picture is not None
    assert each.result is not None
    assert each.result.transfers == ()
    # In each of two groups of four, each sends each other a slice of its part, and a slice of the result.
    assert len(each.picture.transfers) == 2 * 4 * 3
    assert sum(moved.size for moved in each.picture.transfers) == 8 * each.sent
    text = view.text().splitlines()
    assert text[0] == "collectives of mlp on mesh(dp=2, tp=4), 8 devices, all simulated: sim:0 to sim:7: 1 collective"
    assert "f32[16@dp, 8]{sum: tp} -> f32[16@dp, 8], 384 bytes a device, " in text[1]
    assert "(unmeasured), line " in text[1]


def test_a_gather_moves_what_devices_lack():
    def multiply(x: Tracer, w: Tracer) -> object:
        return op.matmul(x, w)

    scores: GraphFunction[..., object] = GraphFunction(multiply, "scores")
    mesh = line(4, 4)
    x = dist.tensor((4, 8), dist.ShardSpec(("row",), ("tp",)), mesh)
    w = dist.tensor((8, 4096), dist.ShardSpec(("col",), ("tp",)), mesh)
    (each,) = viz.collectives(scores, x, w).data.collectives
    assert (each.kind, each.before, each.after) == ("all_gather", "f32[4@tp, 8]", "f32[4, 8]")
    assert each.picture is not None
    assert {moved.size for moved in each.picture.transfers} == {32}


def test_a_mesh_of_one_device_has_none():
    view = viz.collectives(mlp, *arrays(line(2, 1), stored=False))
    assert view.data.collectives == ()
    assert view.text().endswith(": 0 collectives")
    assert "<table" in view.plain_html()


def test_bytes_between_pairs_are_those_that_are_sent():
    executable = on_mesh(mlp, arrays(line(72, 8), stored=False, rows=72), "collectives")
    (each,) = inserted_collectives(executable.sharded)
    moved = pairwise(each, executable.mesh)
    sent = each.step.moved(each.value.type, executable.mesh.size)
    for device in (0, 71):
        assert sum(one.size for one in moved if one.source == device) == sent


def test_without_scripts_there_is_a_table():
    plain = viz.collectives(mlp, *arrays(line(), stored=False)).plain_html()
    assert "all_reduce over tp" in plain
    assert "f32[16@dp, 8]{sum: tp}" in plain
