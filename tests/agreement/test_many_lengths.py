"""Programs that are opened for many lengths compute the bits of the program for one, on every target."""

from collections.abc import Sequence

import numpy as np
import pytest

from support.every_target import TARGETS, results
from support.simulate import same_bits
from tessera import compile_source
from tessera.core.program.program import Parameter
from tessera.core.program.types import Array
from tessera.lowering.program.open_extents import ParameterAxis, open_extents

KERNELS = """
@kernel
def scores(x: {t}[r, n], y: mut {t}[r, n]):
    for i in tile.range(r):
        y[i, :] = tile.softmax(x[i, :])

@kernel
def centered(x: {t}[r, n], y: mut {t}[r, n]):
    for i in tile.range(r, step=2):
        row = x[i:i+2, :]
        y[i:i+2, :] = row - tile.max(row, axis=1, keepdims=True) + tile.sum(row * row, axis=1, keepdims=True)

@kernel
def columns(x: {t}[r, n], y: mut {t}[r, n]):
    block = x[:, :]
    sums = tile.transpose(tile.sum(tile.exp(tile.transpose(block)), axis=0, keepdims=True))
    y[:, :] = block * sums + tile.min(block, axis=0, keepdims=True)

@kernel
def masked(x: {t}[r, n], y: mut {t}[r, n]):
    for i in tile.range(r):
        row = x[i, :]
        kept = tile.where(tile.arange(0, n) <= i + 3, row, row * 2.0 - 1.0)
        y[i, :] = kept / tile.sum(tile.abs(row))
"""
NAMES = ("scores", "centered", "columns", "masked")


def drawn(width: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(width)
    x = rng.standard_normal((5, width)).astype(np.float32)
    x[1, width // 2], x[2, -1] = np.inf, np.nan
    x[3] = -0.0
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_opened_programs_compute_the_same_bits(name: str, dtype: str):
    module = compile_source(KERNELS.format(t={"float32": "f32", "float16": "f16", "float64": "f64"}[dtype]))
    for width in (7, 61, 129):
        x = drawn(width, dtype)
        program = getattr(module, name).program((x, np.zeros_like(x)))
        opened = open_extents(program, numbers_of(program.parameters))
        assert opened is not None
        for target in TARGETS:
            want = results(program, [x.copy(), np.zeros_like(x)], target)[1]
            got = results(opened.program, [x.copy(), np.zeros_like(x)], target)[1]
            assert same_bits(got, want), f"{name} of {width} differs on {target}"


def numbers_of(parameters: Sequence[Parameter]) -> list[ParameterAxis]:
    """The axes whose extents are numbers."""
    kinds = [(number, parameter.value.type) for number, parameter in enumerate(parameters)]
    return [
        (number, axis) for number, kind in kinds if isinstance(kind, Array)
        for axis, size in enumerate(kind.shape) if isinstance(size, int)
    ]  # fmt: skip
