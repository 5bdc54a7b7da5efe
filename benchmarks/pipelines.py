"""Pipelines on two GPUs: `python benchmarks/pipelines.py [file]`; figures as JSON, in the file where one is named.

A step with gradients of six products of 8192 x 8192 in bf16 with GELU, a batch of 16384 rows: as one stage on one GPU,
and as two stages on two, by GPipe and by 1F1B.  The bits of all are compared first.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np

import tessera
from tessera import dist, op
from tessera.core.arrays.array_methods import Array
from tessera.core.placement.mesh import Mesh
from tessera.runtime.driver import driver as door

WIDTH, ROWS, ENDS, LAYERS, CALLS = 8192, 16384, 64, 6, 5


def first(p: Array, x: Array) -> Array:
    """Widen the input, and apply half of the layers."""
    x = x @ p["in"]
    for w in p["w"]:
        x = op.gelu(x @ w)
    return x


def last(p: Array, x: Array) -> Array:
    """Apply the other half."""
    for w in p["w"]:
        x = op.gelu(x @ w)
    return x @ p["out"]


def both(p: Array, x: Array) -> Array:
    """Apply all of them."""
    return last(p[1], first(p[0], x))


def loss(y: Array, target: Array) -> Array:
    """Return the mean of squares."""
    return op.mean((y - target).astype("f32") ** 2)


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return random numbers of about the size that keeps that of activations."""
    return (rng.standard_normal(shape, np.float32) / shape[0] ** 0.5 * 1.4).astype(ml_dtypes.bfloat16)


def placed(tree: Array, mesh: Mesh) -> Array:
    """Return a tree of arrays on all devices of a mesh."""
    if isinstance(tree, dict):
        return {name: placed(each, mesh) for name, each in cast("dict[str, Array]", tree).items()}
    if isinstance(tree, list):
        return [placed(each, mesh) for each in cast("list[Array]", tree)]
    return dist.array(tree, None, mesh)


def wait(devices: int) -> None:
    """Wait for all GPUs."""
    for device in range(devices):
        with door.driver().inside(device):
            door.driver().wait(0)


def measured(
    devices: int, schedule: str, micro_batches: int, parameters: list[Array], batch: Array
) -> tuple[dict[str, float], Array]:
    """Return milliseconds of a step and of enqueuing it, and the bits of the loss and of one gradient."""
    mesh = Mesh.of(("pp",), [f"cuda:{n}" for n in range(devices)])
    functions, trees = ([both], [parameters]) if devices == 1 else ([first, last], parameters)
    pipe = tessera.pipeline(functions, mesh=mesh, micro_batches=micro_batches, schedule=schedule)
    own = [placed(tree, place) for tree, place in zip(trees, pipe.meshes, strict=True)]
    step = pipe.value_and_grad(loss)
    total, gradients = step(own, *batch)
    weights = gradients[0][0] if devices == 1 else gradients[0]
    bits = (np.asarray(total).tobytes(), np.asarray(weights["w"][0]).tobytes())
    times: list[tuple[float, float]] = []
    for _ in range(CALLS):
        wait(devices)
        start = time.perf_counter()
        step(own, *batch)
        enqueued = time.perf_counter() - start
        wait(devices)
        times.append((time.perf_counter() - start, enqueued))
    best = min(times)
    return {"step, ms": best[0] * 1e3, "host, ms": best[1] * 1e3}, bits


def main() -> None:
    """Measure everything; raise AssertionError where bits differ."""
    rng = np.random.default_rng(0)
    half = LAYERS // 2
    parameters = [
        {"in": drawn(rng, ENDS, WIDTH), "w": [drawn(rng, WIDTH, WIDTH) for _ in range(half)]},
        {"w": [drawn(rng, WIDTH, WIDTH) for _ in range(half)], "out": drawn(rng, WIDTH, ENDS)},
    ]
    batch = drawn(rng, ROWS, ENDS), drawn(rng, ROWS, ENDS)
    figures: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "gpu": door.driver().name(0)}
    for micro_batches in (4, 8):
        figures_and_bits = {
            name: measured(devices, schedule, micro_batches, parameters, batch)
            for name, devices, schedule in (
                ("one GPU", 1, "gpipe"), ("two GPUs, gpipe", 2, "gpipe"), ("two GPUs, 1f1b", 2, "1f1b"),
            )
        }  # fmt: skip
        if len({bits for _, bits in figures_and_bits.values()}) != 1:
            raise AssertionError("the bits differ")
        alone = figures_and_bits["one GPU"][0]["step, ms"]
        figures[f"{micro_batches} micro-batches"] = {
            name: each | {"ratio to one GPU": alone / each["step, ms"]} for name, (each, _) in figures_and_bits.items()
        }
    text = json.dumps(figures, indent=1)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
