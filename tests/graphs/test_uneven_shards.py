"""Compiled graphs on shards of different lengths: values, gradients, bits, and devices that own nothing."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportArgumentType=false

import numpy as np
import pytest

import tessera
from support import interpreted_gpus
from support.gradients import graph_of
from support.graphs import assert_same_bits
from support.mesh_arrays import Sharded
from support.targets import RUNNABLE
from tessera import dist, op
from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import NeedsMesh
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.placement.mesh import Mesh
from tessera.graphs.mesh_executable import MeshExecutable
from tessera.kernels.options import Options
from tessera.lowering.sharding.placements import dims_of, placed
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.mesh import part_of, whole_of
from tessera.runtime.memory.device_shards import Shard, on_host


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def model(x, w, v):
    return op.matmul(op.softmax(op.matmul(x, w)), v)


def given(mesh: Mesh, batch: int, width: int, hidden: int) -> tuple[list[np.ndarray], list[Sharded]]:
    plain = [normal(batch, width), normal(width, hidden, seed=1) / 8, normal(hidden, 7, seed=2)]
    cut = [("dp", "tp"), ("tp", ""), ("tp", "")]
    return plain, [Sharded.of(each, mesh, *dims) for each, dims in zip(plain, cut, strict=True)]


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize(("batch", "width", "hidden"), [(13, 101, 77), (3, 3, 2), (5, 8, 9)])
def test_values_and_gradients(target: str, batch: int, width: int, hidden: int):
    plain, on_mesh = given(Mesh.of(("dp", "tp"), range(8), (2, 4)), batch, width, hidden)
    apply = tessera.graph.module("apply", target=target)(model)
    made = apply(*on_mesh)
    assert str(made.type) == f"f32[{batch}@dp, 7]"
    assert made.shards[-1].shape == (batch // 2, 7)
    np.testing.assert_allclose(made.whole, apply(*plain), rtol=1e-4, atol=1e-5)
    slopes = tessera.grad(lambda *each: op.sum(apply(*each) ** 2), argnums=(0, 1, 2))
    for found, wanted, of in zip(slopes(*on_mesh), slopes(*plain), on_mesh, strict=True):
        assert found.type == of.type
        np.testing.assert_allclose(found.whole, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("extent", [13, 101])
def test_the_same_bits_on_meshes_that_divide_the_leaves(target: str, extent: int):
    plain = normal(3, extent), normal(extent, 5, seed=1)

    def make(x, w):
        return op.matmul(x, w), op.sum(x, axis=1), op.max(x), op.cumsum(w, axis=1)

    def run(size: int) -> list[np.ndarray]:
        mesh = Mesh.of("tp", range(size))
        x, w = (Sharded.of(each, mesh, *dims) for each, dims in zip(plain, (("", "tp"), ("tp", "")), strict=True))
        return [each.whole for each in tessera.graph.module("make", target=target)(make)(x, w)]

    alone = run(1)
    for size in (2, 4, 8):
        for found, wanted in zip(run(size), alone, strict=True):
            assert_same_bits(found, wanted)


def test_what_pads_shards_reaches_no_result():
    """Zeros behind the end become infinities, NaNs and overflows."""
    mesh = Mesh.of("tp", range(4))
    x = np.exp(normal(5, 6))
    with np.errstate(all="ignore"):
        want = np.log(x).sum(0), (x / x).max(0), (1 / x).min(), np.argmax(-1 / x, axis=0)
    found = tessera.graph.module("f")(
        lambda x: (op.sum(op.log(x), axis=0), op.max(x / x, axis=0), op.min(1.0 / x), op.argmax(-1.0 / x, axis=0))
    )(Sharded.of(x, mesh, "tp", ""))
    for one, wanted in zip(found, want, strict=True):
        np.testing.assert_allclose(one.whole, wanted, rtol=1e-5)


def tied(b: GraphBuilder, x: Value, w: Value) -> tuple[Value, ...]:
    y = b.contract(x, w, ((0, 1), (1, 2)), (0, 2))
    return b.unary("exp", x), y, b.reduce(b.binary("div", x, x), (0,), "max")


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_same_bits_on_devices_of_every_kind(monkeypatch: pytest.MonkeyPatch, kind: str):
    if kind == "cuda":
        interpreted_gpus.install(monkeypatch, 4)
    graph = graph_of(tied, (f32, (13, 9)), (f32, (9, 6)))
    arrays = [normal(13, 9), normal(9, 6, seed=1)]
    parts = {graph.inputs[0]: placed([("dp",), ("tp",)]), graph.inputs[1]: placed([("tp",), ()])}

    def run(mesh: Mesh) -> list[list[Shard]]:
        target = "cuda:sm_90a" if mesh.devices[0].kind == "cuda" else "interpret"
        shards = [
            [part_of(array, dims_of(parts[value]), mesh, rank) for rank in range(mesh.size())]
            for array, value in zip(arrays, graph.inputs, strict=True)
        ]
        return MeshExecutable(graph, mesh, parts, options=Options(target=target)).run(shards)

    executable = MeshExecutable(graph, Mesh.of(("dp", "tp"), range(4), (2, 2)), parts)
    wanted = run(executable.mesh)
    found = run(Mesh.of(("dp", "tp"), [f"{kind}:{n}" for n in range(4)], (2, 2)))
    for mine, theirs, value, end, plain in zip(
        found, wanted, graph.outputs, executable.sharded.outputs, evaluate(graph, arrays), strict=True
    ):
        for a, b in zip(mine, theirs, strict=True):
            assert_same_bits(on_host(a), on_host(b))
        whole = whole_of([on_host(each) for each in mine], value.type, dims_of(end), executable.mesh)
        np.testing.assert_allclose(whole, plain, rtol=1e-5, atol=1e-5)


def test_a_captured_graph():
    mesh = Mesh.of("tp", range(3))
    array = np.arange(10, dtype=np.float32).reshape(5, 2)
    x = Sharded.of(array, mesh, "tp", "")
    with tessera.graph.capture() as captured:
        y = op.exp(x)
        z = op.sum(x)
    for scale in (1, 3):
        for rank in range(3):
            x.shards[rank][...] = part_of(array, (("tp",), ()), mesh, rank) / scale
        tessera.graph.launch(captured)
        np.testing.assert_allclose(y.whole, np.exp(array / scale), rtol=1e-6)
        np.testing.assert_allclose(z.whole, (array / scale).sum(), rtol=1e-6)


def test_loops_carry_padded_shards():
    mesh = Mesh.of("dp", range(4))
    x, w = normal(6, 5), normal(5, 5, seed=1) / 4

    def scanned(x, w):
        return op.scan(lambda h, _: (op.tanh(op.matmul(h, w)), op.sum(h, axis=0)), x, length=3)

    apply = tessera.graph.module("scanned")(scanned)
    for found, wanted in zip(apply(Sharded.of(x, mesh, "dp", ""), w), apply(x, w), strict=True):
        np.testing.assert_allclose(found.whole, wanted, rtol=1e-4, atol=1e-5)


def test_cyclic_shards_are_no_blocks():
    mesh = dist.Mesh("tp", range(3))
    x = dist.tensor((7, 2), dist.Cyclic("tp"), mesh, name="x")
    x[...] = 1
    with pytest.raises(NeedsMesh, match=r"f32\[7@tp:cyclic, 2\] is not cut into one block a device") as raised:
        tessera.graph.module("double")(lambda x: x * 2.0)(x)
    assert raised.value.hint == "reshard it: x.reshard(dist.ShardSpec(...)) without block="


def test_one_dimension_that_two_axes_cut():
    """Shards over dp * tp are no parts of those over dp: all rows go everywhere between the two."""
    mesh = dist.Mesh(("dp", "tp"), range(6), (3, 2))
    a, b = normal(7, 4), normal(7, 4, seed=1)
    x, y = dist.tensor(a.shape, dist.Block((("dp", "tp"),)), mesh), dist.tensor(b.shape, dist.Block("dp"), mesh)
    x[...], y[...] = a, b
    np.testing.assert_array_equal(np.asarray(x + y), a + b)
    np.testing.assert_allclose(np.asarray(op.matmul(op.transpose(x), y)), a.T @ b, rtol=1e-4, atol=1e-5)
