"""Collectives and engines: `python benchmarks/dist.py [file]`; figures as JSON, in the file where one is named.

shards: all-reduce of 64 MiB of f32 over 2, 4 and 8 shards of the CPU, beside NumPy: a thread a shard, which adds its
    slice of all inputs in the same tree, in blocks that stay in the cache, into a result that all share
launches: of tasks that do nothing, over 72 simulated ranks and over 8 threads; index launches of 72 points
steps: host time of a step of six small layers with gradients: on one device, and cut over simulated meshes; a pipeline
    of two stages beside it
layers: placements of a transformer of 96 layers with its gradients, over 2 x 4 devices, and the graph of one device
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tessera
from tessera import dist, op
from tessera.core.base import dtypes
from tessera.core.graph.graph import Graph, Value
from tessera.core.placement.fold_plans import slice_of
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.reduction_rules import reduction
from tessera.core.placement.reduction_trees import ReductionTree
from tessera.core.settings import cores
from tessera.lowering.graph.expand_calls import expand_calls
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.sharding.partition import partition
from tessera.lowering.sharding.placements import placed
from tessera.lowering.sharding.propagate import propagate
from tessera.ops.collectives import fold_by_kernel
from tessera.runtime.dist.collectives import Group, all_reduce
from tessera.runtime.dist.simulated import SimulatedEngine
from tessera.runtime.dist.threaded import ThreadedEngine

ELEMENTS = (64 << 20) // 4
BLOCK = 16384
ROUNDS = 5
CALLS = 5
Floats = NDArray[np.float32]


def milliseconds(run: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


class NumpyShards:
    """The peer: threads that wait at a barrier, add their slices pairwise, and wait again."""

    def __init__(self, inputs: list[Floats], out: Floats) -> None:
        self.inputs, self.out = inputs, out
        self.go, self.done = threading.Barrier(len(inputs) + 1), threading.Barrier(len(inputs) + 1)
        self.closed = False
        for rank in range(len(inputs)):
            threading.Thread(target=self._serve, args=(rank,), daemon=True).start()

    def run(self) -> None:
        """Reduce once."""
        self.go.wait()
        self.done.wait()

    def close(self) -> None:
        """Let the threads end."""
        self.closed = True
        self.go.wait()

    def _serve(self, rank: int) -> None:
        mine = slice_of(len(self.out), len(self.inputs), rank)
        scratch = np.empty((len(self.inputs), BLOCK), np.float32)
        while True:
            self.go.wait()
            if self.closed:
                return
            for start in range(mine.start, mine.stop, BLOCK):
                self._add(scratch, start, min(start + BLOCK, mine.stop))
            self.done.wait()

    def _add(self, scratch: Floats, start: int, stop: int) -> None:
        level = [values[start:stop] for values in self.inputs]
        while len(level) > 1:
            out = self.out[start:stop] if len(level) == 2 else None
            level = [
                np.add(level[n], level[n + 1], out=scratch[n // 2, : stop - start] if out is None else out)
                for n in range(0, len(level), 2)
            ]


def shards(ranks: int) -> dict[str, Any]:
    """All-reduce over shards of the CPU: best and median of both sides, which take turns."""
    rng = np.random.default_rng(ranks)
    inputs = [rng.standard_normal(ELEMENTS, np.float32) for _ in range(ranks)]
    ours, theirs = np.zeros(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    engine, peer = ThreadedEngine(ranks), NumpyShards(inputs, theirs)
    group, what, tree = Group(engine, tuple(range(ranks))), reduction("sum", dtypes.f32), ReductionTree.binary(ranks)
    leaves = [[values] for values in inputs]

    def run() -> None:
        all_reduce(group, leaves, what, tree, fold_by_kernel, [ours] * ranks)

    run()
    peer.run()
    if not np.array_equal(ours.view(np.uint32), theirs.view(np.uint32)):
        raise AssertionError("the sides differ")
    times: dict[str, list[float]] = {"tessera": [], "numpy": []}
    for _ in range(ROUNDS):
        times["tessera"] += [milliseconds(run) for _ in range(CALLS)]
        times["numpy"] += [milliseconds(peer.run) for _ in range(CALLS)]
    peer.close()
    engine.stop()
    return {side: {"best": min(each), "median": statistics.median(each)} for side, each in times.items()}


def launches() -> dict[str, float]:
    """Microseconds of a launch whose tasks do nothing."""
    simulated, threads = SimulatedEngine(72), ThreadedEngine(8)

    def nothing(_: int) -> None:
        return None

    def per_call(run: Callable[[], object], calls: int) -> float:
        run()
        found: list[float] = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(calls):
                run()
            found.append((time.perf_counter() - start) / calls * 1e6)
        return min(found)

    figures = {
        "72 simulated ranks, only time passes": per_call(lambda: simulated.launch(None), 20000),
        "72 simulated ranks, each calls a function": per_call(lambda: simulated.launch(nothing), 5000),
        "8 threads": per_call(lambda: threads.launch(nothing).result(), 200),
        "72 points of an index launch": per_call(index_launch_of(72), 50),
    }
    threads.stop()
    return figures


def index_launch_of(points: int) -> Callable[[], object]:
    """Return an index launch whose points do nothing."""
    mesh = Mesh.of("tp", range(points))
    x = dist.array(np.zeros((points, 4), np.float32), dist.Block("tp"), mesh)

    def point(x: Any) -> None:
        del x

    point.__annotations__ = {"x": tessera.Region[tessera.read]}
    launch = tessera.index_launch("tp")(point)
    return lambda: launch(x)


def steps() -> dict[str, float]:
    """Microseconds of a step per device: the best of some rounds, each of many calls."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((64, 64), np.float32) / 8 for _ in range(6)]
    x = rng.standard_normal((32, 64), np.float32)

    def apply(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = op.gelu(x @ weight)
        return x

    def loss(weights: Any, x: Any) -> Any:
        return op.mean(apply(weights, x) ** 2)

    step = tessera.value_and_grad(loss)
    figures = {"one device": _microseconds(lambda: step(weights, x))}
    for shape in ((1, 1), (2, 1), (2, 4)):
        mesh = Mesh.of(("dp", "tp"), range(shape[0] * shape[1]), shape)
        layouts = [dist.ShardSpec("col", "tp"), dist.ShardSpec("row", "tp")] * 3
        cut = [dist.array(weight, layout, mesh) for weight, layout in zip(weights, layouts, strict=True)]
        rows = dist.array(x, dist.Block("dp"), mesh)
        figures[f"{mesh.size()} of a mesh"] = _microseconds(lambda w=cut, x=rows: step(w, x)) / mesh.size()
    pipe = tessera.pipeline([apply, apply], mesh=Mesh.of("pp", range(2)), micro_batches=4)
    halves = [weights[:3], weights[3:]]
    trained = pipe.value_and_grad(lambda y, target: op.mean((y - target) ** 2))
    figures["two stages, four micro-batches"] = _microseconds(lambda: trained(halves, x, x)) / 2
    return figures


def _microseconds(run: Callable[[], object]) -> float:
    run()
    calls = [milliseconds(lambda: [run() for _ in range(20)]) / 20 for _ in range(ROUNDS)]
    return min(calls) * 1e3


def block(p: dict[str, Any], x: Any) -> Any:
    """Return one layer of a transformer, whose weights are cut by columns and by rows."""
    q, k, v = (op.matmul(op.rmsnorm(x), p[name]) for name in ("q", "k", "v"))
    heads = [op.reshape(each, (*x.shape[:2], 4, 16)).transpose(0, 2, 1, 3) for each in (q, k, v)]
    attended = op.flash_attention(*heads, causal=True).transpose(0, 2, 1, 3)
    x = x + op.matmul(op.reshape(attended, x.shape), p["out"])
    return x + op.matmul(op.gelu(op.matmul(op.rmsnorm(x), p["up"])), p["down"])


def layers(count: int) -> dict[str, float]:
    """Seconds to place all values, and to make the graph of one device; nodes, and collectives."""
    rng = np.random.default_rng(0)
    shapes = {"q": (64, 64), "k": (64, 64), "v": (64, 64), "out": (64, 64), "up": (64, 256), "down": (256, 64)}
    weights = [{name: rng.standard_normal(shape, np.float32) / 8 for name, shape in shapes.items()}] * count
    x = rng.standard_normal((4, 32, 64), np.float32)

    def loss(weights: Any, x: Any) -> Any:
        for each in weights:
            x = block(each, x)
        return op.sum(x * x)

    graph = simplify(expand_calls(tessera.value_and_grad(loss).graph_for(weights, x).graph))
    given: dict[Value, Placement] = {}
    for number, value in enumerate(graph.inputs):
        rows = list(shapes)[number % len(shapes)] in ("out", "down")
        given[value] = placed([("tp",), ()] if rows else [(), ("tp",)])
    given[graph.inputs[-1]] = placed([("dp",), (), ()])
    mesh = Mesh.of(("dp", "tp"), range(8), (2, 4))
    placing = min(_placed_in(graph, mesh, given) for _ in range(ROUNDS))
    sharded = propagate(graph, mesh, given)
    start = time.perf_counter()
    local = partition(sharded)
    collectives = sum(node.op == "collective" and node.attributes["kind"] != "slice" for node in local.nodes)
    return {
        "nodes": len(graph.nodes), "placed, s": placing, "graph of one device, s": time.perf_counter() - start,
        "collectives": collectives,
    }  # fmt: skip


def _placed_in(graph: Graph, mesh: Mesh, given: dict[Value, Placement]) -> float:
    start = time.perf_counter()
    propagate(graph, mesh, given)
    return time.perf_counter() - start


def main() -> None:
    """Measure everything."""
    figures = {
        "date": time.strftime("%Y-%m-%d"), "processor": platform.processor() or platform.machine(), "cores": cores(),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "all_reduce of 64 MiB, ms": {f"{ranks} shards": shards(ranks) for ranks in (2, 4, 8)},
        "launches, us": launches(), "steps, us per device": steps(), "96 layers with gradients": layers(96),
    }  # fmt: skip
    text = json.dumps(figures, indent=1)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
