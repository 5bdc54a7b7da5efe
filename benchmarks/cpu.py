"""Speed of the CPU target beside NumPy, in one run: `python benchmarks/cpu.py [--only NAME] [--out FILE]`.

Every row first checks the kernel's result against NumPy on random inputs, then times both, alternating, and prints
the ratio (above 1 is faster than NumPy).  The JSON holds every sample with date, processor and versions.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

if "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
    # OpenBLAS 0.3.31 takes its AVX2 code on processors with AVX-512 that it does not know, such as Zen 5, where it
    # takes 1.5 to 1.9 times as long.  It looks here when NumPy is imported.
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")

import numpy as np

import tessera
from kernels import attention, layer_norm, matmul, reduce_all, saxpy, softmax_rows

RESULTS = Path(__file__).with_name("results")


@dataclass(frozen=True)
class Case:
    """One row: what to run on both sides, and how close the results must be (relative to the largest value)."""

    name: str
    run: Callable[[], object]
    numpy: Callable[[], object]
    result: Callable[[], np.ndarray]
    expected: Callable[[], np.ndarray]
    tolerance: float
    goal_ms: float | None = None


@dataclass
class Row:
    """One measured row; times in milliseconds."""

    name: str
    tessera_ms: float
    numpy_ms: float
    goal_ms: float | None
    samples: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    @property
    def ratio(self) -> float:
        """How many times faster than NumPy."""
        return self.numpy_ms / self.tessera_ms


def normal(*shape: int) -> np.ndarray:
    """Random f32 values."""
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def case_saxpy() -> Case:
    """y = a x + y over 16M elements (reads 128 MiB, writes 64 MiB)."""
    n = 16 << 20
    x, y, z = normal(n), normal(n), np.empty(n, np.float32)
    start = y.copy()

    def with_numpy() -> None:
        np.multiply(x, np.float32(0.5), out=z)
        np.add(z, y, out=z)

    def result() -> np.ndarray:
        y[:] = start
        saxpy(x, y, 0.5)
        out = y.copy()
        y[:] = start
        return out

    return Case(
        "saxpy 16M", lambda: saxpy(x, y, 1e-9), with_numpy, result, lambda: np.float32(0.5) * x + start, 0.0, 2.6
    )


def case_softmax() -> Case:
    """Softmax of each of 4096 rows of 4096."""
    x, y = normal(4096, 4096) * 3, np.empty((4096, 4096), np.float32)

    def with_numpy() -> np.ndarray:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return Case(
        "softmax 4096 x 4096",
        lambda: softmax_rows(x, y),
        with_numpy,
        lambda: (softmax_rows(x, y), y)[1],
        with_numpy,
        2e-6,
        3.2,
    )


def case_layer_norm() -> Case:
    """Layer norm of each of 4096 rows of 4096."""
    x, y, g, b = normal(4096, 4096), np.empty((4096, 4096), np.float32), normal(4096), normal(4096)

    def with_numpy() -> np.ndarray:
        d = x - x.mean(axis=1, keepdims=True)
        v = (d * d).mean(axis=1, keepdims=True)
        return d / np.sqrt(v + np.float32(1e-5)) * g + b

    return Case(
        "layer norm 4096 x 4096",
        lambda: layer_norm(x, g, b, y),
        with_numpy,
        lambda: (layer_norm(x, g, b, y), y)[1],
        with_numpy,
        2e-6,
    )


def case_matmul(m: int, k: int, n: int, goal: float | None) -> Case:
    """C = A B in f32."""
    a, b, c, out = normal(m, k), normal(k, n), np.empty((m, n), np.float32), np.empty((m, n), np.float32)

    def exact() -> np.ndarray:
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)

    return Case(
        f"matmul {m} x {k} x {n}",
        lambda: matmul(a, b, c),
        lambda: np.matmul(a, b, out=out),
        lambda: (matmul(a, b, c), c)[1],
        exact,
        1e-5,
        goal,
    )


def case_attention() -> Case:
    """Attention forward of 8 heads, 1024 tokens, 64 wide."""
    q, k, v = normal(8, 1024, 64), normal(8, 1024, 64) + 0.1, normal(8, 1024, 64) - 0.1
    out = np.empty_like(q)

    def with_numpy() -> np.ndarray:
        s = np.matmul(q, k.transpose(0, 2, 1)) * np.float32(0.125)
        s -= s.max(axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=-1, keepdims=True)
        return np.matmul(s, v)

    return Case(
        "attention 8 x 1024 x 64",
        lambda: attention(q, k, v, out),
        with_numpy,
        lambda: (attention(q, k, v, out), out)[1],
        with_numpy,
        1e-5,
    )


def case_reduce() -> Case:
    """Sum of 16M elements, with the fixed association."""
    x, out = normal(16 << 20), np.empty(1, np.float32)

    def exact() -> np.ndarray:
        return np.array([x.sum(dtype=np.float64)], np.float32)

    return Case(
        "reduce_sum 16M",
        lambda: reduce_all(x, out),
        lambda: np.sum(x),
        lambda: (reduce_all(x, out), out)[1],
        exact,
        1e-6,
    )


CASES: dict[str, Callable[[], Case]] = {
    "saxpy": case_saxpy,
    "softmax": case_softmax,
    "layernorm": case_layer_norm,
    "matmul": lambda: case_matmul(1024, 1024, 1024, 4.6),
    "matmul2": lambda: case_matmul(2048, 512, 3072, None),
    "attention": case_attention,
    "reduce": case_reduce,
}


# OpenBLAS's threads wait for more work in a busy loop for 2^26 cycles and more: whoever runs next would share a core.
_PAUSE = 0.3
_ROUNDS = 5


def milliseconds(run: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def measure(case: Case, repeats: int) -> Row:
    """Check, then time both sides in turn, several calls at a time; the best of each is compared."""
    got, want = case.result(), case.expected()
    error = float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max() / np.abs(want).max())
    if not error <= case.tolerance:
        raise SystemExit(f"{case.name}: wrong by {error:.2e}, more than {case.tolerance:.0e}")
    gc.disable()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(_ROUNDS):
        for run, samples in ((case.run, ours), (case.numpy, theirs)):
            time.sleep(_PAUSE)
            run()
            samples += [milliseconds(run) for _ in range(-(-repeats // _ROUNDS))]
    gc.enable()
    return Row(case.name, min(ours), min(theirs), case.goal_ms, {"tessera": ours, "numpy": theirs})


def compile_figures() -> dict[str, float]:
    """Latencies in milliseconds (launch in microseconds): compile, cached, launch, import; and memory in MiB."""
    figures = {"import_ms": _import_time()}
    script = Path(__file__).with_name("latency.py")
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TESSERA_CACHE_DIR": cache}
        for phase in ("cold", "cached", "gpu"):
            found = subprocess.run(
                [sys.executable, str(script), phase], env=environment, capture_output=True, text=True, check=True
            )
            figures |= json.loads(found.stdout.strip().splitlines()[-1])
    return figures


def _import_time() -> float:
    code = "import time; t = time.perf_counter(); import tessera; print((time.perf_counter() - t) * 1e3)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return statistics.median(float(run.stdout) for run in runs)


def main() -> None:
    """Run, print, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=CASES, action="append", help="run this case (may be given again)")
    parser.add_argument("--repeats", type=int, default=15, help="timed runs of each side")
    parser.add_argument("--out", type=Path, default=RESULTS / "cpu.json", help="where the JSON goes")
    parser.add_argument("--no-latency", action="store_true", help="leave out compile and launch latencies")
    options = parser.parse_args()
    print(f"{'':24}{'Tessera':>10}{'NumPy':>10}{'ratio':>8}{'goal':>8}   (ms)")
    rows: list[dict[str, object]] = []
    for name in options.only or CASES:
        row = measure(CASES[name](), options.repeats)
        goal = f"{row.goal_ms:8.1f}" if row.goal_ms else " " * 8
        print(f"{row.name:24}{row.tessera_ms:10.2f}{row.numpy_ms:10.2f}{row.ratio:8.2f}{goal}", flush=True)
        rows.append({**asdict(row), "ratio": row.ratio})
    latency = {} if options.no_latency or options.only else compile_figures()
    for name, value in latency.items():
        print(f"{name:34}{value:10.2f}")
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("numpy", "llvmlite", "torch-mlir")}
        | {"tessera": tessera.__version__},
        "rows": rows,
        "latency": latency,
    }
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
