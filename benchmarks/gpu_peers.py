"""Peers of the GPU benchmarks that need code of their own: Triton, Pallas (Mosaic GPU), CuPy."""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false, reportIndexIssue=false
# Triton has no types for the parameters of kernels.
# pyright: reportMissingParameterType=false

from __future__ import annotations

import inspect
import itertools
import math
from importlib import import_module
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from gpu_measure import Ready


@triton.jit
def _persistent_matmul(  # noqa: PLR0913, PLR0917 - a kernel's configuration is its parameters
    a_desc, b_desc, c_desc, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        band = t // (GROUP * tiles_n)
        height = tl.minimum(tiles_m - band * GROUP, GROUP)
        inside = t % (GROUP * tiles_n)
        m = (band * GROUP + inside % height) * BM
        n = inside // height * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a_desc.load([m, k * BK]), b_desc.load([k * BK, n]), acc)
        c_desc.store([m, n], acc.to(tl.bfloat16))


def _configured(a: list[Any], b: list[Any], outs: list[Any], config: tuple[int, ...]) -> Any:
    """The launch of one configuration: a function of the number of the buffers."""
    bm, bn, bk, stages, warps = config
    (m, k), n = a[0].shape, b[0].shape[1]
    programs = torch.cuda.get_device_properties().multi_processor_count
    maps = [
        (
            TensorDescriptor.from_tensor(x, [bm, bk]), TensorDescriptor.from_tensor(y, [bk, bn]),
            TensorDescriptor.from_tensor(c, [bm, bn]),
        )
        for x, y, c in zip(a, b, outs, strict=True)
    ]  # fmt: skip

    def run(number: int) -> None:
        _persistent_matmul[(programs,)](
            *maps[number % len(maps)], m, n, k, BM=bm, BN=bn, BK=bk, GROUP=8, PROGRAMS=programs, num_stages=stages,
            num_warps=warps,
        )  # fmt: skip

    return run


def triton_gemm(a: list[Any], b: list[Any], outs: list[Any]) -> Ready:
    """A persistent matrix product with tensor maps, the fastest of a few usual configurations."""
    trials: list[tuple[float, tuple[int, ...]]] = []
    failures: list[str] = []
    for config in ((128, 256, 64, 3, 8), (128, 256, 64, 4, 8), (128, 128, 64, 4, 4), (128, 128, 64, 3, 8)):
        try:
            run = _configured(a, b, outs, config)
            trials.append(
                (triton.testing.do_bench(lambda run=run: run(0), warmup=5, rep=20, return_mode="median"), config)
            )
        except Exception as error:  # noqa: BLE001 - a configuration too large for the card is no result
            failures.append(f"{config}: {type(error).__name__}: {error}")
    if not trials:
        raise RuntimeError("; ".join(failures))
    best = min(trials)[1]
    return Ready(_configured(a, b, outs, best), lambda: outs[0], notes={"BM, BN, BK, stages, warps": best})


@triton.jit
def _saxpy(x, y, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, alpha * tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


def triton_launch(x: Any, y: Any) -> Ready:
    """A small kernel, for the time of its launch."""
    grid = (triton.cdiv(x.numel(), 256),)
    return Ready(lambda _: _saxpy[grid](x, y, x.numel(), 0.5, BLOCK=256), clock="issue")


def cupy_launch(n: int) -> Ready:
    """A raw kernel of CuPy, for the time of its launch."""
    cupy = import_module("cupy")
    text = """extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = a * x[i] + y[i];
    }"""
    kernel = cupy.RawKernel(text, "saxpy")
    x, y, alpha = cupy.zeros(n, cupy.float32), cupy.zeros(n, cupy.float32), cupy.float32(0.5)
    return Ready(lambda _: kernel((n // 256,), (256,), (x, y, alpha, n)), clock="issue")


def _to_jax(tensor: Any) -> Any:
    return import_module("jax").numpy.from_dlpack(tensor.contiguous())


def _quickest(call: Any, configs: list[Any]) -> tuple[Any, Any]:
    """The compiled call of the fastest configuration, and the configuration.  Raises what the last one raised."""
    jax, clock = import_module("jax"), import_module("time").perf_counter
    trials: list[tuple[float, int, Any]] = []
    failure: Exception | None = None
    for number, config in enumerate(configs):
        try:
            run = jax.jit(lambda *arrays, config=config: call(*arrays, config))
            times: list[float] = []
            for _ in range(4):
                start = clock()
                jax.block_until_ready([run(*call.arrays) for _ in range(5)])
                times.append(clock() - start)
            trials.append((min(times), number, run))
        except Exception as error:  # noqa: BLE001 - a configuration that does not fit is no result
            failure = error
    if not trials:
        raise RuntimeError(f"no configuration runs: {type(failure).__name__}: {failure}") from failure
    best = min(trials, key=lambda trial: trial[0])
    return best[2], configs[best[1]]


class _Call:
    """A function of Pallas's library on arrays of JAX, given a configuration."""

    def __init__(self, function: Any, arrays: tuple[Any, ...]) -> None:
        self.function = function
        self.arrays = arrays

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def _timed_by_the_host(run: Any, sets: list[tuple[Any, ...]], to_torch: Any, notes: dict[str, Any]) -> Ready:
    """JAX launches on streams of its own: the host waits for the last result."""
    jax = import_module("jax")
    last: list[Any] = [None]

    def launch(number: int) -> None:
        last[0] = run(*sets[number % len(sets)])

    def result() -> Any:
        return to_torch(torch.from_dlpack(jax.block_until_ready(run(*sets[0]))))

    return Ready(launch, result, clock="host", wait=lambda: jax.block_until_ready(last[0]), notes=notes)


def _with_configuration(function: Any) -> Any:
    """The product as a function of (a, b, configuration); what else it wants has changed from version to version.

    Raises TypeError for a version that wants what is not known here.
    """
    wanted = inspect.signature(function).parameters
    first, second, *others = wanted
    needed = [name for name in others if wanted[name].default is inspect.Parameter.empty and name != "config"]
    unknown = [name for name in needed if name != "c"]  # what is added to the product: nothing
    if unknown or "config" not in wanted:
        raise TypeError(f"{function.__name__}{inspect.signature(function)} is a version that is not known here")
    return lambda a, b, config: function(
        **{first: a, second: b, "config": config, **dict.fromkeys(needed)}
    )  # fmt: skip


def _pallas_shapes(module: Any) -> list[dict[str, Any]]:
    """Blocks of 128 x 256 and 256 x 128 in every division among two warp groups and every cluster that JAX has."""
    dimension = module.MatmulDimension
    blocks = ((128, 128, dimension.M), (128, 128, dimension.N), (64, 256, dimension.M), (256, 64, dimension.N))
    return [
        {"tile_m": m, "tile_n": n, "tile_k": 64, "max_concurrent_steps": 4, "wg_dimension": divided,
         "cluster_dimension": cluster, "grid_minor_dim": dimension.N, "grid_tile_width": 8}
        for (m, n, divided), cluster in itertools.product(blocks, (None, dimension.M, dimension.N))
    ]  # fmt: skip


def pallas_gemm(a: list[Any], b: list[Any]) -> Ready:
    """The matrix product for Hopper that comes with JAX: the best shape of blocks, then the best order of them."""
    module = import_module("jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu")
    function = _with_configuration(getattr(module, "matmul", None) or module.matmul_kernel)
    sets = [(_to_jax(x), _to_jax(y)) for x, y in zip(a, b, strict=True)]
    call = _Call(lambda x, y, chosen: function(x, y, module.TuningConfig(**chosen)), sets[0])
    _, shape = _quickest(call, _pallas_shapes(module))
    orders = itertools.product((module.MatmulDimension.M, module.MatmulDimension.N), (1, 4, 8, 12, 16))
    run, best = _quickest(
        call, [{**shape, "grid_minor_dim": minor, "grid_tile_width": width} for minor, width in orders]
    )
    return _timed_by_the_host(run, sets, lambda c: c, {"configuration": {k: str(v) for k, v in best.items()}})


def pallas_attention(q: Any, k: Any, v: Any, causal: bool) -> Ready:
    """The attention for Hopper that comes with JAX: f16, no scale, [batch, length, heads, width]."""
    module = import_module("jax.experimental.pallas.ops.gpu.attention_mgpu")
    scaled = (q.float() / math.sqrt(q.shape[-1])).half()
    arrays = tuple(_to_jax(x.half().transpose(1, 2)) for x in (scaled, k, v))
    configs = [
        module.TuningConfig(block_q=rows, block_kv=keys, max_concurrent_steps=steps, causal=causal)
        for rows, keys, steps in ((64, 128, 2), (128, 128, 2), (64, 64, 4), (64, 256, 2))
    ]
    run, config = _quickest(_Call(module.attention, arrays), configs)
    return _timed_by_the_host(run, [arrays], lambda o: o.transpose(1, 2), {"configuration": str(config)})
