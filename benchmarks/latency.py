"""Latencies of one process, as JSON on its last line: `python latency.py cold` (empty cache), then `... cached`.

gpu:    compile for a GPU, which needs none: from Tile IR to a cubin in a warm worker, bare and with every level
        recorded; milliseconds, medians beside the goal
cold:   compile of a small kernel and of a tile GEMM in a warm worker, time to the first result of a fresh process,
        memory of the worker over its import, launch of a compiled kernel on tiny arrays
cached: first call of a kernel that an earlier process compiled
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import psutil

from kernels import matmul, saxpy
from tessera import f32, kernel, mut, tile
from tessera.core.program.program import Program
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.lowering.service.server import CompileService
from tessera.ops.attention import prepare_flash_attention
from tessera.ops.matrix import prepare_gemm
from tessera.ops.recipes.launch_recipe import LaunchRecipe
from tessera.session.session import session

CHIP = Target("cuda", "sm_90a")
GOALS_MS = {"small kernel": 60.0, "GEMM": 300.0}
"""With every level recorded, in a warm worker."""


@kernel
def scale(x: f32[n], y: mut[f32[n]], alpha: f32):  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType] - bound at launch
    """`y = alpha x`."""
    i = tile.linear_id()
    if i < n:  # pyright: ignore[reportUndefinedVariable] - bound at launch
        y[i] = alpha * x[i]


def elapsed_ms(run: Callable[[], object]) -> float:
    """Wall time of one call, in milliseconds."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def cold() -> dict[str, float]:
    """Figures of a process with an empty cache."""
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    figures = {"first result of a process": elapsed_ms(lambda: scale(x, y, 2.0))}
    worker = max(psutil.Process().children(recursive=True), key=lambda p: p.memory_info().rss)
    before = worker.memory_info().rss
    figures["compile, small kernel"] = elapsed_ms(lambda: saxpy(x, y, 2.0))
    a = np.ones((512, 512), np.float32)
    c = np.zeros_like(a)
    figures["compile, tile GEMM"] = elapsed_ms(lambda: matmul(a, a, c))
    figures["compile memory over import (MiB)"] = (worker.memory_info().rss - before) / 2**20
    figures["launch (us)"] = launch_us(x, y)
    return figures


def launch_us(x: np.ndarray, y: np.ndarray) -> float:
    """One call of a compiled kernel on 16 elements, in microseconds."""
    runs = 2000
    samples: list[Any] = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(runs):
            scale(x, y, 2.0)
        samples.append((time.perf_counter() - start) / runs * 1e6)
    return statistics.median(samples)


def cached() -> dict[str, float]:
    """Figures of a process that finds its kernels compiled."""
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    saxpy(x, y, 2.0)  # loads the JIT's own library, once a process
    return {"cached call to first result": elapsed_ms(lambda: scale(x, y, 2.0))}


def gpu() -> dict[str, float]:
    """Figures of compilations for a GPU: the worker has compiled each kernel once before it is timed."""
    service = CompileService(1)
    figures: dict[str, float] = {}
    for name, program in gpu_programs().items():
        for levels in (False, True):
            samples = [elapsed_ms(partial(service.compile, program, CHIP, levels)) for _ in range(10)]
            title = f"compile for {CHIP.arch}, {name}" + (", every level" if levels else "")
            figures[title] = statistics.median(samples[1:])
            goal = f"   goal {GOALS_MS[name]:.0f}" if levels and name in GOALS_MS else ""
            print(f"{title:50}{figures[title]:8.1f} ms{goal}", flush=True)
    service.close()
    return figures


def gpu_programs() -> dict[str, Program]:
    """A small kernel, and the library's product and attention as they are for large operands."""
    x = np.ones(16, np.float32)
    a = np.ones((4096, 4096), ml_dtypes.bfloat16)
    q = np.ones((1, 8, 4096, 128), ml_dtypes.bfloat16)
    with overridden(target=str(CHIP)):
        return {
            "small kernel": saxpy.compile(x, x, 2.0, target=str(CHIP)).program,
            "GEMM": only_program(prepare_gemm(a, a)),
            "attention": only_program(prepare_flash_attention(q, q, q)),
        }


def only_program(prepared: LaunchRecipe[object]) -> Program:
    """The program of a function of the library that launches one kernel."""
    (launch,) = prepared.launches
    return launch.kernel.compile(*launch.arguments, target=str(CHIP)).program


if __name__ == "__main__":
    if sys.argv[1] == "cold":
        session().warm()
    print(json.dumps({"cold": cold, "cached": cached, "gpu": gpu}[sys.argv[1]]()))
