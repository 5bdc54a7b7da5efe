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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import cupy as cp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

import tessera  # noqa: E402
from support.documents import KERNELS  # noqa: E402
from tessera.core.artifact import Artifact  # noqa: E402
from tessera.core.reductions import tree_sum  # noqa: E402
from tessera.core.targets import Target  # noqa: E402
from tessera.lowering.compile import compile_program  # noqa: E402
from tessera.lowering.target.cuda.toolchain import version  # noqa: E402
from tessera.runtime.cuda import CudaLauncher, device_architecture, synchronize  # noqa: E402
from tessera.runtime.grid import Grid  # noqa: E402

RNG = np.random.default_rng(7)
ROWS: list[dict[str, Any]] = []
bf16 = ml_dtypes.bfloat16

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


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape, dtype=np.float32).astype(dtype)


def poison(*shape: int, dtype: Any = np.float32) -> Any:
    return np.full(shape, np.nan, np.float32).astype(dtype)


def kernel_of(text: str) -> Any:
    host = text.find("\nlaunch.grid(")
    module = tessera.compile_source(text if host < 0 else text[:host])
    return next(v for v in vars(module).values() if isinstance(v, tessera.Kernel))


def compiled(text: str, arguments: list[Any]) -> tuple[Artifact, Any, float]:
    """The artifact for this GPU, the Program, and the seconds the compiler took (in this process)."""
    program = kernel_of(text).compile(*arguments, target=f"cuda:{ARCH}").program
    start = time.perf_counter()
    artifact = compile_program(program, Target("cuda", ARCH), False).artifact
    return artifact, program, time.perf_counter() - start


def on_device(value: Any) -> Any:
    """cupy arrays; bf16, which cupy does not have, goes through torch."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == bf16:
        return torch.from_numpy(value.view(np.int16)).cuda().view(torch.bfloat16)
    return cp.asarray(value)


def on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.view(torch.int16).cpu().numpy().view(bf16)
    return cp.asnumpy(value) if isinstance(value, cp.ndarray) else value


def same_bits(a: Any, b: Any) -> bool:
    if a.dtype.kind in "iub":
        return bool((a == b).all())
    unsigned = np.dtype(f"u{a.itemsize}")
    nan = np.isnan(a) & np.isnan(b)
    return bool((nan | (np.ascontiguousarray(a).view(unsigned) == np.ascontiguousarray(b).view(unsigned))).all())


def milliseconds(run: Callable[[], Any], repeat: int = 20) -> float:
    """The median time of one call on the GPU."""
    for _ in range(3):
        run()
    times: list[float] = []
    for _ in range(repeat):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, end))
    return float(np.median(times))


def check(
    name: str, text: str, make: Callable[[], list[Any]], judge: Callable[[list[Any], list[Any]], str],
    bytes_moved: float = 0.0, flops: float = 0.0, peers: Callable[[list[Any]], dict[str, Callable[[], Any]]] | None = None,
    grid: Grid | None = None,
) -> None:  # fmt: skip
    """Compile, run on fresh arguments, judge, time; one row of the table."""
    if ONLY and name not in ONLY:
        return
    row: dict[str, Any] = {"name": name}
    ROWS.append(row)
    try:
        before = make()
        artifact, _, seconds = compiled(text, before)
        row |= {"compile_ms": seconds * 1e3, "registers": artifact.resources.registers,
                "shared": artifact.resources.shared_bytes, "spills": artifact.resources.spill_bytes,
                "scratch": artifact.resources.scratch_bytes}  # fmt: skip
        launcher = CudaLauncher(artifact)
        device = [on_device(a) for a in before]
        launcher(*device, grid=grid)
        synchronize()
        row["verdict"] = judge(before, [on_host(a) for a in device])
        again = [on_device(a) for a in before]
        launcher(*again, grid=grid)
        synchronize()
        row["repeats"] = all(same_bits(on_host(a), on_host(b)) for a, b in zip(device, again, strict=True) if hasattr(a, "shape"))
        row["ms"] = milliseconds(lambda: launcher(*device, grid=grid))
        row["GB/s"] = bytes_moved / row["ms"] / 1e6 if bytes_moved else None
        row["TFLOP/s"] = flops / row["ms"] / 1e9 if flops else None
        for peer, run in (peers(device) if peers else {}).items():
            row[peer] = milliseconds(run)
    except Exception as error:  # noqa: BLE001 - one failing kernel must not hide the others
        row["verdict"] = f"FAILED: {type(error).__name__}: {error}"
        traceback.print_exc(limit=-3)
    print_row(row)


def print_row(row: dict[str, Any]) -> None:
    parts = [f"{row['name']:<16} {row['verdict']:<34}"]
    if "ms" in row:
        parts.append(f"{row['ms'] * 1e3:10.1f} us")
        parts += [f"{row[unit]:8.1f} {unit}" for unit in ("GB/s", "TFLOP/s") if row.get(unit)]
        parts += [f"{peer} {row[peer] * 1e3:.1f} us (x{row[peer] / row['ms']:.2f})" for peer in ("cupy", "torch") if peer in row]
        parts.append(f"regs {row['registers']} smem {row['shared']} spill {row['spills']} compile {row['compile_ms']:.0f} ms")
        parts.append("" if row["repeats"] else "DIFFERS FROM RUN TO RUN")
    print("  ".join(parts), flush=True)


def exact(expected: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any], list[Any]], str]:
    """Judge by bits against `expected(arguments before)`, one array an output (the last ones)."""

    def judge(before: list[Any], after: list[Any]) -> str:
        want = expected(before)
        got = [a for a in after if isinstance(a, np.ndarray)][-len(want) :] if len(want) > 1 else [_written(before, after)]
        return "same bits as NumPy" if all(same_bits(g, w) for g, w in zip(got, want, strict=True)) else "WRONG BITS"

    return judge


def _written(before: list[Any], after: list[Any]) -> Any:
    changed = [a for b, a in zip(before, after, strict=True) if isinstance(a, np.ndarray) and not same_bits(b, a)]
    return changed[0] if changed else next(a for a in after if isinstance(a, np.ndarray))


def close(expected: Callable[[list[Any]], Any], tolerance: float) -> Callable[[list[Any], list[Any]], str]:
    """Judge the output by its largest error relative to the largest value, computed in f64."""

    def judge(before: list[Any], after: list[Any]) -> str:
        want, got = np.asarray(expected(before), np.float64), _written(before, after).astype(np.float64)
        error = float(np.abs(got - want).max() / np.abs(want).max())
        return f"{'ok' if error <= tolerance else 'WRONG'}, error {error:.1e}"

    return judge


def group_sums(before: list[Any]) -> list[Any]:
    x, out = before
    lanes = np.zeros(128, np.float32)
    for start in range(0, len(x), 128):
        part = x[start : start + 128]
        lanes[: len(part)] += part
    return [np.full(len(out), tree_sum(lanes, 0))]


def warp_sums(before: list[Any]) -> list[Any]:
    total = before[0].reshape(-1, 32).copy()
    for offset in (16, 8, 4, 2, 1):
        total[:, :offset] += total[:, offset : 2 * offset]
    return [total[:, 0]]


def axpy(before: list[Any]) -> list[Any]:
    x, y, alpha = before
    out, last = y.copy(), (len(x) - 1) // 128 * 128
    out[:last] = np.float16(alpha) * x[:last] + y[:last]
    return [out]


def attention(before: list[Any]) -> Any:
    q, k, v = (a.astype(np.float64) for a in before[:3])
    out = np.empty(q.shape)
    for at in range(0, len(q), 128):
        s = q[at : at + 128] @ k[at : at + 128].T
        p = np.exp(s - s.max(axis=1, keepdims=True))
        out[at : at + 128] = p / p.sum(axis=1, keepdims=True) @ v[at : at + 128]
    return out


def softmax(x: Any) -> Any:
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def chain(a: Any, b: Any) -> Any:
    """The exact product: one fused multiply-add a step of K, by way of f64 (exact products, one rounding to odd)."""
    from support.ptx_machine import fused

    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        left = np.broadcast_to(a[:, k : k + 1].astype(np.float32), total.shape)
        right = np.broadcast_to(b[k : k + 1].astype(np.float32), total.shape)
        total = fused(left.copy(), right.copy(), total)
    return total


def lane_kernels() -> None:
    n = (1 << 24) + 3
    saxpy_peer = cp.ElementwiseKernel("float32 x, float32 a", "float32 y", "y = a * x + y", "peer_saxpy")

    def saxpy_peers(d: list[Any]) -> dict[str, Callable[[], Any]]:
        tx, ty = (torch.as_tensor(a, device="cuda") for a in d[:2])
        return {"cupy": lambda: saxpy_peer(d[0], np.float32(0.3), d[1]), "torch": lambda: ty.add_(tx, alpha=0.3)}

    alpha = np.float32(0.3)
    check("saxpy", KERNELS["saxpy"], lambda: [normal(n), normal(n), 0.3], exact(lambda b: [alpha * b[0] + b[1]]),
          12.0 * n, peers=saxpy_peers)  # fmt: skip
    check("scale", KERNELS["scale"], lambda: [normal(n), poison(n), 0.3], exact(lambda b: [alpha * b[0]]), 8.0 * n,
          peers=lambda d: {"cupy": lambda: cp.multiply(d[0], alpha, out=d[1])})  # fmt: skip
    check("saxpy_launch", KERNELS["saxpy_launch"], lambda: [0.3, normal(n), normal(n), poison(n)],
          exact(lambda b: [alpha * b[1] + b[2]]), 12.0 * n, grid=Grid((-(-n // 256),), (256,)))  # fmt: skip
    check("group_sum", KERNELS["group_sum"], lambda: [normal(100_003), poison(264)], exact(group_sums))
    check("warp_reduce_sum", KERNELS["warp_reduce_sum"], lambda: [normal(1 << 24), poison(1 << 19)], exact(warp_sums),
          4.0 * (1 << 24), peers=lambda d: {"cupy": lambda: d[0].reshape(-1, 32).sum(axis=1)})  # fmt: skip
    for name in ("axpy_tiled", "tp_axpy"):
        check(name, KERNELS[name], lambda: [normal(4000, dtype=np.float16), normal(4000, dtype=np.float16), 0.5], exact(axpy))
    check("coop_example", KERNELS["coop_example"], lambda: [normal(100)],
          exact(lambda b: [np.concatenate([b[0][:64] + np.float32(1), b[0][64:]])]))  # fmt: skip
    positive = lambda: [np.exp(normal(1 << 20) * 4), poison(1 << 20), poison(1 << 20), poison(1 << 20)]  # noqa: E731

    def functions(before: list[Any], after: list[Any]) -> str:
        x = before[0].astype(np.float64)
        ulps = [float(np.abs((g.astype(np.float64) - w) / np.spacing(np.abs(w.astype(np.float32))).astype(np.float64)).max())
                for g, w in zip(after[1:], (np.exp(np.minimum(x, 88)), np.log(x), np.sqrt(x)), strict=True)]  # fmt: skip
        ulps[0] = float(np.abs((after[1] / np.exp(x) - 1)[x < 88]).max() / 2**-23)
        good = ulps[0] < 2 and ulps[1] < 2 and ulps[2] <= 0.5
        return f"{'ok' if good else 'WRONG'}, ulp exp {ulps[0]:.2f} log {ulps[1]:.2f} sqrt {ulps[2]:.2f}"

    check("functions", MATH, positive, functions, 16.0 * (1 << 20))


def tile_kernels() -> None:
    def matmul_peers(d: list[Any]) -> dict[str, Callable[[], Any]]:
        return {"cupy": lambda: cp.matmul(d[0], d[1], out=d[2])}

    def torch_peers(d: list[Any]) -> dict[str, Callable[[], Any]]:
        return {"torch": lambda: torch.matmul(d[0], d[1])}

    check("matmul_small", MATMUL, lambda: [normal(200, 150), normal(150, 170), poison(200, 170)], exact(lambda b: [chain(b[0], b[1])]))
    check("matmul_1024", MATMUL, lambda: [normal(1024, 1024), normal(1024, 1024), poison(1024, 1024)],
          close(lambda b: b[0].astype(np.float64) @ b[1], 1e-6), flops=2.0 * 1024**3, peers=matmul_peers)  # fmt: skip
    check("gemm_tc_small", KERNELS["gemm_tc"], lambda: [normal(200, 70, dtype=bf16), normal(70, 150, dtype=bf16), poison(200, 150)],
          exact(lambda b: [chain(b[0], b[1])]))  # fmt: skip
    check("gemm_tc_1024", KERNELS["gemm_tc"], lambda: [normal(1024, 1024, dtype=bf16), normal(1024, 1024, dtype=bf16), poison(1024, 1024)],
          close(lambda b: b[0].astype(np.float64) @ b[1].astype(np.float64), 1e-6), flops=2.0 * 1024**3, peers=torch_peers)  # fmt: skip
    check("pipeline", KERNELS["pipeline"], lambda: [normal(64, 512), normal(512, 96), normal(64, 96)],
          close(lambda b: b[0].astype(np.float64) @ b[1] + b[2], 1e-6))  # fmt: skip
    check("fused_mlp", KERNELS["fused_mlp"],
          lambda: [normal(512, 256), normal(256, 512), normal(512), normal(512, 128), normal(128), poison(512, 128)],
          close(lambda b: np.maximum(b[0].astype(np.float64) @ b[1] + b[2], 0) @ b[3] + b[4], 1e-6))  # fmt: skip
    check("flash_attention", KERNELS["flash_attention"], lambda: [normal(4096, 64, dtype=np.float16) for _ in range(3)] + [poison(4096, 64, dtype=np.float16)],
          close(attention, 2e-3))  # fmt: skip
    check("softmax_rows", SOFTMAX, lambda: [normal(4096, 4096), poison(4096, 4096)], close(lambda b: softmax(b[0]), 1e-6),
          8.0 * 4096 * 4096, peers=lambda d: {"torch": lambda: torch.softmax(torch.as_tensor(d[0], device="cuda"), 1)})  # fmt: skip
    check("row_sum", SUM, lambda: [normal(264, 65536), poison(264)], exact(lambda b: [tree_sum(b[0], 1)]), 4.0 * 264 * 65536,
          peers=lambda d: {"cupy": lambda: d[0].sum(axis=1)})  # fmt: skip

    def shifted(b: list[Any]) -> Any:
        t = b[0].astype(np.float64) @ b[1]
        return t - t.max(axis=1, keepdims=True)

    check("spills", SPILL, lambda: [normal(5000, 64), normal(64, 320), poison(5000, 320)], close(shifted, 1e-6))


def other_ways_in() -> None:
    """Cubins of another ptxas, PTX through the driver's compiler, NumPy arrays, and the cost of a launch."""
    row: dict[str, Any] = {}
    x, y = normal(1000), normal(1000)
    artifact, program, _ = compiled(KERNELS["saxpy"], [x, y, 0.3])
    want = np.float32(0.3) * x + y
    got = y.copy()
    CudaLauncher(artifact)(x, got, 0.3)
    row["numpy arrays, copied"] = same_bits(got, want)
    observed = compile_program(program, Target("cuda", ARCH), True)
    ptx = next(listing.text for listing in observed.listings if listing.level == "ptx").replace(".loc", "//.loc")
    d = cp.asarray(y)
    start = time.perf_counter()
    CudaLauncher(replace(artifact, key="ptx", code=ptx.encode() + b"\0"))(cp.asarray(x), d, 0.3)
    row["PTX by the driver"] = same_bits(cp.asnumpy(d), want)
    row["PTX by the driver, ms"] = (time.perf_counter() - start) * 1e3
    strided = cp.asarray(normal(2000))
    artifact2, _, _ = compiled(KERNELS["saxpy"], [cp.asnumpy(strided)[::2], y, 0.3])
    d = cp.asarray(y)
    CudaLauncher(artifact2)(strided[::2], d, 0.3)
    row["strided arrays"] = same_bits(cp.asnumpy(d), np.float32(0.3) * cp.asnumpy(strided)[::2] + y)
    prebuilt = ROOT / ".gpu" / "prebuilt.pickle"
    if prebuilt.exists():
        other = pickle.loads(prebuilt.read_bytes())  # noqa: S301 - made by us, for this check
        d = cp.asarray(y)
        CudaLauncher(other)(cp.asarray(x), d, 0.3)
        row[f"cubin of {other.toolchain.get('ptxas', 'another ptxas')}"] = same_bits(cp.asnumpy(d), want)
    launcher = CudaLauncher(artifact)
    dx, dy = cp.asarray(x), cp.asarray(y)
    for _ in range(100):
        launcher(dx, dy, 0.3)
    synchronize()
    start = time.perf_counter()
    for _ in range(1000):
        launcher(dx, dy, 0.3)
    row["launch, us"] = (time.perf_counter() - start) * 1e3
    synchronize()
    ROWS.append({"name": "other ways in", "verdict": "ok" if all(v is not False for v in row.values()) else "WRONG", **row})
    for key, value in row.items():
        print(f"{key:<28} {value}", flush=True)


def random_kernels(count: int) -> None:
    """Random kernels of every construct and dtype against the NumPy interpreter, bit for bit."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from support.random_programs import cases
    from tessera.runtime.interpret.run import run

    failures: list[str] = []
    done = 0

    @seed(11)
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(cases())
    def one(case: Any) -> None:
        nonlocal done
        done += 1
        want, before = case.arguments(), case.arguments()
        try:
            run(case.program, want, symbols=case.symbols, grid=(case.groups,))
            artifact = compile_program(case.program, Target("cuda", ARCH), False).artifact
            device = [on_device(a) for a in before]
            CudaLauncher(artifact)(*device, grid=Grid((case.groups,)))
            synchronize()
            got = [on_host(a) for a in device]
            if not all(same_bits(g, w) for g, w in zip(got, want, strict=True) if isinstance(w, np.ndarray)):
                failures.append(f"case {done}: other bits\n{case!r}")
        except Exception as error:  # noqa: BLE001 - counted
            failures.append(f"case {done}: {type(error).__name__}: {error}\n{case!r}")

    one()
    verdict = f"{done - len(failures)} of {done} same bits"
    ROWS.append({"name": "random kernels", "verdict": verdict if not failures else f"WRONG: {verdict}", "failures": failures[:5]})
    print(f"random kernels   {verdict}")
    for failure in failures[:2]:
        print(failure[:3000])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=int, default=60, metavar="N", help="how many random kernels to check")
    parser.add_argument("--only", default="", help="names of the kernels to run, joined by commas")
    options = parser.parse_args()
    global ARCH, ONLY  # noqa: PLW0603 - set once, read by every check
    cp.zeros(1)
    ARCH, ONLY = device_architecture(), {name for name in options.only.split(",") if name}
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}, {ARCH}, driver {cp.cuda.runtime.driverGetVersion()}, ptxas {version('ptxas')}")
    lane_kernels()
    tile_kernels()
    if not ONLY:
        other_ways_in()
        random_kernels(options.random)
    wrong = [row["name"] for row in ROWS if "WRONG" in row["verdict"] or "FAILED" in row["verdict"] or row.get("repeats") is False]
    folder = Path(os.environ.get("OUT") or ROOT / "benchmarks" / "results")
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"device": name, "arch": ARCH, "ptxas": version("ptxas"), "rows": ROWS}
    (folder / "gpu_first_run.json").write_text(json.dumps(facts, indent=1, default=str))
    print(f"{len(ROWS) - len(wrong)} of {len(ROWS)} right" + (f"; wrong: {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


ARCH = ""
ONLY: set[str] = set()

if __name__ == "__main__":
    sys.exit(main())
