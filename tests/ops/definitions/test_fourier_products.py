"""Transforms as products, of any length, against NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import numpy as np
import pytest

from support.operators import Array, close, drawn, everywhere
from tessera import graph
from tessera.graphs.tracer import as_tracer
from tessera.ops.definitions.fourier_products import along_last


def transformed(length: int, *, inverse: bool = False) -> None:
    x = drawn((2, length, 2), np.float64)

    def model(x: Array) -> Array:
        return along_last(as_tracer(x), True, inverse)

    z = x[..., 0] + 1j * x[..., 1]
    want = np.fft.ifft(z, norm="forward") if inverse else np.fft.fft(z)
    close(everywhere(graph.module(model), x), np.stack([want.real, want.imag], -1), 1e-13)


@pytest.mark.parametrize("length", [1, 7, 60, 134, 1000])
def test_lengths_with_small_factors_with_large_ones_and_without(length: int):
    transformed(length)


def test_the_inverse():
    transformed(96, inverse=True)


def test_real_rows():
    x = drawn((3, 70), np.float64)
    want = np.fft.fft(x)
    model = graph.module(lambda x: along_last(as_tracer(x), False, False))
    close(everywhere(model, x), np.stack([want.real, want.imag], -1), 1e-13)
