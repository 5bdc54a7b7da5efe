"""A few kernels as texts: Tile IR after the last pass, and machine code.  A change of either is read in the diff.

`tests/replay` says whether anything moved; these texts, of small tiles, show what.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import DTypeLike

from replay import accepted
from replay.compile import TARGETS, compiled
from support import document_calls
from support.library import bf16, f32
from tessera.core.program.program import Program
from tessera.core.settings import overridden
from tessera.ops.attention import prepare_flash_attention
from tessera.ops.matrix import prepare_gemm
from tessera.ops.recipes.launch_recipe import LaunchRecipe
from tessera.ops.rows import prepare_layernorm, prepare_softmax

VERSIONS: Final = accepted.read().versions


def array(*shape: int, dtype: DTypeLike = f32) -> np.ndarray:
    return np.zeros(shape, dtype)


def gemm() -> LaunchRecipe[Any]:
    return prepare_gemm(
        array(512, 512, dtype=bf16), array(512, 512, dtype=bf16), schedule={"BM": 64, "BN": 16, "BK": 64}
    )


def gemm_of_f32() -> LaunchRecipe[Any]:
    return prepare_gemm(array(16, 16), array(16, 16), schedule={"BM": 16, "BN": 16, "BK": 16})


def attention() -> LaunchRecipe[Any]:
    q = array(1, 2, 256, 16, dtype=bf16)
    return prepare_flash_attention(q, q, q, causal=True, schedule={"BM": 64, "BN": 16})


def softmax() -> LaunchRecipe[Any]:
    return prepare_softmax(array(64, 128), schedule={"ROWS": 1, "num_warps": 1})


def layernorm() -> LaunchRecipe[Any]:
    return prepare_layernorm(array(64, 128), array(128), array(128), schedule={"ROWS": 1, "num_warps": 1})


def document(name: str) -> LaunchRecipe[Any]:
    call = next(call for call in document_calls.CALLS if call.name == f"document-{name}")
    return call.prepare(*call.arguments())


KERNELS: Final[dict[str, tuple[str, Callable[[], LaunchRecipe[Any]]]]] = {
    "gemm": ("cuda:sm_90a", gemm),
    "attention": ("cuda:sm_90a", attention),
    "softmax": ("cuda:sm_90a", softmax),
    "layernorm": ("cuda:sm_80", layernorm),
    "group_sum": ("cuda:sm_80", lambda: document("group_sum")),
    "gemm_on_the_cpu": ("cpu:avx512", gemm_of_f32),
}


def program(target: str, prepare: Callable[[], LaunchRecipe[Any]]) -> Program:
    with overridden(target="cpu" if target.startswith("cpu") else target, threads=8):
        (launch,) = prepare().launches
        return launch.kernel.program(launch.arguments)


@pytest.mark.skipif(accepted.versions() != VERSIONS, reason=f"the golden texts belong to {VERSIONS}")
@pytest.mark.parametrize("name", KERNELS)
def test_code_is_the_golden_one(name: str, golden: Callable[[str, str], None]):
    target, prepare = KERNELS[name]
    code = compiled(program(target, prepare), TARGETS[target])
    golden(f"{name}.tile", code.stages[-1][1] + "\n")
    golden(f"{name}.{'s' if target.startswith('cpu') else 'ptx'}", code.machine)
