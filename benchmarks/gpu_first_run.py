"""Compile kernels for the GPU of this machine, run them, check them against NumPy, and time them beside cupy and torch.

    PYTHONPATH=$HOME/site:. python3 benchmarks/gpu_first_run.py [--random 60] [--only NAME,NAME]

Needs numpy, cupy, torch and cuda-bindings, and ptxas on PATH or in the environment.  Results go to
$OUT/gpu_first_run.json, or to benchmarks/results/.  The exit status is 1 when any check failed.
"""

import argparse
import json
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import cupy as cp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402

import tessera  # noqa: E402
from support.documents import KERNELS  # noqa: E402
from support.ptx_machine import fused  # noqa: E402
from support.random_programs import cases as random_cases  # noqa: E402
from support.simulate import same_bits  # noqa: E402
from tessera.core.artifact import Artifact  # noqa: E402
from tessera.core.program.program import Program  # noqa: E402
from tessera.core.reductions import tree_sum  # noqa: E402
from tessera.core.targets import Target  # noqa: E402
from tessera.lowering.compile import compile_program  # noqa: E402
from tessera.lowering.target.toolchain import version  # noqa: E402
from tessera.runtime.cuda import CudaLauncher, device_architecture, synchronize  # noqa: E402
from tessera.runtime.grid import Grid  # noqa: E402
from tessera.runtime.interpret.run import run as interpret  # noqa: E402

Arrays = list[Any]
bf16, f16, f32, f64 = ml_dtypes.bfloat16, np.float16, np.float32, np.float64
RNG = np.random.default_rng(7)

SOFTMAX = """
@kernel
def softmax_rows(X: f32[R, 4096], Y: mut f32[R, 4096]):
    for r in tile.range(R, step=1):
        Y[r, :] = tile.softmax(X[r, :], axis=-1)
"""
SUM = """
@kernel
def row_sum(X: f32[R, 65536], Y: mut f32[R]):
    for r in tile.range(R, step=1):
        Y[r] = tile.sum(X[r, :])
"""
MATMUL = """
@kernel
def matmul(A: f32[M, K], B: f32[K, N], C: mut f32[M, N]):
    for m in tile.range(M, step=64):
        for n in tile.range(N, step=64):
            acc = tile.zeros((64, 64))
            for k in range(0, K, 32):
                acc += tile.dot(A[m:m+64, k:k+32], B[k:k+32, n:n+64])
            C[m:m+64, n:n+64] = acc
"""
SPILL = """
@kernel
def spills(A: f32[M, 64], B: f32[64, 320], C: mut f32[M, 320]):
    for m in tile.range(M, step=192):
        t = tile.dot(A[m:m+192, :], B[:, :])
        C[m:m+192, :] = t - tile.max(t, axis=1, keepdims=True)
"""
MATH = """
@kernel
def functions(x: f32[n], e: mut f32[n], l: mut f32[n], s: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        e[i] = tile.exp(x[i])
        l[i] = tile.log(x[i])
        s[i] = tile.sqrt(x[i])
"""


@dataclass(frozen=True)
class Case:
    """One kernel: its text, a maker of arguments, a judge of (arguments before, arguments after), and peers to time.

    `moved` (bytes) and `flops` turn the time into a rate; a peer is a function of the device's arguments.
    """

    name: str
    text: str
    make: Callable[[], Arrays]
    judge: Callable[[Arrays, Arrays], str]
    moved: float = 0.0
    flops: float = 0.0
    peers: dict[str, Callable[[Arrays], Any]] = field(default_factory=dict)
    grid: Grid | None = None


# -- arguments -----------------------------------------------------------------------------------------------------


def normal(*shape: int, dtype: Any = f32) -> Any:
    """Normally distributed numbers."""
    return RNG.standard_normal(shape, dtype=f32).astype(dtype)


def poison(*shape: int, dtype: Any = f32) -> Any:
    """An output nobody has written: NaN."""
    return np.full(shape, np.nan, f32).astype(dtype)


def on_device(value: Any) -> Any:
    """A cupy array; bf16, which cupy does not have, goes through torch."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == bf16:
        return torch.from_numpy(value.view(np.int16)).cuda().view(torch.bfloat16)
    return cp.asarray(value)


def on_host(value: Any) -> Any:
    """The NumPy array of a device array."""
    if isinstance(value, torch.Tensor):
        return value.view(torch.int16).cpu().numpy().view(bf16)
    return cp.asnumpy(value) if isinstance(value, cp.ndarray) else value


def written(before: Arrays, after: Arrays) -> Arrays:
    """The arrays that are not what they were."""
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if isinstance(a, np.ndarray)]
    return [a for b, a in pairs if not same_bits(b, a)]


# -- judges --------------------------------------------------------------------------------------------------------


def exact(expected: Callable[[Arrays], Any]) -> Callable[[Arrays, Arrays], str]:
    """Judge the one output by its bits."""

    def judge(before: Arrays, after: Arrays) -> str:
        got = written(before, after)
        return "same bits as NumPy" if len(got) == 1 and same_bits(got[0], expected(before)) else "WRONG BITS"

    return judge


def close(expected: Callable[[Arrays], Any], tolerance: float) -> Callable[[Arrays, Arrays], str]:
    """Judge the one output by its largest error relative to the largest value, computed in f64."""

    def judge(before: Arrays, after: Arrays) -> str:
        (got,) = written(before, after)
        want = np.asarray(expected(before), f64)
        error = float(np.abs(got.astype(f64) - want).max() / np.abs(want).max())
        return f"{'ok' if error <= tolerance else 'WRONG'}, error {error:.1e}"

    return judge


def judge_functions(before: Arrays, after: Arrays) -> str:
    """Errors of exp, log and sqrt in units in the last place."""
    x = before[0].astype(f64)
    errors: list[float] = []
    for got, want in zip(after[1:], (np.exp(np.minimum(x, 88.0)), np.log(x), np.sqrt(x)), strict=True):
        usable = (x < 88.0) & (np.abs(want) > 1e-30)
        unit = np.spacing(np.abs(want).astype(f32)).astype(f64)
        errors.append(float((np.abs(got.astype(f64) - want) / unit)[usable].max()))
    good = errors[0] <= 1 and errors[1] <= 1 and errors[2] <= 0.5
    return f"{'ok' if good else 'WRONG'}, ulp {', '.join(f'{e:.2f}' for e in errors)}"


def group_sums(before: Arrays) -> Any:
    """What `group_sum` leaves: every group adds everything."""
    x, out = before
    lanes = np.zeros(128, f32)
    for start in range(0, len(x), 128):
        part = x[start : start + 128]
        lanes[: len(part)] += part
    return np.full(len(out), tree_sum(lanes, 0))


def warp_sums(before: Arrays) -> Any:
    """What five shuffles down leave in lane 0 of each warp."""
    total = before[0].reshape(-1, 32).copy()
    for offset in (16, 8, 4, 2, 1):
        total[:, :offset] += total[:, offset : 2 * offset]
    return total[:, 0]


def axpy(before: Arrays) -> Any:
    """What the double-buffered pipelines leave: the last block of 128 is copied and never used."""
    x, y, alpha = before
    out, last = y.copy(), (len(x) - 1) // 128 * 128
    out[:last] = f16(alpha) * x[:last] + y[:last]
    return out


def attention(before: Arrays) -> Any:
    """Attention within each block of 128 rows, in f64."""
    q, k, v = (a.astype(f64) for a in before[:3])
    out = np.empty(q.shape)
    for at in range(0, len(q), 128):
        out[at : at + 128] = softmax(q[at : at + 128] @ k[at : at + 128].T) @ v[at : at + 128]
    return out


def softmax(x: Any) -> Any:
    """Of each row, in f64."""
    e = np.exp(x.astype(f64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def chain(before: Arrays) -> Any:
    """The exact product: one fused multiply-add a step of K."""
    a, b = (x.astype(f32) for x in before[:2])
    total = np.zeros((a.shape[0], b.shape[1]), f32)
    for k in range(a.shape[1]):
        left, right = (np.broadcast_to(x, total.shape).copy() for x in (a[:, k : k + 1], b[k : k + 1]))
        total = fused(left, right, total)
    return total


def shifted(before: Arrays) -> Any:
    """A product less the largest of each row, in f64."""
    t = product(before)
    return t - t.max(axis=1, keepdims=True)


def product(before: Arrays) -> Any:
    """The product of the first two arguments, in f64."""
    return before[0].astype(f64) @ before[1].astype(f64)


def mlp(before: Arrays) -> Any:
    """Two layers, in f64."""
    x, w1, b1, w2, b2 = (a.astype(f64) for a in before[:5])
    return np.maximum(x @ w1 + b1, 0) @ w2 + b2


# -- kernels -------------------------------------------------------------------------------------------------------


@cache
def _cupy_saxpy() -> Any:
    return cp.ElementwiseKernel("float32 x, float32 a", "float32 y", "y = a * x + y", "peer_saxpy")


def _torch(array: Any) -> torch.Tensor:
    return torch.as_tensor(array, device="cuda")


def lane_cases() -> Iterator[Case]:
    """Kernels of lanes."""
    n, alpha = (1 << 24) + 3, f32(0.3)
    peers = {
        "cupy": lambda d: _cupy_saxpy()(d[0], alpha, d[1]),
        "torch": lambda d: _torch(d[1]).add_(_torch(d[0]), alpha=0.3),
    }
    yield Case(
        "saxpy", KERNELS["saxpy"], lambda: [normal(n), normal(n), 0.3],
        exact(lambda b: alpha * b[0] + b[1]), 12.0 * n, peers=peers,
    )  # fmt: skip
    yield Case(
        "scale", KERNELS["scale"], lambda: [normal(n), poison(n), 0.3], exact(lambda b: alpha * b[0]), 8.0 * n,
        peers={"cupy": lambda d: cp.multiply(d[0], alpha, out=d[1])},
    )  # fmt: skip
    yield Case(
        "saxpy_launch", KERNELS["saxpy_launch"], lambda: [0.3, normal(n), normal(n), poison(n)],
        exact(lambda b: alpha * b[1] + b[2]), 12.0 * n, grid=Grid((-(-n // 256),), (256,)),
    )  # fmt: skip
    yield Case("group_sum", KERNELS["group_sum"], lambda: [normal(100_003), poison(264)], exact(group_sums))
    yield Case(
        "warp_reduce_sum", KERNELS["warp_reduce_sum"], lambda: [normal(1 << 24), poison(1 << 19)], exact(warp_sums),
        4.0 * (1 << 24), peers={"cupy": lambda d: d[0].reshape(-1, 32).sum(axis=1)},
    )  # fmt: skip
    for name in ("axpy_tiled", "tp_axpy"):
        yield Case(name, KERNELS[name], lambda: [normal(4000, dtype=f16), normal(4000, dtype=f16), 0.5], exact(axpy))
    yield Case(
        "coop_example", KERNELS["coop_example"], lambda: [normal(100)],
        exact(lambda b: np.concatenate([b[0][:64] + f32(1), b[0][64:]])),
    )  # fmt: skip
    count = 1 << 20
    yield Case(
        "functions", MATH, lambda: [np.exp(normal(count) * f32(4)), *(poison(count) for _ in range(3))],
        judge_functions, 16.0 * count,
    )  # fmt: skip


def tile_cases() -> Iterator[Case]:
    """Kernels of tiles."""
    cube = 2.0 * 1024**3
    yield Case("matmul_small", MATMUL, lambda: [normal(200, 150), normal(150, 170), poison(200, 170)], exact(chain))
    yield Case(
        "matmul_1024", MATMUL, lambda: [normal(1024, 1024), normal(1024, 1024), poison(1024, 1024)],
        close(product, 4e-6), flops=cube, peers={"cupy": lambda d: cp.matmul(d[0], d[1], out=d[2])},
    )  # fmt: skip
    gemm = KERNELS["gemm_tc"]
    small = (normal(200, 70, dtype=bf16), normal(70, 150, dtype=bf16))
    yield Case("gemm_tc_small", gemm, lambda: [*small, poison(200, 150)], exact(chain))
    large = (normal(1024, 1024, dtype=bf16), normal(1024, 1024, dtype=bf16))
    yield Case(
        "gemm_tc_1024", gemm, lambda: [*large, poison(1024, 1024)], close(product, 4e-6), flops=cube,
        peers={"torch": lambda d: torch.matmul(d[0], d[1])},
    )  # fmt: skip
    yield Case(
        "pipeline", KERNELS["pipeline"], lambda: [normal(64, 512), normal(512, 96), normal(64, 96)],
        close(lambda b: product(b) + b[2], 1e-6),
    )  # fmt: skip
    shapes = ((512, 256), (256, 512), (512,), (512, 128), (128,))
    yield Case(
        "fused_mlp", KERNELS["fused_mlp"], lambda: [*(normal(*s) for s in shapes), poison(512, 128)], close(mlp, 1e-6)
    )
    yield Case(
        "flash_attention", KERNELS["flash_attention"],
        lambda: [*(normal(4096, 64, dtype=f16) for _ in range(3)), poison(4096, 64, dtype=f16)],
        close(attention, 2e-3),
    )  # fmt: skip
    yield Case(
        "softmax_rows", SOFTMAX, lambda: [normal(4096, 4096), poison(4096, 4096)],
        close(lambda b: softmax(b[0]), 1e-6), 8.0 * 4096 * 4096,
        peers={"torch": lambda d: torch.softmax(_torch(d[0]), 1)},
    )  # fmt: skip
    yield Case(
        "row_sum", SUM, lambda: [normal(264, 65536), poison(264)], exact(lambda b: tree_sum(b[0], 1)),
        4.0 * 264 * 65536, peers={"cupy": lambda d: d[0].sum(axis=1)},
    )  # fmt: skip
    yield Case("spills", SPILL, lambda: [normal(5000, 64), normal(64, 320), poison(5000, 320)], close(shifted, 1e-6))


# -- running -------------------------------------------------------------------------------------------------------


@dataclass
class Bench:
    """Runs cases on one GPU and keeps a row for each."""

    arch: str
    rows: list[dict[str, Any]] = field(default_factory=list)

    def compile(self, text: str, arguments: Arrays) -> tuple[Artifact, Program, float]:
        """The artifact for this GPU, the Program, and the milliseconds the compiler took (in this process)."""
        host = text.find("\nlaunch.grid(")
        module = tessera.compile_source(text if host < 0 else text[:host])
        kernel = next(v for v in vars(module).values() if isinstance(v, tessera.Kernel))
        program = kernel.compile(*arguments, target=f"cuda:{self.arch}").program
        start = time.perf_counter()
        artifact = compile_program(program, Target("cuda", self.arch), False).artifact
        return artifact, program, (time.perf_counter() - start) * 1e3

    def run(self, case: Case) -> None:
        """Compile, run twice on fresh arguments, judge, time."""
        row: dict[str, Any] = {"name": case.name}
        self.rows.append(row)
        try:
            self._run(case, row)
        except Exception as error:  # noqa: BLE001 - one failing kernel must not hide the others
            row["verdict"] = f"FAILED: {type(error).__name__}: {error}"
            traceback.print_exc(limit=-3)
        print_row(row, case)

    def _run(self, case: Case, row: dict[str, Any]) -> None:
        before = case.make()
        artifact, _, spent = self.compile(case.text, before)
        used = artifact.resources
        row |= {"compile_ms": spent, "registers": used.registers, "shared": used.shared_bytes}
        row |= {"spilled": used.spill_bytes, "scratch": used.scratch_bytes}
        launcher = CudaLauncher(artifact)
        runs: list[Arrays] = []
        for _ in range(2):
            device = [on_device(a) for a in before]
            launcher(*device, grid=case.grid)
            synchronize()
            runs.append([on_host(a) for a in device])
        row["verdict"] = case.judge(before, runs[0])
        row["repeats"] = not written(*runs)
        row["ms"] = milliseconds(lambda: launcher(*device, grid=case.grid))
        for peer, call in case.peers.items():
            row[peer] = milliseconds(lambda call=call: call(device))


def milliseconds(call: Callable[[], Any], repeat: int = 20) -> float:
    """The median time of one call on the GPU."""
    for _ in range(3):
        call()
    times: list[float] = []
    for _ in range(repeat):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, end))
    return float(np.median(times))


def print_row(row: dict[str, Any], case: Case) -> None:
    """One line a kernel."""
    parts = [f"{row['name']:<16} {row['verdict']:<24}"]
    if "ms" in row:
        parts.append(f"{row['ms'] * 1e3:9.1f} us")
        parts += [f"{case.moved / row['ms'] / 1e6:6.0f} GB/s"] if case.moved else []
        parts += [f"{case.flops / row['ms'] / 1e9:6.1f} TFLOP/s"] if case.flops else []
        parts += [f"{peer} {row[peer] * 1e3:.1f} us (x{row[peer] / row['ms']:.2f})" for peer in case.peers]
        parts.append(f"regs {row['registers']} shared {row['shared']} spilled {row['spilled']}")
        parts.append(f"compile {row['compile_ms']:.0f} ms" + ("" if row["repeats"] else "  DIFFERS FROM RUN TO RUN"))
    print("  ".join(parts), flush=True)


def other_ways_in(bench: Bench) -> None:
    """NumPy arrays, strided arrays, PTX through the driver's compiler, another ptxas's cubin, the cost of a launch."""
    x, y = normal(1000), normal(1000)
    artifact, program, _ = bench.compile(KERNELS["saxpy"], [x, y, 0.3])
    want, facts = f32(0.3) * x + y, dict[str, Any]()
    got = y.copy()
    CudaLauncher(artifact)(x, got, 0.3)
    facts["NumPy arrays, copied"] = same_bits(got, want)

    def launched(which: Artifact, first: Any) -> Any:
        out = cp.asarray(y)
        CudaLauncher(which)(first, out, 0.3)
        return cp.asnumpy(out)

    levels = compile_program(program, Target("cuda", bench.arch), True).listings
    ptx = next(listing.text for listing in levels if listing.level == "ptx")
    start = time.perf_counter()
    facts["PTX by the driver"] = same_bits(launched(replace(artifact, code=ptx.encode() + b"\0"), cp.asarray(x)), want)
    facts["PTX by the driver, ms"] = round((time.perf_counter() - start) * 1e3, 1)
    every_second = normal(2000)[::2]
    strided, _, _ = bench.compile(KERNELS["saxpy"], [every_second, y, 0.3])
    device = cp.asarray(every_second.base)[::2]
    facts["strided arrays"] = same_bits(launched(strided, device), f32(0.3) * every_second + y)
    prebuilt = ROOT / ".gpu" / "prebuilt.pickle"
    if prebuilt.exists():
        other: Artifact = pickle.loads(prebuilt.read_bytes())  # noqa: S301 - made by us, for this check
        label = f"cubin of ptxas {other.toolchain.get('nvidia-cuda-nvcc')}"
        facts[label] = same_bits(launched(other, cp.asarray(x)), want)
    launcher, dx, dy = CudaLauncher(artifact), cp.asarray(x), cp.asarray(y)
    for count in (100, 1000):
        synchronize()
        start = time.perf_counter()
        for _ in range(count):
            launcher(dx, dy, 0.3)
    facts["launch, us"] = round((time.perf_counter() - start) * 1e3, 2)
    synchronize()
    verdict = "ok" if all(v is not False for v in facts.values()) else "WRONG"
    bench.rows.append({"name": "other ways in", "verdict": verdict, **facts})
    for key, value in facts.items():
        print(f"{key:<28} {value}", flush=True)


def random_kernels(bench: Bench, count: int) -> None:
    """Random kernels of every construct and dtype against the NumPy interpreter, bit for bit."""
    failures: list[str] = []
    done: list[int] = []

    def one(case: Any) -> None:
        done.append(1)
        try:
            want, device = case.arguments(), [on_device(a) for a in case.arguments()]
            interpret(case.program, want, symbols=case.symbols, grid=(case.groups,))
            artifact = compile_program(case.program, Target("cuda", bench.arch), False).artifact
            CudaLauncher(artifact)(*device, grid=Grid((case.groups,)))
            synchronize()
            pairs = [(on_host(g), w) for g, w in zip(device, want, strict=True) if isinstance(w, np.ndarray)]
            if not all(same_bits(g, w) for g, w in pairs):
                failures.append(f"case {len(done)}: other bits\n{case!r}")
        except Exception as error:  # noqa: BLE001 - counted
            failures.append(f"case {len(done)}: {type(error).__name__}: {error}\n{case!r}")

    anything = list(HealthCheck)
    quiet = settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=anything
    )
    seed(11)(quiet(given(random_cases())(one)))()
    verdict = f"{len(done) - len(failures)} of {len(done)} same bits"
    wrong = "WRONG: " if failures else ""
    bench.rows.append({"name": "random kernels", "verdict": wrong + verdict, "failures": failures[:5]})
    print(f"{'random kernels':<16} {verdict}")
    for failure in failures[:2]:
        print(failure[:3000])


def main() -> int:
    """Run everything; the exit status says whether all of it was right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--random", type=int, default=60, metavar="N", help="how many random kernels to check")
    parser.add_argument("--only", default="", help="names of the kernels to run, joined by commas")
    options = parser.parse_args()
    wanted = {name for name in options.only.split(",") if name}
    cp.zeros(1)
    bench = Bench(device_architecture())
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}, {bench.arch}, driver {cp.cuda.runtime.driverGetVersion()}, ptxas {version('ptxas')}")
    for case in (*lane_cases(), *tile_cases()):
        if not wanted or case.name in wanted:
            bench.run(case)
    if not wanted:
        other_ways_in(bench)
        random_kernels(bench, options.random)
    bad = ("WRONG", "FAILED")
    wrong = [r["name"] for r in bench.rows if any(b in r["verdict"] for b in bad) or r.get("repeats") is False]
    folder = Path(os.environ.get("OUT") or ROOT / "benchmarks" / "results")
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"device": name, "arch": bench.arch, "ptxas": version("ptxas"), "rows": bench.rows}
    (folder / "gpu_first_run.json").write_text(json.dumps(facts, indent=1, default=str))
    total = len(bench.rows)
    print(f"{total - len(wrong)} of {total} right" + (f"; wrong: {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
