"""Kernels read what they and their helpers close over at every launch."""

from typing import Any

import numpy as np
import pytest

import tessera
from tessera.api.source_module import run_cell
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel

TEXT = """
import types

scale = 2.0
slope = 2.0
settings = types.SimpleNamespace(rate=2.0, inner=types.SimpleNamespace(rate=2.0), unused=0)
weights = [0.5, 1.5]
table = {"rate": 2.0, "unused": 0}

class Config:
    rate = 2.0

def near(v):
    return v * 2.0

def helper(v):
    return v * slope

def outer(v):
    return helper(v)

@kernel
def by_global(x: f32[n], y: mut f32[n]):
    y[:] = x[:] * scale

@kernel
def by_helper(x: f32[n], y: mut f32[n]):
    y[:] = near(x[:])

@kernel
def by_helpers_global(x: f32[n], y: mut f32[n]):
    y[:] = outer(x[:])

@kernel
def by_attribute(x: f32[n], y: mut f32[n]):
    y[:] = x[:] * settings.rate

@kernel
def by_attribute_of_an_attribute(x: f32[n], y: mut f32[n]):
    y[:] = x[:] * settings.inner.rate

@kernel
def by_class(x: f32[n], y: mut f32[n]):
    y[:] = x[:] * Config.rate

@kernel
def by_list(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        total = 0.0
        for w in weights:
            total += w * x[i]
        y[i] = total
"""
X = np.array([1.0, -2.0, 3.0], np.float32)
CHANGES = {
    "by_global": "scale = 3.0",
    "by_helper": "def near(v):\n    return v * 3.0\n",
    "by_helpers_global": "slope = 3.0",
    "by_attribute": "settings.rate = 3.0",
    "by_attribute_of_an_attribute": "settings.inner = types.SimpleNamespace(rate=3.0)",
    "by_class": "Config.rate = 3.0",
    "by_list": "weights[0] = 1.5",
}


def result(kernel: Kernel) -> list[float]:
    """Return what a kernel makes of X."""
    y = np.zeros(3, np.float32)
    kernel(X, y)
    return y.tolist()


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_changes_are_seen_by_the_next_launch(target: str):
    module: Any = tessera.compile_source(TEXT)
    with overridden(target=target):
        for name in CHANGES:
            assert result(getattr(module, name)) == (2 * X).tolist(), name
        for name, change in CHANGES.items():
            run_cell(change, vars(module), name="<a later cell>")
            assert result(getattr(module, name)) == (3 * X).tolist(), name
        for change in ("def helper(v):\n    return v * 5.0\n", "def outer(v):\n    return v * 7.0\n"):
            run_cell(change, vars(module), name="<a later cell>")
            factor = float(change.split("* ")[1])
            assert result(module.by_helpers_global) == (factor * X).tolist()


def test_what_no_kernel_reads_makes_nothing_old():
    module: Any = tessera.compile_source(TEXT)
    with overridden(target="interpret"):
        for name in CHANGES:
            result(getattr(module, name))
        module.settings.unused = module.unrelated = 3
        module.near = module.near
        assert all(getattr(module, name)._latest.valid() for name in CHANGES)
        module.settings.rate = 3.0
        assert [name for name in CHANGES if not getattr(module, name)._latest.valid()] == ["by_attribute"]
