"""CuPy where it is installed, and what is said where it is not."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tessera.core.errors.catalog import LibraryMissing
from tessera.runtime.arrays.cupy_views import as_cupy, beside, cupy_module


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    for call in (lambda: cupy_module("op.svd"), lambda: as_cupy(np.zeros(2), "op.svd")):
        with pytest.raises(LibraryMissing, match=r"op\.svd of arrays in a GPU's memory needs CuPy") as caught:
            call()
        assert "install cupy-cuda12x" in str(caught.value)


def test_arrays_are_viewed_by_dlpack(monkeypatch: pytest.MonkeyPatch):
    array = np.zeros(2)
    seen: list[object] = []
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(from_dlpack=seen.append, asarray=seen.append))
    as_cupy(array, "op.svd")
    as_cupy(array.__array_interface__, "op.svd")  # anything else that CuPy may know
    assert seen[0] is array
    assert len(seen) == 2


@pytest.mark.gpu
def test_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    array = cupy.arange(3)
    assert as_cupy(array, "op.svd") is array
    with beside(array, 0, "op.svd"):
        assert float(as_cupy(array, "op.svd").sum()) == 3
