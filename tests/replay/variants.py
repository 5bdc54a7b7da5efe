"""Kernels of the library with schedules other than the default ones, and shapes that change how they are compiled.

Between them they reach what the default schedules leave out; the names say what is different, in plain words.
"""

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from agreement.test_shipped import like
from support.library import bf16, f16, f32
from tessera.ops.attention import prepare_flash_attention, prepare_flash_attention_backward
from tessera.ops.matrix import prepare_gemm
from tessera.ops.recipes.launch_recipe import LaunchRecipe
from tessera.ops.reductions import prepare_reduce
from tessera.ops.rows import prepare_layernorm, prepare_softmax
from tessera.ops.transposition import prepare_transpose

_FP8: Final = ml_dtypes.float8_e4m3fn
_FP8_WIDE: Final = ml_dtypes.float8_e5m2
Prepare = Callable[[], LaunchRecipe[Any]]


def _gemm(
    m: int = 4096, n: int = 4096, k: int = 4096, of: DTypeLike = bf16, *, turned: str = "", bias: bool = False, **how: Any
) -> Prepare:  # fmt: skip
    """Return a product of elements `of` a type; `turned` names the matrices that are stored by columns."""

    def prepare() -> LaunchRecipe[Any]:
        a = like(*((k, m) if "a" in turned else (m, k)), dtype=of)
        b = like(*((n, k) if "b" in turned else (k, n)), dtype=of)
        added = like(n, dtype=of) if bias else None
        return prepare_gemm(a, b, transpose_a="a" in turned, transpose_b="b" in turned, bias=added, **how)

    return prepare


_SQUARE: Final = (4, 16, 16, 4096, 4096)


def _attention(
    width: int, shape: tuple[int, ...] = _SQUARE, *, causal: bool = False, dtype: DTypeLike = bf16, lse: bool = True,
    **schedule: Any,
) -> Prepare:  # fmt: skip
    """Return attention; `shape` is batch, heads, heads of keys, queries, keys."""
    batch, heads, groups, queries, keys = shape

    def prepare() -> LaunchRecipe[Any]:
        q, k = like(batch, heads, queries, width, dtype=dtype), like(batch, groups, keys, width, dtype=dtype)
        return prepare_flash_attention(q, k, k, causal=causal, lse=lse, schedule=schedule)

    return prepare


def _gradients(
    width: int, shape: tuple[int, ...] = _SQUARE, *, causal: bool = False, dtype: DTypeLike = bf16, **schedule: Any
) -> Prepare:  # fmt: skip
    batch, heads, groups, queries, keys = shape

    def prepare() -> LaunchRecipe[Any]:
        q, k = like(batch, heads, queries, width, dtype=dtype), like(batch, groups, keys, width, dtype=dtype)
        lse = like(batch, heads, queries, dtype=f32)
        return prepare_flash_attention_backward(q, q, k, k, q, lse, causal=causal, schedule=schedule)

    return prepare


def _softmax(rows: int, columns: int, dtype: DTypeLike = bf16, **schedule: Any) -> Prepare:
    return lambda: prepare_softmax(like(rows, columns, dtype=dtype), schedule=schedule)


def _layernorm(rows: int, columns: int, dtype: DTypeLike = bf16, **schedule: Any) -> Prepare:
    vector = like(columns, dtype=dtype)
    return lambda: prepare_layernorm(like(rows, columns, dtype=dtype), vector, vector, schedule=schedule)


def _reduce(kind: str, shape: tuple[int, ...], axis: int | None, dtype: DTypeLike = f32) -> Prepare:
    return lambda: prepare_reduce(kind, like(*shape, dtype=dtype), axis)


def _with(**schedule: Any) -> Prepare:
    """Return the large product of 16-bit floats with a schedule."""
    return _gemm(schedule=schedule)


VARIANTS: Final[dict[str, Prepare]] = {
    "gemm, f16": _gemm(of=f16),
    "gemm, both turned": _gemm(turned="ab"),
    "gemm, 64 rows": _gemm(64),
    "gemm, one row": _gemm(1),
    "gemm, small": _gemm(200, 300, 100),
    "gemm, odd columns": _gemm(4096, 4097),
    "gemm, odd, both turned": _gemm(4095, 4097, 4090, turned="ab"),
    "gemm, odd, without copies": _gemm(4095, 4097, 4090, schedule={"pad_rows": False}),
    "gemm, odd steps, columns of B contiguous": _gemm(k=4090, turned="b"),
    "gemm, bias, relu": _gemm(bias=True, activation="relu"),
    "gemm, bias, silu, f16": _gemm(of=f16, bias=True, activation="silu"),
    "gemm, f32 result": _gemm(dtype="f32"),
    "gemm, odd, f32 result": _gemm(4095, 4097, 4090, dtype="f32"),
    "gemm, f32, small": _gemm(200, 300, 100, of=f32),
    "gemm, tf32": _gemm(of=f32, compute="tf32"),
    "gemm, tf32, columns of B contiguous": _gemm(of=f32, turned="b", compute="tf32"),
    "gemm, tf32, both turned": _gemm(of=f32, turned="ab", compute="tf32"),
    "gemm, tf32, odd": _gemm(4095, 4097, 4090, of=f32, compute="tf32"),
    "gemm, fp8, rows of B contiguous": _gemm(of=_FP8),
    "gemm, fp8, wide exponent": _gemm(of=_FP8_WIDE, turned="b"),
    "gemm, fp8, one sum": _gemm(of=_FP8, turned="b", schedule={"promotion_interval": 0}),
    "gemm, fp8, sums of 64": _gemm(of=_FP8, turned="b", schedule={"promotion_interval": 64}),
    "gemm, four warps": _with(BM=128, BN=128, num_warps=4),
    "gemm, eight warps": _with(BM=128, BN=128, num_warps=8),
    "gemm, two warps": _with(BM=64, BN=64, BK=32, num_warps=2),
    "gemm, two warps side by side": _with(BM=64, BN=64, BK=32, num_warps=2, warp_columns=2),
    "gemm, two steps ahead": _with(BM=128, BN=128, BK=64, stages=2),
    "gemm, one step": _with(BM=128, BN=128, BK=64, stages=1),
    "gemm, alone": _with(cluster=1),
    "gemm, in pairs": _with(cluster=2),
    "gemm, four rows of blocks": _with(raster_group=4),
    "gemm, stored together": _with(epilogue_per_warpgroup=False),
    "gemm, stored together, one buffer": _with(epilogue_per_warpgroup=False, epilogue_stages=1),
    "gemm, two buffers": _with(epilogue_stages=2),
    "gemm, stored at once": _with(defer_epilogue=False),
    "gemm, stored in the next block": _with(defer_epilogue=True),
    "gemm, one product at a time": _with(overlap=False),
    "gemm, tall blocks": _with(BM=256, BN=128),
    "gemm, wide blocks": _with(BM=128, BN=256),
    "gemm, narrow blocks": _with(BM=128, BN=64),
    "gemm, two on a processor": _with(BM=128, BN=128, min_blocks_per_sm=2),
    "gemm, gelu, stored at once": _gemm(bias=True, activation="gelu", schedule={"defer_epilogue": False}),
    "attention, decoding": _attention(128, (8, 32, 8, 1, 4096), lse=False),
    "attention, decoding, d64": _attention(64, (8, 32, 32, 1, 4096), lse=False),
    "attention, four queries": _attention(128, (8, 32, 8, 4, 4096), causal=True),
    "attention, shared keys": _attention(128, (2, 32, 8, 2048, 2048), causal=True),
    "attention, ragged": _attention(128, (1, 16, 16, 1023, 1037), causal=True, dtype=f16),
    "attention, ragged, full": _attention(64, (1, 16, 16, 1023, 1037)),
    "attention, d80": _attention(80),
    "attention, d32, causal": _attention(32, causal=True),
    "attention, d256": _attention(256),
    "attention, without sums": _attention(128, lse=False),
    "attention, f32, causal": _attention(128, causal=True, dtype=f32),
    "attention, in turns": _attention(128, pingpong=True),
    "attention, in turns, causal": _attention(128, causal=True, pingpong=True),
    "attention, without turns": _attention(128, pingpong=False),
    "attention, one product at a time": _attention(128, overlap=False),
    "attention, first product in its round": _attention(128, pipeline_first_mma=False),
    "attention, first product a round ahead": _attention(64, pipeline_first_mma=True),
    "attention, first product a round ahead, without turns": _attention(128, pipeline_first_mma=True, pingpong=False),
    "attention, four warps": _attention(128, BM=64, BN=64, num_warps=4),
    "attention, three blocks of keys": _attention(64, BM=128, BN=64, stages=3),
    "attention, 64 queries": _attention(64, BM=64, BN=128),
    "gradients": _gradients(128),
    "gradients, d64": _gradients(64),
    "gradients, d256": _gradients(256),
    "gradients, d32, causal": _gradients(32, causal=True),
    "gradients, f32": _gradients(64, dtype=f32),
    "gradients, ragged": _gradients(64, (1, 16, 16, 1023, 1037), causal=True, dtype=f16),
    "gradients, shared keys": _gradients(128, (2, 32, 8, 2048, 2048), causal=True),
    "gradients, one product at a time": _gradients(128, overlap=False),
    "gradients, four warps": _gradients(128, BM=64, BN=64, num_warps=4),
    "softmax, f32": _softmax(8192, 8192, f32),
    "softmax, short rows": _softmax(8192, 100, f16),
    "softmax, odd rows": _softmax(4095, 8191),
    "softmax, long rows": _softmax(256, 50257),
    "softmax, two neighbours": _softmax(8192, 8192, vector_width=2),
    "softmax, eight neighbours": _softmax(8192, 8192, vector_width=8),
    "softmax, sixteen warps": _softmax(8192, 8192, num_warps=16),
    "softmax, eight rows": _softmax(8192, 512, ROWS=8),
    "layernorm, f32": _layernorm(8192, 8192, f32),
    "layernorm, odd rows": _layernorm(4095, 8191),
    "layernorm, long rows": _layernorm(256, 50257),
    "layernorm, short rows": _layernorm(8192, 96, f16),
    "sum, long rows": _reduce("sum", (64, 1 << 20), 1),
    "sum, odd rows": _reduce("sum", (4095, 4097), -1, bf16),
    "sum, columns": _reduce("sum", (16, 4099, 257), 1),
    "sum, integers": _reduce("sum", (1 << 24,), None, np.int32),
    "max of everything": _reduce("max", (1 << 24,), None, bf16),
    "min, columns": _reduce("min", (4096, 4096), 0, f16),
    "transpose, f32": lambda: prepare_transpose(like(3, 2049, 4097, dtype=f32)),
    "transpose, bytes": lambda: prepare_transpose(like(4096, 8200, dtype=np.int8)),
    "transpose, small blocks": lambda: prepare_transpose(like(4096, 4096), schedule={"BLOCK": 32}),
}
"""Calls of the library made ready, by name."""
