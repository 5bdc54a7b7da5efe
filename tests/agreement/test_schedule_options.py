"""Schedule options say how a kernel is compiled, not what it computes: on a GPU, the same bits with each of them."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import DTypeLike

from support.library import bf16
from tessera.core.settings import overridden
from tessera.ops import gemm, softmax

Call = Callable[[dict[str, int]], Any]


def normal(*shape: int, dtype: DTypeLike = bf16) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


A, B, ROWS = normal(700, 520), normal(520, 776), normal(100, 4096)
SINGLE: Final = {"num_warps": 2}
"""Single warps multiply where there are fewer than four."""

CASES: Final[dict[str, tuple[Call, dict[str, int], tuple[dict[str, int], ...]]]] = {
    "stores": (lambda schedule: gemm(A, B, schedule=schedule), {}, ({"epilogue_per_warpgroup": 0}, {"epilogue_per_warpgroup": 0, "epilogue_stages": 1})),
    "columns": (
        lambda schedule: gemm(A, B, schedule=schedule), SINGLE,
        ({**SINGLE, "warp_columns": 1}, {**SINGLE, "warp_columns": 2}),
    ),
    "neighbours": (lambda schedule: softmax(ROWS, schedule=schedule), {}, tuple({"vector_width": n} for n in (1, 2, 4, 16))),
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
def test_the_same_bits(case: str):
    call, plain, options = CASES[case]
    with overridden(target="cuda"):
        want = call(plain)
        for schedule in options:
            np.testing.assert_array_equal(call(schedule), want, err_msg=str(schedule))
