"""Calls on meshes with bound launches: the bits of the first call, whatever lies where; other calls go the long way."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.operators import Array, drawn
from tessera import dist, graph, op
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.shard_spec import Distribution
from tessera.graphs.execution.mesh_calls import MeshCalls
from tessera.graphs.function import GraphFunction

CALLS = 3
LAYOUTS = [dist.ShardSpec("col", "tp"), dist.ShardSpec("row", "tp")] * 2
MESHES = {
    "simulated": Mesh.of(("dp", "tp"), range(8), (2, 4)), "alone": Mesh.of(("dp", "tp"), range(1), (1, 1)),
    "three parts": Mesh.of(("dp", "tp"), range(3), (1, 3)),
    "shards of the CPU": Mesh.of(("dp", "tp"), ["cpu:0", "cpu:1", "cpu:2", "cpu:3"], (2, 2)),
}  # fmt: skip


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note of each call whether it went the quick way."""
    went: list[bool] = []
    call = MeshCalls.__call__

    def noted(self: MeshCalls, arrays: Sequence[object]) -> list[list[NDArray[Any]]] | None:
        shards = call(self, arrays)
        went.append(shards is not None)
        return shards

    monkeypatch.setattr(MeshCalls, "__call__", noted)
    return went


def loss(weights: Sequence[Array], x: Array) -> Array:
    for weight in weights:
        x = op.gelu(x @ weight)
    return op.mean(x * x)


def layers(seed: int) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    return [drawn((24, 24), np.float32, seed + n) / 5 for n in range(4)], drawn((8, 24), np.float32, seed + 9)


def on_mesh(mesh: Mesh, seed: int) -> tuple[list[Array], Array]:
    weights, x = layers(seed)
    cut = [dist.array(weight, layout, mesh) for weight, layout in zip(weights, LAYOUTS, strict=True)]
    return cut, dist.array(x, dist.Block("dp"), mesh)


def bits(results: Array) -> list[NDArray[Any]]:
    return [np.asarray(results[0]), *map(np.asarray, results[1])]


@pytest.mark.parametrize("name", MESHES)
def test_steps_with_gradients(name: str, quick: list[bool]):
    """Collectives between rows of launches; other arrays in each call, which keep their results."""
    mesh = MESHES[name]
    step = tessera.value_and_grad(loss)
    kept = []
    for seed in range(CALLS):
        found = step(*on_mesh(mesh, seed))
        kept.append((found, bits(tessera.value_and_grad(loss)(*layers(seed)))))
    assert quick == [True] * (CALLS - 1)
    for found, wanted in kept:
        for one, other in zip(bits(found), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    again = step(*on_mesh(mesh, 0))
    for one, other in zip(bits(again), bits(kept[0][0]), strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
    assert all(each.type == mine.type for each, mine in zip(again[1], on_mesh(mesh, 0)[0], strict=True))


def test_shards_that_are_written_between_calls(quick: list[bool]):
    mesh = MESHES["simulated"]
    double = graph.module("double")(lambda x: op.softmax(x) * 2.0)
    x = dist.array(drawn((8, 16), np.float32), dist.Block("dp"), mesh)
    for seed in range(CALLS):
        values = drawn((8, 16), np.float32, seed)
        x[...] = values
        weights = np.exp(values.astype(np.float64))
        np.testing.assert_allclose(np.asarray(double(x)), 2 * weights / weights.sum(1, keepdims=True), rtol=1e-5)
    x.put(0, np.zeros_like(x.shard(0)))
    np.testing.assert_allclose(np.asarray(double(x))[:4], 2 / 16, rtol=1e-6)
    assert quick == [True] * CALLS


def test_arrays_of_the_host_are_on_every_device(quick: list[bool]):
    mesh = MESHES["simulated"]
    scaled = graph.module("scaled")(lambda x, w, t: (x @ w) * t)
    for seed in range(CALLS):
        x, w, t = drawn((8, 16), np.float32, seed), drawn((16, 8), np.float32, seed), np.array(2.0 + seed, np.float32)
        found = scaled(dist.array(x, dist.Block("dp"), mesh), w, t)
        np.testing.assert_allclose(np.asarray(found), (x @ w) * t, rtol=1e-4, atol=1e-5)
    assert quick == [True] * (CALLS - 1)
    x, w, t = drawn((8, 16), np.float32), drawn((8, 16), np.float32).T, np.array(2.0, np.float32)
    found = scaled(dist.array(x, dist.Block("dp"), mesh), w, t)  # has gaps
    np.testing.assert_allclose(np.asarray(found), (x @ w) * t, rtol=1e-4, atol=1e-5)
    assert not quick[-1]


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int32], ids=str)
@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
def test_reductions_of_every_dtype(reduction: str, dtype: type, quick: list[bool]):
    mesh = MESHES["simulated"]
    reduce: Callable[..., Array] = getattr(op, reduction)
    reduced: GraphFunction[..., Array] = graph.module("reduced")(lambda x: (reduce(x, 0), reduce(x, 1)))
    for seed in range(CALLS):
        values = np.round(drawn((16, 8), np.float64, seed) * 4).astype(dtype)
        found = reduced(dist.array(values, dist.ShardSpec(("row",), ("tp",)), mesh))
        for each, axis in zip(found, (0, 1), strict=True):
            want = getattr(values.astype(np.float64), reduction)(axis)
            np.testing.assert_array_equal(np.asarray(each).astype(np.float64), want)
    assert quick == [True] * (CALLS - 1)


@pytest.mark.parametrize("name", ["simulated", "alone"])
def test_nan_is_one_number_and_infinities_stay(name: str, quick: list[bool]):
    mesh = MESHES[name]
    total: GraphFunction[..., Array] = graph.module("total")(lambda x: (op.sum(x, 0), op.sum(x)))
    for seed in range(CALLS):
        values = drawn((16, 4), np.float32, seed)
        values[3, 0], values[5, 1], values[7, 2] = np.inf, np.nan, -np.inf
        values[9, 2] = np.inf if seed == 2 else values[9, 2]
        values.view(np.uint32)[6, 1] |= 0x80000000  # a sign in the way
        held = dist.array(values, dist.ShardSpec(("row",), ("tp",)), mesh)
        columns, everything = map(np.asarray, total(held))
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(columns, values.sum(0, dtype=np.float64), rtol=1e-4)
        assert np.isnan(everything)
        nans = np.isnan(columns)
        assert {hex(bits) for bits in columns[nans].view(np.uint32)} == {"0x7fc00000"}
        np.testing.assert_array_equal(np.asarray(held), values)
    assert quick == [True] * (CALLS - 1)


LONG: dict[str, tuple[Callable[[Array], Array], tuple[int, ...], Distribution]] = {
    "shards of different lengths": (lambda x: op.softmax(x) + 1.0, (7, 16), dist.Block("dp")),
    "a routine": (lambda x: op.sort(op.exp(x), 1), (8, 16), dist.Block("dp")),
    "a loop": (lambda x: op.scan(lambda c, v: (c + v, c), op.exp(x[0]), x)[0], (8, 16), dist.Block("dp")),
}
"""Calls that have no quick way."""


@pytest.mark.parametrize("name", LONG)
def test_calls_that_go_the_long_way(name: str, quick: list[bool]):
    function, shape, layout = LONG[name]
    run: GraphFunction[..., Array] = graph.module("long")(function)
    for seed in range(CALLS):
        x = drawn(shape, np.float32, seed)
        np.testing.assert_allclose(
            np.asarray(run(dist.array(x, layout, MESHES["simulated"]))), np.asarray(run(x)), rtol=1e-5
        )
    assert not any(quick)


def test_captures_and_timelines_hold_every_step(quick: list[bool]):
    mesh = MESHES["simulated"]
    double = graph.module("double")(lambda x: op.sum(op.exp(x), 0))
    x = dist.array(drawn((8, 16), np.float32), dist.Block("dp"), mesh)
    for _ in range(CALLS):
        double(x)
    ways = len(quick)
    with graph.capture() as captured:
        found = double(x)
    x[...] = drawn((8, 16), np.float32, 5)
    graph.launch(captured)
    np.testing.assert_allclose(np.asarray(found), np.exp(drawn((8, 16), np.float32, 5)).sum(0), rtol=1e-5)
    assert not any(quick[ways:])
    _, timeline = double.executable.watched(x)  # type: ignore[attr-defined]  # of a mesh
    assert timeline is not None
