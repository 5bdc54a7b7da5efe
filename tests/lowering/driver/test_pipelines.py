"""The pipelines: every example kernel goes through, comes out legal, and computes the same."""

from collections.abc import Callable

import numpy as np
import pytest

from support import programs
from support.evaluate import run
from support.mlir import lowered
from tessera.core.program.program import Program
from tessera.core.targets import TARGETS
from tessera.core.tile.spec import check_tile_ir
from tessera.lowering.driver.pipelines import tile_passes

pytestmark = pytest.mark.usefixtures("mlir")

COMPILED = [name for name, kind in TARGETS.items() if kind.backend]
RANDOM = np.random.default_rng(0)


def numbers(*shape: int):
    return RANDOM.integers(-3, 4, shape).astype(np.float32)


CASES: dict[str, tuple[Program, dict[str, int], list[np.ndarray]]] = {
    "tile_copy": (programs.tile_copy(8), {"n": 29}, [numbers(29), numbers(29)]),
    "matmul": (programs.matmul(4, 8, 4), {"M": 10, "N": 9, "K": 7}, [numbers(10, 7), numbers(7, 9), numbers(10, 9)]),
    "softmax_rows": (programs.softmax_rows(16, 4), {"R": 9}, [numbers(9, 16), numbers(9, 16)]),
    "fused_mlp": (
        programs.fused_mlp(48, 6, 10, 4), {},
        [numbers(48, 6), numbers(6, 10), numbers(10), numbers(10, 4), numbers(4), numbers(48, 4)],
    ),
    "pipeline": (programs.pipeline(48, 8, 4), {"K": 20}, [numbers(48, 20), numbers(20, 4), numbers(48, 4)]),
    "accumulate": (programs.accumulate(48, 8, 4), {"K": 20}, [numbers(48, 20), numbers(20, 4), numbers(48, 4)]),
    "countdown": (programs.countdown(), {"n": 5}, [np.zeros(5, np.int64)]),
}  # fmt: skip


@pytest.mark.parametrize("target", COMPILED)
@pytest.mark.parametrize("make", programs.ALL, ids=lambda make: make.__name__)
def test_comes_out_legal(make: Callable[..., Program], target: str):
    module = lowered(make(), *tile_passes(TARGETS[target]))
    check_tile_ir(module, target)
    assert module.operation.verify()


@pytest.mark.parametrize("target", COMPILED)
@pytest.mark.parametrize("case", CASES)
def test_computes_the_same(case: str, target: str):
    program, symbols, arrays = CASES[case]
    before, after = [a.copy() for a in arrays], [a.copy() for a in arrays]
    run(lowered(program), symbols, *before)
    run(lowered(program, *tile_passes(TARGETS[target])), symbols, *after)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_names():
    for name in COMPILED:
        assert all(step.name.startswith("tile-") for step in tile_passes(TARGETS[name]))
