"""Remedies for names of CUDA, Triton and NumPy: in any spelling, and such that they can be followed."""

import numpy as np
import pytest

import tessera
from tessera.frontend.elsewhere import remedy_for


@pytest.mark.parametrize(("name", "other"), [("__shfl_down_sync", "shfl_down"), ("threadIdx", "thread_idx")])
def test_any_spelling(name: str, other: str):
    assert remedy_for(name)
    assert remedy_for(name) == remedy_for(other)


@pytest.mark.parametrize("name", ["atomicAdd", "atomic_max", "tl_atomic"])
def test_atomics_whatever_they_do(name: str):
    assert bool(remedy_for(name)) == name.startswith("atomic")


def test_names_of_tessera_need_none():
    assert not any(remedy_for(name) for name in dir(tessera.tile))


def test_remedies_can_be_followed():
    module = tessera.compile_source("""
@kernel
def remedies(t: f32[n], out: mut f32[5], index: mut i64[2]):
    row = t[:]
    index[0] = tile.min(tile.where(row == tile.max(row), tile.arange(n), n))
    index[1] = tile.min(tile.where(row == tile.min(row), tile.arange(n), n))
    out[0] = tile.sum(row) / n
    out[1] = tile.sum(1 / (1 + tile.exp(-row)))
    out[2] = 1.0 if tile.max(row > 1.5) else 0.0
    out[3] = 1.0 if tile.min(row > 0.0) else 0.0
    out[4] = 1.0 if tile.min(row > 0.5) else 0.0
""")
    t = np.array([1.0, 0.25, 2.0, 0.5], np.float32)
    out, index = np.zeros(5, np.float32), np.zeros(2, np.int64)
    module.remedies(t, out, index)
    assert index.tolist() == [2, 1]
    assert np.allclose(out, [t.mean(), (1 / (1 + np.exp(-t))).sum(), 1, 1, 0])
