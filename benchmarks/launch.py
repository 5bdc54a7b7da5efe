"""Host time of a launch beside torch, cupy and Triton, in one run: `python benchmarks/launch.py [--out FILE]`.

Each row is the time the calling thread spends in one call, the GPU working on its own: 500 calls between two waits for
the GPU, the median of 15 such rounds, the rounds of all rows taken in turns so that a slow moment meets every row.
`kernel by kernel` rows divide a graph's launch by its kernels.  Every Tessera row is first checked for its result.
"""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false, reportIndexIssue=false

import argparse
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import cupy as cp  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

import tessera  # noqa: E402
from tessera import graph, stream  # noqa: E402
from tessera.runtime.driver.devices import properties  # noqa: E402
from tessera.runtime.memory.owned import to_device  # noqa: E402

N = 1024
CALLS = 500
ROUNDS = 15
KERNELS_OF_A_GRAPH = 100
TEXT = """
@kernel
def nothing(x: mut f32[n]):
    i = tile.linear_id()
    if i < 0:
        x[i] = 0.0

@kernel
def saxpy(a: f32, x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = a * x[i] + y[i]
"""


@dataclass
class Row:
    """One way to launch; `samples` are microseconds a call (or a kernel of a graph), one a round."""

    name: str
    call: Callable[[], object] = field(repr=False)
    calls: int = CALLS
    kernels: int = 1
    samples: list[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        """Microseconds."""
        return statistics.median(self.samples)

    def sample(self) -> None:
        """Take one more round."""
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(self.calls):
            self.call()
        spent = time.perf_counter_ns() - begin
        torch.cuda.synchronize()
        self.samples.append(spent / self.calls / self.kernels / 1e3)


def tessera_rows(kernels: Any) -> Iterator[Row]:
    """Our launches, on arrays of every library; `moving` rows get other arrays in every call."""
    nothing, saxpy = kernels.nothing, kernels.saxpy
    host = np.random.default_rng(1).standard_normal(N).astype(np.float32)
    makers: dict[str, Callable[[], Any]] = {
        "torch": lambda: torch.from_numpy(host).cuda(),
        "cupy": lambda: cp.asarray(host),
        "own arrays": lambda: to_device(host),
    }
    for library, make in makers.items():
        x, y, other = make(), make(), make()
        check(saxpy, x, make(), host)
        yield Row(f"tessera nothing, {library}", lambda x=x: nothing(x))
        yield Row(f"tessera saxpy, {library}", lambda x=x, y=y: saxpy(2.0, x, y))

        def moving(x: Any = x, y: Any = y, other: Any = other) -> None:
            saxpy(2.0, x, y)
            saxpy(2.0, x, other)

        yield Row(f"tessera saxpy, {library}, moving", moving, CALLS // 2, 2)
    x, y = makers["torch"](), makers["torch"]()
    s = stream.new()
    configured = saxpy.on(s)
    yield Row("tessera saxpy, torch, on a stream", lambda: configured(2.0, x, y))
    yield Row("tessera saxpy, torch, scalar changes", lambda: saxpy(time.perf_counter(), x, y))
    with graph.capture() as captured:
        for _ in range(KERNELS_OF_A_GRAPH):
            saxpy(2.0, x, y)
    yield Row("tessera graph, kernel by kernel", lambda: graph.launch(captured), 20, KERNELS_OF_A_GRAPH)

    @tessera.jit(capture_graph=True)
    def step(x: Any, y: Any) -> None:
        for _ in range(KERNELS_OF_A_GRAPH):
            saxpy(2.0, x, y)

    yield Row("tessera jit graph, kernel by kernel", lambda: step(x, y), 20, KERNELS_OF_A_GRAPH)


def check(saxpy: Any, x: Any, y: Any, host: np.ndarray) -> None:
    """Six launches, of which the last are graphs of one node, with two numbers."""
    for a in (2.0, 2.0, 2.0, 2.0, 3.0, 3.0):
        saxpy(a, x, y)
    stream.synchronize()
    got = y.get() if hasattr(y, "get") else y.cpu().numpy()
    want = host.copy()
    for a in (2.0, 2.0, 2.0, 2.0, 3.0, 3.0):
        want = np.float32(a) * host + want
    if not np.allclose(got, want, rtol=1e-5):
        raise AssertionError("a launch computed something else")


def torch_rows() -> Iterator[Row]:
    """torch: an operator in place, and its own graphs."""
    x, y = torch.randn(N, device="cuda"), torch.randn(N, device="cuda")
    yield Row("torch add_", lambda: y.add_(x, alpha=2.0))
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(KERNELS_OF_A_GRAPH):
            y.add_(x, alpha=2.0)
    yield Row("torch graph, kernel by kernel", captured.replay, 20, KERNELS_OF_A_GRAPH)


def cupy_rows() -> Iterator[Row]:
    """cupy: an element-wise kernel, and raw CUDA C."""
    x, y = cp.ones(N, cp.float32), cp.ones(N, cp.float32)
    elementwise = cp.ElementwiseKernel("float32 a, float32 x", "float32 y", "y = a * x + y", "saxpy_elementwise")
    a = np.float32(2.0)
    yield Row("cupy ElementwiseKernel", lambda: elementwise(a, x, y))
    code = """extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }"""
    raw, n = cp.RawKernel(code, "saxpy"), np.int32(N)
    yield Row("cupy RawKernel", lambda: raw((4,), (256,), (a, x, y, n)))


def triton_rows() -> Iterator[Row]:
    """Triton, whose kernels live in a module beside this one because it reads their source."""
    from launch_triton import saxpy  # noqa: PLC0415 - Triton may be missing

    x, y = torch.randn(N, device="cuda"), torch.randn(N, device="cuda")
    yield Row("triton", lambda: saxpy[(4,)](2.0, x, y, N, 256))


def packages() -> dict[str, str]:
    """Versions of everything that is compared."""
    found = {}
    for name in ("torch", "triton", "cupy-cuda13x", "cuda-bindings", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def main() -> int:
    """Run everything; the exit status is 1 when a row could not be made."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(os.environ["OUT"]) if "OUT" in os.environ else ROOT / "benchmarks" / "results"
    parser.add_argument("--out", type=Path, default=default / "launch.json")
    options = parser.parse_args()
    torch.zeros(1, device="cuda")
    kernels = tessera.compile_source(TEXT)
    rows: list[Row] = []
    failed = False
    for make in (lambda: tessera_rows(kernels), torch_rows, cupy_rows, triton_rows):
        try:
            rows += make()
        except Exception:  # noqa: BLE001 - one missing peer must not hide the others
            traceback.print_exc()
            failed = True
    for row in rows:  # warm up: compile, load, make graphs
        row.sample()
        row.samples.clear()
    for _ in range(ROUNDS):
        for row in rows:
            row.sample()
    for row in rows:
        print(f"{row.name:<42} {row.median:7.2f} us   least {min(row.samples):6.2f}   most {max(row.samples):6.2f}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": asdict(properties(0)),
        "versions": {"python": sys.version.split()[0], **packages()},
        "rows": [{"name": r.name, "median_us": r.median, "samples_us": r.samples} for r in rows],
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
