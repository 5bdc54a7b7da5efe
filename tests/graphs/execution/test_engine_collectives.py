"""Collectives of graphs by engines, beside the oracle: every kind, along every axis, on shards of the CPU and on GPUs."""

from typing import Any

import numpy as np
import pytest

from support import interpreted_gpus
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Node, Tensor, Value
from tessera.core.placement.mesh import Mesh
from tessera.graphs.execution import engine_collectives
from tessera.graphs.execution.engine_collectives import copy_here, flat, run_collective
from tessera.ops.collectives import fold_by_kernel
from tessera.runtime.dist.engine import RankEngine
from tessera.runtime.dist.gpus import GpuEngine
from tessera.runtime.dist.threaded import ThreadedEngine
from tessera.runtime.interpret.mesh import evaluate_collective
from tessera.runtime.memory.operands import operand
from tessera.runtime.memory.owned import DeviceArray, to_device

SHAPE = (4, 2, 6)
CASES: list[dict[str, Any]] = [
    *({"kind": "all_reduce", "reduction": kind} for kind in ("sum", "max", "min")),
    *({"kind": "reduce_scatter", "reduction": "sum", "cut": axis} for axis in (0, 1, 2)),
    *({"kind": "all_gather", "join": axis} for axis in (0, 1, 2)),
    *({"kind": "all_to_all", "cut": cut, "join": join} for cut in (0, 1, 2) for join in (0, 1, 2) if cut != join),
    *({"kind": "slice", "cut": axis} for axis in (0, 1, 2)),
]
MESHES = [Mesh.of("tp", range(2)), Mesh.of(("dp", "tp"), range(4), (2, 2))]


def collective(dtype: DType, shape: tuple[int, ...], parts: int, attributes: dict[str, Any]) -> Node:
    builder = GraphBuilder()
    x = Value(Tensor(dtype, shape), "x")
    given: dict[str, Any] = {"axes": ("tp",), "parts": parts, "reduction": "", **attributes}
    builder.add("collective", [x], None, **given)
    return builder.nodes[0]


def drawn(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(shape) * 100
    x.flat[:3] = (np.nan if seed == 1 and dtype.is_float else 0, -0.0, 1e-40)
    return x.astype(dtype.numpy)


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def compare(node: Node, mesh: Mesh, engine: RankEngine, parts: list[np.ndarray]) -> None:
    """Run by the engine and by the oracle."""
    wanted = evaluate_collective(node, mesh, parts)
    on_gpus = isinstance(engine, GpuEngine)

    def place(array: np.ndarray, rank: int) -> object:
        return to_device(array, rank) if on_gpus else array

    given = [flat(operand(place(part, rank), "x")) for rank, part in enumerate(parts)]
    outs = [flat(operand(place(np.zeros_like(each), rank), "y")) for rank, each in enumerate(wanted)]
    for out, value in zip(outs, run_collective(node, engine, mesh.along(("tp",)), given, outs), strict=True):
        copy_here(out, value)
    for out, each in zip(outs, wanted, strict=True):
        found = interpreted_gpus.on_host(out) if isinstance(out, DeviceArray) else out
        np.testing.assert_array_equal(bits(found), bits(each.reshape(-1)))
    for rank, part in enumerate(parts):  # inputs stay as they were
        again = interpreted_gpus.on_host(given[rank]) if isinstance(given[rank], DeviceArray) else given[rank]
        np.testing.assert_array_equal(bits(again), bits(part.reshape(-1)))


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("attributes", CASES, ids=str)
def test_on_gpus(monkeypatch: pytest.MonkeyPatch, mesh: Mesh, attributes: dict[str, Any]):
    interpreted_gpus.install(monkeypatch, 4)
    node = collective(f32, SHAPE, 2, attributes)
    compare(node, mesh, GpuEngine(range(mesh.size())), [drawn(f32, SHAPE, rank) for rank in range(mesh.size())])


@pytest.mark.parametrize("attributes", CASES, ids=str)
def test_on_shards_of_the_cpu(monkeypatch: pytest.MonkeyPatch, attributes: dict[str, Any]):
    assert engine_collectives.folder() is fold_by_kernel
    monkeypatch.setattr(engine_collectives, "folder", lambda: interpreted_gpus.fold_with_numpy)
    engine = ThreadedEngine(4)
    compare(collective(f32, SHAPE, 2, attributes), MESHES[1], engine, [drawn(f32, SHAPE, rank) for rank in range(4)])
    engine.stop()


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16, i32], ids=str)
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter"])
def test_sums_of_every_type_by_kernels(dtype: DType, kind: str):
    """Kernels fold what ranks have in the oracle's order."""
    node = collective(dtype, (4, 130), 2, {"kind": kind, "reduction": "sum", "cut": 1})
    engine = ThreadedEngine(2)
    compare(node, MESHES[0], engine, [drawn(dtype, (4, 130), rank) for rank in range(2)])
    engine.stop()
