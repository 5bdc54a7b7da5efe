"""Every kernel of the library in the configuration it is shipped with, compiled for GPUs at the sizes that matter.

No GPU is needed: nothing may fail to compile, no lane may need more registers than it has, and no product may miss the
tensor cores.
"""

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from support.library import bf16
from support.simulate import compile_ptx
from tessera.core.settings import overridden
from tessera.lowering.cuda.fit import ONE_BY_ONE
from tessera.ops.attention import prepare_flash_attention, prepare_flash_attention_backward
from tessera.ops.matrix import prepare_gemm
from tessera.ops.recipes.launch_recipe import LaunchRecipe
from tessera.ops.reductions import prepare_reduce
from tessera.ops.rows import prepare_layernorm, prepare_rmsnorm, prepare_softmax
from tessera.ops.transposition import prepare_transpose

FP8: Final = ml_dtypes.float8_e4m3fn


def like(*shape: int, dtype: DTypeLike = bf16) -> np.ndarray:
    """An array of that shape; nobody looks at its elements, and its pages are never touched."""
    return np.empty(shape, dtype)


def backward(width: int, causal: bool, dtype: DTypeLike = bf16) -> LaunchRecipe[Any]:
    q = like(4, 16, 4096, width, dtype=dtype)
    return prepare_flash_attention_backward(q, q, q, q, q, like(4, 16, 4096, dtype=np.float32), causal=causal)


def forward(width: int, causal: bool, dtype: DTypeLike = bf16) -> LaunchRecipe[Any]:
    q = like(4, 16, 4096, width, dtype=dtype)
    return prepare_flash_attention(q, q, q, causal=causal, lse=True)


CALLS: Final[dict[str, Callable[[], LaunchRecipe[Any]]]] = {
    "gemm": lambda: prepare_gemm(like(4096, 4096), like(4096, 4096)),
    "gemm, columns of B contiguous": lambda: prepare_gemm(like(4096, 4096), like(4096, 4096), transpose_b=True),
    "gemm, columns of A contiguous": lambda: prepare_gemm(like(4096, 4096), like(4096, 4096), transpose_a=True),
    "gemm, odd": lambda: prepare_gemm(like(4095, 4090), like(4090, 4097)),
    "gemm, gelu": lambda: prepare_gemm(like(4096, 4096), like(4096, 4096), bias=like(4096), activation="gelu"),
    "gemm, f32": lambda: prepare_gemm(like(4096, 4096, dtype=np.float32), like(4096, 4096, dtype=np.float32)),
    "gemm, tf32, gelu": lambda: prepare_gemm(
        like(4096, 4096, dtype=np.float32),
        like(4096, 4096, dtype=np.float32),
        transpose_a=True,
        bias=like(4096, dtype=np.float32),
        activation="gelu",
        compute="tf32",
    ),
    "gemm, fp8": lambda: prepare_gemm(like(4096, 4096, dtype=FP8), like(4096, 4096, dtype=FP8), transpose_b=True),
    "gemm, fp8, bias": lambda: prepare_gemm(
        like(4096, 4096, dtype=FP8), like(4096, 4096, dtype=FP8), transpose_b=True, bias=like(4096, dtype=FP8)
    ),
    "gemm, fp8, odd": lambda: prepare_gemm(like(4095, 4090, dtype=FP8), like(4097, 4090, dtype=FP8), transpose_b=True),
    "attention d64": lambda: forward(64, False),
    "attention d64, f32": lambda: forward(64, False, np.float32),
    "attention d256, causal": lambda: forward(256, True),
    "attention d64, causal": lambda: forward(64, True),
    "attention d128": lambda: forward(128, False),
    "attention d128, causal": lambda: forward(128, True),
    "attention backward d64, causal": lambda: backward(64, True),
    "attention backward d64, f32, causal": lambda: backward(64, True, np.float32),
    "attention backward d128, causal": lambda: backward(128, True),
    "softmax": lambda: prepare_softmax(like(8192, 8192)),
    "layernorm": lambda: prepare_layernorm(like(8192, 8192), like(8192), like(8192)),
    "rmsnorm": lambda: prepare_rmsnorm(like(8192, 8192), like(8192)),
    "rmsnorm, long rows": lambda: prepare_rmsnorm(like(64, 65536), like(65536)),
    "sum of everything": lambda: prepare_reduce("sum", like(1 << 24, dtype=np.float32)),
    "sum of rows": lambda: prepare_reduce("sum", like(8192, 8192), 1),
    "transpose": lambda: prepare_transpose(like(8192, 8192)),
}


AMPERE: Final = (
    "gemm", "gemm, gelu", "gemm, fp8, odd", "attention d64, f32", "attention d128, causal",
    "attention backward d128, causal", "softmax",
)  # fmt: skip


@pytest.mark.parametrize(
    ("call", "architecture"), [*((call, "sm_90a") for call in CALLS), *((call, "sm_80") for call in AMPERE)]
)
def test_compiles_without_spills(call: str, architecture: str):
    with overridden(target=f"cuda:{architecture}"):
        for launch in CALLS[call]().launches:
            artifact = launch.kernel.compile(*launch.arguments).artifact
            used = artifact.resources
            assert used.spill_bytes == 0, f"{launch.kernel.source.name} spills {used.spill_bytes} bytes"
            assert used.registers is not None
            assert ONE_BY_ONE not in used.notes
            assert (
                artifact.remarks == ()
            )  # no product misses the tensor cores, but exact ones, of which nothing is said


PRODUCTS: Final = {
    **{
        call: CALLS[call]
        for call in ("gemm", "attention d64", "attention d256, causal", "attention backward d128, causal")
    },
    "attention backward d256": lambda: backward(256, False),  # single warps, which do spill
}


@pytest.mark.parametrize(
    ("call", "architecture"),
    [
        *((call, architecture) for call in PRODUCTS for architecture in ("sm_89", "sm_100a")),
        *(("attention backward d256", architecture) for architecture in ("sm_80", "sm_90a")),
    ],
)
def test_no_product_misses_the_tensor_cores(call: str, architecture: str):
    with overridden(target=f"cuda:{architecture}"):
        for launch in PRODUCTS[call]().launches:
            assert compile_ptx(launch.kernel.program(launch.arguments), architecture).remarks == ()
