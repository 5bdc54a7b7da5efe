"""Python floats beside arrays of f64 keep their digits, whether their parameter has a type or not."""

from typing import Any

import numpy as np
import pytest

import tessera
from tessera.core.settings import overridden

TEXT = """
@kernel
def untyped(x: X[n], y: mut X[n], a):
    y[:] = x[:] * a

@kernel
def mixed(x: f32[n], z: f64[n], y: mut f64[n], w: mut f32[n], a):
    y[:] = z[:] * a
    w[:] = x[:] * a
"""
NUMBERS = (0.1, np.float64(0.1), 1.0 / 3.0, 1e300, float(2**53 - 1))


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_all_digits(target: str):
    module: Any = tessera.compile_source(TEXT.replace("X", "f64"))
    x = np.array([1.0, 3.0, 1e-10])
    with overridden(target=target):
        for number in NUMBERS:
            y = np.zeros(3)
            module.untyped(x, y, number)
            np.testing.assert_array_equal(y, x * number)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_beside_both(target: str):
    module: Any = tessera.compile_source(TEXT.replace("X", "f32"))
    x, z = np.array([1.0, 3.0], np.float32), np.array([1.0, 3.0])
    with overridden(target=target):
        y, w = np.zeros(2), np.zeros(2, np.float32)
        module.mixed(x, z, y, w, 0.1)
        np.testing.assert_array_equal(y, z * 0.1)
        np.testing.assert_allclose(w, x * np.float32(0.1), rtol=1e-6)
        y = np.zeros(2, np.float32)
        module.untyped(x, y, 0.1)
        np.testing.assert_array_equal(y, x * np.float32(0.1))
