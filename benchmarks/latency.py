"""Latencies of one process, as JSON on its last line: `python latency.py cold` (empty cache), then `... cached`.

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

import numpy as np
import psutil

from kernels import matmul, saxpy
from tessera import f32, kernel, mut, tile
from tessera.session import session


@kernel
def scale(x: f32[n], y: mut[f32[n]], alpha: f32):
    """`y = alpha x`."""
    i = tile.linear_id()
    if i < n:
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
    samples = []
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


if __name__ == "__main__":
    if sys.argv[1] == "cold":
        session().warm()
    print(json.dumps({"cold": cold, "cached": cached}[sys.argv[1]]()))
