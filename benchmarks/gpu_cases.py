"""The rows of the GPU benchmarks: which work, on which data, by whom.  Needs torch, Tessera and a GPU."""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpu_measure
import tessera
from gpu_measure import Case, Goal, Ready
from kernels import saxpy
from tessera.ops.attention import prepare_flash_attention, prepare_flash_attention_backward
from tessera.ops.matrix import prepare_gemm
from tessera.ops.recipes.launch_recipe import LaunchRecipe
from tessera.ops.rows import prepare_layernorm, prepare_rmsnorm, prepare_softmax

Makers = dict[str, Callable[[], Ready]]
_L2: Final = 50 << 20  # bytes of an H200's second-level cache
_TOKENS: Final = 16384
_WIDTH: Final = 2048  # of all heads together
_BF16_TOLERANCE: Final = 1e-2  # the rounding of bf16 and of its products, relative to the largest value
_TF32_TOLERANCE: Final = 1e-3
_F32_TOLERANCE: Final = 1e-5
_CYCLES_A_LAUNCH: Final = 40_000  # that the device sleeps for each launch: 20 to 25 us
_EMPTY: Final = 1024  # elements of the arrays of a kernel that is launched for its launch


@dataclass(frozen=True)
class Plan:
    """Which contenders of ours there are: the default, one for each text of constants, a tuned one; and which peers."""

    sets: tuple[str, ...] = ()
    tune: bool = False
    only: tuple[str, ...] = ()

    def contenders(self, ours: Callable[[Mapping[str, Any]], Ready], peers: Makers) -> Makers:
        """Every contender by name; `ours` takes what the library's functions take besides operands."""
        found: Makers = {gpu_measure.OURS: lambda: ours({})}
        for text in self.sets:
            schedule = gpu_measure.read_constants(text)
            found[f"{gpu_measure.OURS} {text}"] = lambda schedule=schedule: ours({"schedule": schedule})
        if self.tune:
            found[f"{gpu_measure.OURS} tuned"] = lambda: ours({"tune": True})
        kept = {name: make for name, make in peers.items() if not self.only or name in self.only}
        return (found if not self.only or gpu_measure.OURS in self.only else {}) | kept


class DeviceClock:
    """Times runs with device events, or with the host's clock where a contender asks for it.

    With device events, the device sleeps until the host has had the time to launch everything: a kernel that is
    shorter than its own launch is timed, not the host.
    """

    def milliseconds(self, ready: Ready, runs: int, first: int) -> float:
        """The time of one of `runs` runs."""
        torch.cuda.synchronize()
        if ready.clock == "issue":
            return gpu_measure.issue_time(ready, runs, first)
        if ready.clock == "host":
            start = time.perf_counter()
            for number in range(first, first + runs):
                ready.run(number)
            if ready.wait is not None:
                ready.wait()
            return (time.perf_counter() - start) * 1e3 / runs
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(runs * _CYCLES_A_LAUNCH)
        begin.record()
        for number in range(first, first + runs):
            ready.run(number)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / runs

    def settle(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()


def facts() -> dict[str, Any]:
    """Card, driver and versions."""
    names = ("torch", "triton", "jax", "numpy", "cupy-cuda13x", "cuda-bindings", "llvmlite", "nvidia-cudnn-cu13")
    found: dict[str, str] = {"tessera": tessera.__version__, "cuda of torch": str(torch.version.cuda)}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    driver = import_module("cuda.bindings.driver")
    found["cuda driver"] = str(driver.cuDriverGetVersion()[1])
    toolchain = import_module("tessera.lowering.base.cuda_toolkit")
    found["ptxas"] = str(toolchain.version("ptxas"))
    return {"card": torch.cuda.get_device_name(), "driver": _driver_version(), "versions": found}


def _driver_version() -> str:
    try:
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        return str(nvml.nvmlSystemGetDriverVersion())
    except Exception as error:  # noqa: BLE001 - the name of the driver is a detail that no run should fail for
        return f"unknown: {error}"


def release() -> None:
    """Give the memory of the last row back."""
    gc.collect()
    torch.cuda.empty_cache()


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest difference relative to the largest value, in f32."""
    if got.shape != want.shape:
        raise ValueError(f"the result has shape {tuple(got.shape)}, not {tuple(want.shape)}")
    return float((got.float() - want.float()).abs().max() / want.float().abs().max())


def sets_for(size: int) -> int:
    """How many buffers to rotate, so that none is in the second-level cache when its turn comes again."""
    return max(1, min(16, math.ceil(2 * _L2 / size)))


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Random numbers on the device."""
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)


def prepared(launches: list[LaunchRecipe[Any]], result: Callable[[], Any]) -> Ready:
    """Ours: one prepared call a set of buffers; the notes say what the kernels need."""
    notes: dict[str, Any] = {}

    def run(number: int) -> None:
        launches[number % len(launches)].run()

    def noted() -> Any:
        for launch in launches[0].launches:
            compiled = launch.kernel.last
            if compiled is not None:
                used = compiled.artifact.resources
                notes[launch.kernel.source.name] = {
                    "constants": dict(launch.kernel.options.constants), "registers": used.registers,
                    "spilled": used.spill_bytes, "shared": used.shared_bytes, "scratch": used.scratch_bytes,
                }  # fmt: skip
        return result()

    return Ready(run, noted, notes=notes)


# -- matrix products ---------------------------------------------------------------------------------------------------


def gemm(plan: Plan, m: int, n: int, k: int, goal: Goal | None, name: str) -> Case:
    """C = A B in bf16."""
    peers = import_module("gpu_peers")
    count = sets_for(2 * (m * k + k * n + m * n))
    a, b = [normal(m, k) for _ in range(count)], [normal(k, n) for _ in range(count)]
    outs = [torch.full((m, n), math.nan, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    want = a[0].float() @ b[0].float()

    def ours(how: Mapping[str, Any]) -> Ready:
        return prepared(
            [prepare_gemm(x, y, c, **how) for x, y, c in zip(a, b, poisoned(outs), strict=True)], lambda: outs[0]
        )

    def cublas() -> Ready:
        poisoned(outs)
        return Ready(lambda i: torch.matmul(a[i % count], b[i % count], out=outs[i % count]), lambda: outs[0])

    makers: Makers = {"cublas": cublas}
    if n % 8 == 0 and k % 8 == 0:  # rows of 16 bytes, which the copy engine needs
        makers["triton"] = lambda: peers.triton_gemm(a, b, poisoned(outs))
        makers["pallas"] = lambda: peers.pallas_gemm(a, b)
    return Case(name, "TFLOP/s", 2.0 * m * n * k, plan.contenders(ours, makers), lambda c: relative_error(c, want),
                _BF16_TOLERANCE, goal)  # fmt: skip


def poisoned(outs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs, everything another contender wrote gone."""
    for out in outs:
        out.fill_(math.nan)
    return outs


def gemm_fp8(plan: Plan, n: int, goal: Goal) -> Case:
    """C = A B of e4m3, the columns of B contiguous, result in bf16, sums in f32."""
    kind = torch.float8_e4m3fn
    count = sets_for(2 * n * n + 2 * n * n)
    a, b = ([normal(n, n).to(kind) for _ in range(count)] for _ in range(2))
    outs = [torch.full((n, n), math.nan, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    one = torch.ones((), device="cuda")
    want = a[0].float() @ b[0].float().T

    def ours(how: Mapping[str, Any]) -> Ready:
        calls = [prepare_gemm(x, y, c, transpose_b=True, **how) for x, y, c in zip(a, b, poisoned(outs), strict=True)]
        return prepared(calls, lambda: outs[0])

    def cublas(fast: bool) -> Ready:
        def run(i: int) -> Any:
            return torch._scaled_mm(  # torch has no other door to fp8 products
                a[i % count], b[i % count].t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
            )

        return Ready(run, lambda: run(0))

    makers: Makers = {"cublas": lambda: cublas(False), "cublas, fast accumulation": lambda: cublas(True)}
    return Case(f"gemm {n} fp8", "TFLOP/s", 2.0 * n**3, plan.contenders(ours, makers),
                lambda c: relative_error(c, want), _BF16_TOLERANCE, goal)  # fmt: skip


def gemm_f32(plan: Plan, n: int, compute: str | None, turned: bool, name: str) -> Case:
    """C = A B of f32, as they are or rounded to tf32; `turned`: the columns of B are contiguous."""
    count = sets_for(3 * 4 * n * n)
    a, b = ([normal(n, n, dtype=torch.float32) for _ in range(count)] for _ in range(2))
    outs = [torch.full((n, n), math.nan, device="cuda") for _ in range(count)]
    want = a[0] @ (b[0].T if turned else b[0])

    def ours(how: Mapping[str, Any]) -> Ready:
        calls = [
            prepare_gemm(x, y, c, transpose_b=turned, compute=compute, **how)
            for x, y, c in zip(a, b, poisoned(outs), strict=True)
        ]
        return prepared(calls, lambda: outs[0])

    def cublas() -> Ready:
        poisoned(outs)

        def run(i: int) -> None:
            right = b[i % count]
            torch.backends.cuda.matmul.allow_tf32 = compute is not None
            torch.matmul(a[i % count], right.T if turned else right, out=outs[i % count])
            torch.backends.cuda.matmul.allow_tf32 = False

        return Ready(run, lambda: outs[0])

    return Case(name, "TFLOP/s", 2.0 * n**3, plan.contenders(ours, {"cublas": cublas}),
                lambda c: relative_error(c, want), _F32_TOLERANCE if compute is None else _TF32_TOLERANCE)  # fmt: skip


# -- attention ---------------------------------------------------------------------------------------------------------


def attention_flops(shape: tuple[int, int, int, int], causal: bool) -> float:
    """Two products of length x length x width a head; half of them where attention is causal."""
    batch, heads, length, width = shape
    return 4.0 * batch * heads * length * length * width / (2 if causal else 1)


def attention_shape(length: int, width: int) -> tuple[int, int, int, int]:
    """Batch, heads, length, width."""
    return _TOKENS // length, _WIDTH // width, length, width


def one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, ...]:
    """Result and weights of one head in f32, from [length, width] operands."""
    scores = q.float() @ k.float().T / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v.float(), weights


def attention(plan: Plan, length: int, width: int, causal: bool, name: str) -> Case:
    """Attention forward on 16k tokens in bf16."""
    peers = import_module("gpu_peers")
    shape = attention_shape(length, width)
    q, k, v = normal(*shape), normal(*shape), normal(*shape)
    out = torch.empty_like(q)
    checked = ((0, 0), (shape[0] - 1, shape[1] - 1))
    wanted = [one_head(q[at], k[at], v[at], causal)[0] for at in checked]

    def error(got: torch.Tensor) -> float:
        return max(relative_error(got[at], want) for at, want in zip(checked, wanted, strict=True))

    def ours(how: Mapping[str, Any]) -> Ready:
        out.fill_(math.nan)
        return prepared([prepare_flash_attention(q, k, v, out, causal=causal, **how)], lambda: out)

    def torch_with(backend: SDPBackend) -> Ready:
        def run(_: int) -> torch.Tensor:
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return Ready(run, lambda: run(0))

    makers: Makers = {
        "cudnn": lambda: torch_with(SDPBackend.CUDNN_ATTENTION),
        "flash": lambda: torch_with(SDPBackend.FLASH_ATTENTION),
        "pallas": lambda: peers.pallas_attention(q, k, v, causal),
    }
    return Case(name, "TFLOP/s", attention_flops(shape, causal), plan.contenders(ours, makers), error,
                2 * _BF16_TOLERANCE, Goal("best", 1.05))  # fmt: skip


def attention_backward(plan: Plan, length: int, width: int, causal: bool, name: str) -> Case:
    """Attention backward on 16k tokens in bf16: five products where the forward pass has two."""
    shape = attention_shape(length, width)
    q, k, v, do = (normal(*shape) for _ in range(4))
    at = (shape[0] - 1, shape[1] - 1)
    result, weights = one_head(q[at], k[at], v[at], causal)
    delta = (do[at].float() * result).sum(dim=-1, keepdim=True)
    ds = weights * (do[at].float() @ v[at].float().T - delta) / math.sqrt(width)
    wanted = (ds @ k[at].float(), ds.T @ q[at].float(), weights.T @ do[at].float())
    del weights, ds

    def error(got: tuple[torch.Tensor, ...]) -> float:
        return max(relative_error(one[at], want) for one, want in zip(got, wanted, strict=True))

    def ours(how: Mapping[str, Any]) -> Ready:
        out, lse = prepare_flash_attention(q, k, v, causal=causal, lse=True).run()
        call = prepare_flash_attention_backward(do, q, k, v, out, lse, causal=causal, **how)
        return prepared([call], call.finish)

    def torch_with(backend: SDPBackend) -> Ready:
        leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        with sdpa_kernel(backend):
            out = functional.scaled_dot_product_attention(*leaves, is_causal=causal)

        def run(_: int) -> tuple[torch.Tensor, ...]:
            return torch.autograd.grad(out, leaves, do, retain_graph=True)

        return Ready(run, lambda: run(0))

    makers: Makers = {
        "cudnn": lambda: torch_with(SDPBackend.CUDNN_ATTENTION),
        "flash": lambda: torch_with(SDPBackend.FLASH_ATTENTION),
    }
    return Case(name, "TFLOP/s", 2.5 * attention_flops(shape, causal), plan.contenders(ours, makers), error,
                3 * _BF16_TOLERANCE, Goal("cudnn", 1.0))  # fmt: skip


# -- memory ------------------------------------------------------------------------------------------------------------

_OF_COPY: Final = Goal("peer:copy:torch", 0.92)


def copy() -> Case:
    """One GiB from one array to another: the ceiling of everything that moves memory."""
    x = normal(1 << 28, dtype=torch.float32)
    y = torch.empty_like(x)
    makers: Makers = {"torch": lambda: Ready(lambda _: y.copy_(x))}
    return Case("copy", "GB/s", 8.0 * x.numel(), makers)


def saxpy_case(plan: Plan) -> Case:
    """y = alpha x + y, 128 Mi elements of f32."""
    n = 1 << 27
    x, y = normal(n, dtype=torch.float32), normal(n, dtype=torch.float32)
    start, small = y[:_EMPTY].clone(), 1e-9

    def ours(how: Mapping[str, Any]) -> Ready:
        kernel = saxpy.variant(**how["schedule"]) if "schedule" in how else saxpy

        def result() -> torch.Tensor:
            y[:_EMPTY] = start
            kernel(x[:_EMPTY], y[:_EMPTY], 0.5)
            return y[:_EMPTY].clone()

        return Ready(lambda _: kernel(x, y, small), result)

    makers: Makers = {"torch": lambda: Ready(lambda _: y.add_(x, alpha=small))}
    return Case("saxpy 128M f32", "GB/s", 12.0 * n, plan.contenders(ours, makers),
                lambda got: relative_error(got, 0.5 * x[:_EMPTY] + start), 1e-6, _OF_COPY)  # fmt: skip


def rows(plan: Plan, kind: str) -> Case:
    """softmax, layernorm or rmsnorm of 8192 rows of 8192 in bf16."""
    n = 8192
    xs, ys = (
        [normal(n, n) for _ in range(2)],
        [torch.empty((n, n), device="cuda", dtype=torch.bfloat16) for _ in range(2)],
    )
    w, b = normal(n), normal(n)
    prepare: Callable[..., LaunchRecipe[Any]] = {
        "softmax": prepare_softmax,
        "layernorm": lambda x, y, **how: prepare_layernorm(x, w, b, y, **how),
        "rmsnorm": lambda x, y, **how: prepare_rmsnorm(x, w, y, **how),
    }[kind]
    peer: Callable[..., torch.Tensor] = {
        "softmax": lambda x, *_: torch.softmax(x, dim=-1),
        "layernorm": lambda x, w, b: functional.layer_norm(x, (n,), w, b, 1e-5),
        "rmsnorm": lambda x, w, _: functional.rms_norm(x, (n,), w, 1e-6),
    }[kind]
    want = peer(xs[0].float(), w.float(), b.float())

    def ours(how: Mapping[str, Any]) -> Ready:
        return prepared([prepare(x, y, **how) for x, y in zip(xs, poisoned(ys), strict=True)], lambda: ys[0])

    makers: Makers = {"torch": lambda: Ready(lambda i: peer(xs[i % 2], w, b), lambda: peer(xs[0], w, b))}
    return Case(f"{kind} 8192 x 8192", "GB/s", 4.0 * n * n, plan.contenders(ours, makers),
                lambda got: relative_error(got, want), _BF16_TOLERANCE, _OF_COPY)  # fmt: skip


# -- launches ----------------------------------------------------------------------------------------------------------


def launch(plan: Plan) -> Case:
    """What one launch takes of the host's time."""
    peers = import_module("gpu_peers")
    x, y = normal(_EMPTY, dtype=torch.float32), normal(_EMPTY, dtype=torch.float32)
    makers: Makers = {
        "torch": lambda: Ready(lambda _: y.add_(x, alpha=0.5), clock="issue"),
        "triton": lambda: peers.triton_launch(x, y),
        "cupy": lambda: peers.cupy_launch(_EMPTY),
    }
    return Case("launch", "us", 0, plan.contenders(lambda _: Ready(lambda _: saxpy(x, y, 0.5), clock="issue"), makers),
                goal=Goal("limit", 3.0))  # fmt: skip


def graph_replay(plan: Plan) -> Case:
    """A graph of 100 small kernels, a kernel's share."""
    count = 100
    x, y = normal(_EMPTY, dtype=torch.float32), normal(_EMPTY, dtype=torch.float32)

    def ours(_how: Mapping[str, Any]) -> Ready:
        saxpy(x, y, 1e-9)
        with tessera.graph.capture() as captured:
            for _ in range(count):
                saxpy(x, y, 1e-9)
        return Ready(lambda _: tessera.graph.launch(captured), share=count)

    def with_torch() -> Ready:
        y.add_(x, alpha=1e-9)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            for _ in range(count):
                y.add_(x, alpha=1e-9)
        return Ready(lambda _: captured.replay(), share=count)

    return Case(
        "graph replay, a kernel", "us", 0, plan.contenders(ours, {"torch": with_torch}), goal=Goal("limit", 1.0)
    )


def cases(sections: tuple[str, ...], plan: Plan) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Every row of the sections by name, with the function that makes its data."""
    tables: dict[str, Callable[[Plan], Iterator[tuple[str, Callable[[], Case]]]]] = {
        "gemm": _gemm_rows, "fp8": lambda p: iter([("gemm 8192 fp8", lambda: gemm_fp8(p, 8192, Goal("cublas", 1.03)))]),
        "f32": _f32_rows, "odd": _odd_rows, "attention": _attention_rows, "backward": _backward_rows,
        "memory": _memory_rows, "launch": lambda p: iter([("launch", lambda: launch(p))]),
        "graph": lambda p: iter([("graph replay, a kernel", lambda: graph_replay(p))]),
    }  # fmt: skip
    for section in sections:
        yield from tables[section](plan)


def _gemm_rows(plan: Plan) -> Iterator[tuple[str, Callable[[], Case]]]:
    goals = {2048: Goal("best", 1.03), 4096: Goal("best", 1.03), 8192: Goal("cublas", 1.10), 16384: None}
    for n, goal in goals.items():
        yield f"gemm {n}", lambda n=n, goal=goal: gemm(plan, n, n, n, goal, f"gemm {n}")


def _f32_rows(plan: Plan) -> Iterator[tuple[str, Callable[[], Case]]]:
    for kind, compute, turned in (("f32", None, False), ("tf32", "tf32", False), ("tf32, K along", "tf32", True)):
        name = f"gemm 4096 {kind}"
        yield name, lambda c=compute, t=turned, name=name: gemm_f32(plan, 4096, c, t, name)


def _odd_rows(plan: Plan) -> Iterator[tuple[str, Callable[[], Case]]]:
    name = "gemm 4095 x 4097 x 4090"
    yield name, lambda: gemm(plan, 4095, 4097, 4090, Goal("row:gemm 4096", 0.85), name)


def _attention_rows(plan: Plan) -> Iterator[tuple[str, Callable[[], Case]]]:
    for length, width in ((4096, 128), (16384, 128), (4096, 64)):
        for causal in (False, True):
            name = f"attention d{width} s{length} {'causal' if causal else 'full'}"
            yield name, lambda s=length, d=width, c=causal, name=name: attention(plan, s, d, c, name)


def _backward_rows(plan: Plan) -> Iterator[tuple[str, Callable[[], Case]]]:
    for causal in (False, True):
        name = f"backward d128 s16384 {'causal' if causal else 'full'}"
        yield name, lambda c=causal, name=name: attention_backward(plan, 16384, 128, c, name)


def _memory_rows(plan: Plan) -> Iterator[tuple[str, Callable[[], Case]]]:
    yield "copy", copy
    yield "saxpy 128M f32", lambda: saxpy_case(plan)
    for kind in ("softmax", "layernorm", "rmsnorm"):
        yield f"{kind} 8192 x 8192", lambda kind=kind: rows(plan, kind)
