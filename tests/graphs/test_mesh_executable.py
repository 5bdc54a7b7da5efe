"""Compiled graphs on meshes: as the oracle of the mesh, and a model against one device."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
import pytest

import tessera
from support import interpreted_gpus
from support.gradients import graph_of, reals
from support.mesh_arrays import Sharded
from support.operators import Array
from support.targets import RUNNABLE
from tessera import op
from tessera.core.base.dtypes import DType, bf16, f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.graphs.mesh_executable import MeshExecutable
from tessera.kernels.options import Options
from tessera.lowering.autodiff.reverse import vjp
from tessera.lowering.sharding.placements import dims_of, placed
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.mesh import part_of, whole_of
from tessera.runtime.memory.device_shards import on_host
from tessera.runtime.memory.owned import to_device

MESH = Mesh.of(("dp", "tp"), range(4), (2, 2))


def mlp(b: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
    return b.contract(b.unary("tanh", b.contract(x, w, ((0, 1), (1, 2)), (0, 2))), v, ((0, 1), (1, 2)), (0, 2))


@pytest.mark.parametrize("target", RUNNABLE)
def test_layers_and_their_gradients(target: str):
    graph = vjp(graph_of(mlp, (f32, (8, 16)), (f32, (16, 32)), (f32, (32, 16))), (0, 1, 2))
    x, w, v, g = graph.inputs
    parts = {x: placed([("dp",), ()]), w: placed([(), ("tp",)]), v: placed([("tp",), ()]), g: placed([("dp",), ()])}
    executable = MeshExecutable(graph, MESH, parts, options=Options(target=target))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=each.type.shape).astype(np.float32) for each in graph.inputs]
    shards = [
        [part_of(array, dims_of(parts[value]), MESH, rank) for rank in range(MESH.size())]
        for array, value in zip(arrays, graph.inputs, strict=True)
    ]
    made = executable.run(shards)
    for found, value, placement, wanted in zip(
        made, graph.outputs, executable.sharded.outputs, evaluate(graph, arrays), strict=True
    ):
        whole = whole_of([np.asarray(each) for each in found], value.type, dims_of(placement), MESH)
        np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("devices", [2, 4, 8])
def test_the_same_bits_on_meshes_of_any_size(target: str, devices: int):
    def run(count: int) -> list[np.ndarray]:
        graph = graph_of(mlp, (f32, (24, 16)), (f32, (16, 64)), (f32, (64, 24)))
        x, w, v = graph.inputs
        mesh = Mesh.of("tp", range(count))
        parts = {x: placed([(), ()]), w: placed([(), ("tp",)]), v: placed([("tp",), ()])}
        rng = np.random.default_rng(2)
        arrays = [rng.normal(size=each.type.shape).astype(np.float32) for each in graph.inputs]
        shards = [
            [part_of(array, dims_of(parts[value]), mesh, rank) for rank in range(count)]
            for array, value in zip(arrays, graph.inputs, strict=True)
        ]
        (made,) = MeshExecutable(graph, mesh, parts, options=Options(target=target)).run(shards)
        return [np.asarray(each) for each in made]

    (alone,) = run(1)
    for each in run(devices):
        np.testing.assert_array_equal(each.view(np.int32), alone.view(np.int32))


def test_what_is_returned_is_no_input():
    graph = graph_of(lambda b, x: (x, b.unary("neg", x)), reals(4, 3))
    (x,) = graph.inputs
    array = np.ones((2, 3))
    same, _ = MeshExecutable(graph, Mesh.of("dp", range(2)), {x: placed([("dp",), ()])}).run([[array, array]])
    array[...] = 5
    np.testing.assert_array_equal(np.asarray(same[0]), np.ones((2, 3)))


def shards_of(graph: Graph, parts: Mapping[Value, Placement], mesh: Mesh) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=each.type.shape).astype(np.float32) for each in graph.inputs]
    return [
        [part_of(array, dims_of(parts[value]), mesh, rank) for rank in range(mesh.size())]
        for array, value in zip(arrays, graph.inputs, strict=True)
    ]


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_same_bits_on_devices_of_every_kind(monkeypatch: pytest.MonkeyPatch, kind: str):
    """Data and tensor parallel layers with their gradients: simulated devices are the oracle."""
    graph = graph_of(
        lambda b, x, w, v: (mlp(b, x, w, v), b.unary("exp", x)),
        (f32, (8, 16)), (f32, (16, 32)), (f32, (32, 16)),
    )  # fmt: skip
    x, w, v = graph.inputs
    parts = {x: placed([("dp",), ()]), w: placed([(), ("tp",)]), v: placed([("tp",), ()])}

    def run(mesh: Mesh) -> list[list[np.ndarray]]:
        outputs = [placed([(), ()]), placed([(), ("dp",)])]
        target = "cuda:sm_90a" if mesh.devices[0].kind == "cuda" else "interpret"
        made = MeshExecutable(graph, mesh, parts, outputs, options=Options(target=target))
        return [[on_host(each) for each in shards] for shards in made.run(shards_of(graph, parts, mesh))]

    wanted = run(Mesh.of(("dp", "tp"), range(4), (2, 2)))
    if kind == "cuda":
        interpreted_gpus.install(monkeypatch, 4)
    found = run(Mesh.of(("dp", "tp"), [f"{kind}:{n}" for n in range(4)], (2, 2)))
    for mine, theirs in zip(found, wanted, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a.view(np.int32), b.view(np.int32))


def test_each_gpu_has_its_own_shards(monkeypatch: pytest.MonkeyPatch):
    fake = interpreted_gpus.install(monkeypatch, 2)
    graph = graph_of(lambda b, x: (x, b.unary("neg", x)), (f32, (4, 3)))
    (x,) = graph.inputs
    mesh = Mesh.of("dp", ["cuda:1", "cuda:0"])
    executable = MeshExecutable(graph, mesh, {x: placed([("dp",), ()])}, options=Options(target="cuda:sm_90a"))
    given = [to_device(np.full((2, 3), n + 1, np.float32), device) for n, device in enumerate((1, 0))]
    same, negated = executable.run([given])
    assert [each.device for each in (*same, *negated)] == [1, 0, 1, 0]
    assert {fake.owners[each.address] for each in (same[0], negated[0])} == {1}
    assert same[0].address != given[0].address
    np.testing.assert_array_equal(on_host(same[1]), np.full((2, 3), 2))
    np.testing.assert_array_equal(on_host(negated[0]), np.full((2, 3), -1))


def test_a_graph_in_a_captured_graph_of_launches():
    mesh, arrays = Mesh.of("tp", range(2)), np.arange(8, dtype=np.float32).reshape(4, 2)
    x = Sharded.of(arrays, mesh, "tp", "")
    with tessera.graph.capture() as captured:
        y = op.cumsum(x, axis=0)
        z = op.sum(y)
    assert captured.kernels == ("cumsum", "sum")
    for scale in (1, 3):
        for rank in range(2):
            x.shards[rank][...] = np.split(arrays, 2)[rank] * scale
        tessera.graph.launch(captured)
        np.testing.assert_array_equal(y.whole, np.cumsum(arrays * scale, axis=0))
        np.testing.assert_array_equal(z.whole, np.cumsum(arrays * scale, axis=0).sum())


@pytest.mark.parametrize("target", RUNNABLE)
def test_loops_and_branches_stay_cut(target: str):
    mesh = Mesh.of(("dp", "tp"), range(4), (2, 2))
    rng = np.random.default_rng(0)
    x, w, v = (rng.normal(size=shape).astype(np.float32) / 4 for shape in ((8, 16), (16, 32), (32, 16)))
    given = Sharded.of(x, mesh, "dp", ""), Sharded.of(w, mesh, "", "tp"), Sharded.of(v, mesh, "tp", "")

    def step(x: Array, w: Array, v: Array) -> Array:
        return op.tanh(op.matmul(op.tanh(op.matmul(x, w)), v))

    module = cast("Callable[..., Callable[[Callable[..., object]], Array]]", tessera.graph.module)

    @module("scanned", target=target)
    def scanned(x: Array, w: Array, v: Array) -> Array:
        return op.scan(lambda h, _: (step(h, w, v), op.sum(h, axis=-1)), x, length=3)

    @module("repeated", target=target)
    def repeated(x: Array, w: Array, v: Array) -> Array:
        return op.while_(lambda c: op.sum(c[0] ** 2) > 0.01, lambda c: (step(c[0], w, v) * 0.5, c[1] + 1), (x, 0))

    @module("chosen", target=target)
    def chosen(x: Array, w: Array, v: Array) -> Array:
        return op.cond(op.sum(x) > 0, lambda: op.matmul(x, w), lambda: op.matmul(x, op.transpose(v)))

    for both in (scanned, repeated):
        for found, wanted in zip(both(*given), both(x, w, v), strict=True):
            np.testing.assert_allclose(found.whole, wanted, rtol=1e-4, atol=1e-5)
    assert scanned(*given)[0].placement == given[0].placement
    for sign in (1, -1):
        found = chosen(Sharded.of(np.abs(x) * sign, mesh, "dp", ""), *given[1:])
        assert found.placement == placed([("dp",), ("tp",)])
        np.testing.assert_allclose(found.whole, chosen(np.abs(x) * sign, w, v), rtol=1e-4, atol=1e-5)
    slope = tessera.grad(lambda w: op.sum(scanned(given[0], w, given[2])[0]))(given[1])
    assert slope.placement == given[1].placement
    np.testing.assert_allclose(
        slope.whole, tessera.grad(lambda w: op.sum(scanned(x, w, v)[0]))(w), rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["cpu", "cuda", "sim"])
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_rows_that_devices_own_are_chosen(monkeypatch: pytest.MonkeyPatch, kind: str, dtype: DType):
    """The bits of -0 stay, which a sum with zeros would make 0."""
    if kind == "cuda":
        interpreted_gpus.install(monkeypatch, 2)
    graph = graph_of(lambda b, t, i: b.gather(t, i), (dtype, (64, 3)), (i64, (4,)))
    table, index = graph.inputs
    mesh = Mesh.of("tp", range(2) if kind == "sim" else [f"{kind}:{n}" for n in range(2)])
    parts = {table: placed([("tp",), ()]), index: placed([()])}
    rows = np.random.default_rng(2).normal(size=(64, 3)).astype(dtype.numpy)
    rows[40] = -0.0
    taken = np.array([63, 40, 64, 0])
    target = {"cuda": "cuda:sm_90a", "cpu": "cpu", "sim": "interpret"}[kind]
    (made,) = MeshExecutable(graph, mesh, parts, options=Options(target=target)).run(
        [[part_of(rows, dims_of(parts[table]), mesh, rank) for rank in range(2)], [taken, taken]]
    )
    (wanted,) = evaluate(graph, [rows, taken])
    for each in made:
        np.testing.assert_array_equal(on_host(each).view(f"u{dtype.bytes}"), wanted.view(f"u{dtype.bytes}"))
