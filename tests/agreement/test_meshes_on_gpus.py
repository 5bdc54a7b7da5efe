"""Meshes of real GPUs: graphs, gradients and index launches have the bits of simulated devices; shards lie on each GPU."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportArgumentType=false
# pyright: reportUnknownLambdaType=false

import numpy as np
import pytest

import tessera
from support.operators import Array
from support.targets import gpu_count
from tessera import dist, op
from tessera.core.placement.mesh import Mesh
from tessera.core.settings import overridden
from tessera.dist.tensors import Tensor
from tessera.runtime.memory.owned import DeviceArray

pytestmark = pytest.mark.gpus
needs_four = pytest.mark.skipif(gpu_count() < 4, reason="fewer than four NVIDIA GPUs")
MESHES = [pytest.param((1, 2), id="2"), pytest.param((2, 2), id="4", marks=needs_four)]
ROWS, COLUMNS = dist.ShardSpec("row", "tp"), dist.ShardSpec("col", "tp")


def mesh_of(kind: str, shape: tuple[int, int]) -> Mesh:
    return Mesh.of(("dp", "tp"), [f"{kind}:{n}" for n in range(shape[0] * shape[1])], shape)


def put(mesh: Mesh, layout: object, shape: tuple[int, ...], seed: int, dtype: str = "f32") -> Tensor:
    x = dist.tensor(shape, layout, mesh, dtype)
    x[...] = np.random.default_rng(seed).standard_normal(shape).astype(x.dtype)
    return x


def bits(x: object) -> np.ndarray:
    array = np.ascontiguousarray(np.asarray(x))
    return array.view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize("shape", MESHES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_arrays_are_gathered_as_they_were_stored(shape: tuple[int, int], dtype: str):
    mesh = mesh_of("cuda", shape)
    for layout in (ROWS, COLUMNS, dist.ShardSpec(("row", "col"), ("dp", "tp")), None):
        x = put(mesh, layout, (12, 10), 3, dtype)
        for rank, device in enumerate(mesh.devices):
            mine = x.shard(rank)
            assert isinstance(mine, DeviceArray)
            assert mine.device == device.index
        np.testing.assert_array_equal(bits(x), bits(np.random.default_rng(3).standard_normal((12, 10)).astype(x.dtype)))
        np.testing.assert_array_equal(bits(x.reshard(ROWS)), bits(x))


@pytest.mark.parametrize("shape", MESHES)
def test_elementwise_graphs_and_sums_have_the_same_bits(shape: tuple[int, int]):
    """What a kernel computes element by element is the same on every target, and so are folds of ranks."""

    def run(mesh: Mesh) -> list[np.ndarray]:
        x, y = put(mesh, dist.ShardSpec("row", ("dp", "tp")), (24, 37), 1), put(mesh, COLUMNS, (24, 38), 2)
        first = tessera.graph.module("first")(lambda x: (x * 2.5 - 1.0, x.transpose(1, 0) + 1.0))
        total = tessera.graph.module("total")(lambda x: op.max(x, axis=0))
        return [bits(each) for each in (*first(x), total(x), *first(y), total(y))]

    for found, wanted in zip(run(mesh_of("cuda", shape)), run(mesh_of("sim", shape)), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape", MESHES)
def test_tensor_parallel_layers_and_their_gradients(shape: tuple[int, int]):
    """Near f64, and the same bits when they are run again."""
    mesh = mesh_of("cuda", shape)
    x = put(mesh, dist.ShardSpec("row", "dp"), (64, 96), 1)
    w, v = put(mesh, COLUMNS, (96, 130), 2), put(mesh, ROWS, (130, 96), 3)

    def layer(x, w, v):
        return op.matmul(op.tanh(op.matmul(x, w)), v)

    slopes = tessera.grad(lambda x, w, v: op.sum(layer(x, w, v) ** 2), argnums=(0, 1, 2))
    run = tessera.graph.module("layer")(layer)
    found = [run(x, w, v), *slopes(x, w, v)]
    again = [run(x, w, v), *slopes(x, w, v)]
    a, b, c = (np.asarray(each).astype(np.float64) for each in (x, w, v))
    hidden = np.tanh(a @ b)
    made = hidden @ c
    upper = 2 * made
    inner = (upper @ c.T) * (1 - hidden**2)
    for each, same, wanted in zip(found, again, (made, inner @ b.T, a.T @ inner, hidden.T @ upper), strict=True):
        np.testing.assert_array_equal(bits(each), bits(same))
        np.testing.assert_allclose(np.asarray(each), wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("shape", MESHES)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_index_launches_on_gpus(shape: tuple[int, int], dtype: str):
    @tessera.kernel
    def scaled(a: tessera.tensor, b: tessera.tensor, c: tessera.mut[tessera.tensor]):
        for i in tessera.tile.range(c.shape[0], step=64):
            c[i : i + 64] = a[i : i + 64] * 3.0 + b[i : i + 64]

    def run(mesh: Mesh) -> Tensor:
        layout = dist.ShardSpec("row", "tp")
        a, b, c = (put(mesh, layout, (1000,), seed, dtype) for seed in (1, 2, 3))
        report = tessera.index_launch(axis="tp")(scaled)(a.parts("tp"), b.parts("tp"), c.parts("tp"))
        assert report.points == 2
        return c

    found = run(mesh_of("cuda", shape))
    with overridden(target="interpret"):
        wanted = run(mesh_of("sim", shape))
    assert isinstance(found.shard(1), DeviceArray)
    np.testing.assert_array_equal(bits(found), bits(wanted))


def test_pipelines_have_the_bits_of_simulated_devices():
    """Element by element the targets agree to the bit; shards go from GPU to GPU while both compute."""

    def stage(p: Array, x: Array) -> Array:
        return x * p - 0.5

    def run(kind: str) -> list[np.ndarray]:
        mesh = Mesh.of(("pp",), [f"{kind}:{n}" for n in range(2)])
        pipe = tessera.pipeline([stage, stage], mesh=mesh, micro_batches=8, schedule="1f1b")
        rng = np.random.default_rng(0)
        parameters = [rng.standard_normal(4096).astype(np.float32) for _ in range(2)]
        x, target = (rng.standard_normal((64, 4096)).astype(np.float32) for _ in range(2))
        step = pipe.value_and_grad(lambda y, t: ((y - t) * 0.25).sum(0).sum())
        results = [bits(pipe(parameters, x))]
        for _ in range(4):
            loss, gradients = step(parameters, x, target)
            results += [bits(gradients[0]), bits(gradients[1])]
            assert np.isfinite(float(loss))
        return results

    simulated, real = run("sim"), run("cuda")
    np.testing.assert_array_equal(real[0], simulated[0])
    for number in (1, 2):
        for again in real[number + 2 :: 2]:
            np.testing.assert_array_equal(again, real[number])
        got, want = real[number].view(np.float32), simulated[number].view(np.float32)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
