"""Timelines of pipelines on a virtual clock: a row a stage, its kernels, its collectives and what it sends."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportArgumentType=false

import pytest

import tessera
from support.operators import Array
from tessera import dist, op


def layer(p: Array, x: Array) -> Array:
    return op.relu(x @ p)


def loss(y: Array, target: Array) -> Array:
    return op.mean((y - target) ** 2)


def declared(pipe: "tessera.api.pipelines.pipeline.Pipeline", width: int) -> list[dist.Tensor]:
    return [dist.tensor((width, width), dist.ShardSpec("col", "tp"), mesh, "bf16") for mesh in pipe.meshes]


def test_sizes_that_no_machine_holds():
    mesh = dist.Mesh(axes=("pp", "dp", "tp"), devices=range(72), shape=(4, 2, 9))
    pipe = tessera.pipeline([layer] * 4, mesh=mesh, micro_batches=8, layout=dist.Block("dp"))
    x = dist.tensor((1 << 16, 9216), None, dist.Mesh("dp", range(2)), "bf16")
    timeline = pipe.timeline(declared(pipe, 9216), x)
    assert timeline.clock == "virtual"
    assert [row.name.partition(",")[0] for row in timeline.rows] == [f"stage {n}" for n in range(4)]
    assert [len(row.devices) for row in timeline.rows] == [18] * 4
    # eight micro-batches of 8192 rows; each of two shards of rows is cut over nine devices, as columns of the product
    assert [row.sent for row in timeline.rows[:3]] == [pytest.approx(8 * 4096 * 1024 * 2)] * 3
    assert timeline.rows[3].sent == 0
    starts = [next(span.start for span in row.spans if span.name == "F0") for row in timeline.rows]
    assert starts == sorted(starts)
    assert starts[1] > 0
    assert not x.stored


def test_a_step_with_gradients_takes_longer_and_its_order_decides_when_stages_wait():
    mesh = dist.Mesh(axes=("pp", "tp"), devices=range(8), shape=(4, 2))
    seconds: dict[str, float] = {}
    for schedule in ("gpipe", "1f1b"):
        pipe = tessera.pipeline([layer] * 4, mesh=mesh, micro_batches=8, schedule=schedule)
        x = dist.tensor((8192, 4096), None, dist.Mesh("dp", range(2)), "bf16")
        forwards = pipe.timeline(declared(pipe, 4096), x)
        step = pipe.timeline(declared(pipe, 4096), x, x, loss)
        seconds[schedule] = step.seconds
        assert step.seconds > 2 * forwards.seconds
        assert {span.name[0] for span in step.rows[0].spans if span.kind == "compute"} == {"F", "B"}
    assert seconds["1f1b"] == pytest.approx(seconds["gpipe"], rel=0.3)


def test_interleaved_stages_wait_less():
    mesh = dist.Mesh(axes=("pp", "tp"), devices=range(8), shape=(4, 2))
    x = dist.tensor((8192, 4096), None, dist.Mesh("dp", range(2)), "bf16")
    seconds: dict[str, float] = {}
    for schedule in ("1f1b", "interleaved"):
        functions = [layer] * 8 if schedule == "interleaved" else [lambda p, x: layer(p[1], layer(p[0], x))] * 4
        pipe = tessera.pipeline(functions, mesh=mesh, micro_batches=4, schedule=schedule)
        parameters = declared(pipe, 4096)
        if schedule == "1f1b":
            parameters = [
                (each, dist.tensor((4096, 4096), dist.ShardSpec("row", "tp"), each.mesh, "bf16")) for each in parameters
            ]
        seconds[schedule] = pipe.timeline(parameters, x, x, loss).seconds
    assert seconds["interleaved"] < seconds["1f1b"]
