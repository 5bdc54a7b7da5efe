"""The factorization with NumPy in the place of CuPy and cuSOLVER: what it leaves in the lower triangle does not count."""

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tessera.core.settings import overridden
from tessera.ops.libraries import gpu_cholesky


def definite(n: int) -> NDArray[Any]:
    x = np.random.default_rng(n).normal(size=(n, n))
    return x @ x.T / n + 0.1 * np.eye(n)


def factorize_upper(numpy: object, a: NDArray[Any], failed: NDArray[Any]) -> None:
    del numpy
    try:
        upper = np.linalg.cholesky(a).T
    except np.linalg.LinAlgError:
        failed[0] = 1
        return
    a[np.triu_indices(len(a))] = upper[np.triu_indices(len(a))]


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(("n", "dtype"), [(5, np.float64), (65, np.float32), (130, np.float64)])
def test_the_lower_factor(target: str, n: int, dtype: type[np.generic], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cupy", np)
    monkeypatch.setattr(gpu_cholesky, "_factorize_upper", factorize_upper)
    a: NDArray[Any] = definite(n).astype(dtype)
    made = np.full_like(a, np.nan)
    with overridden(target=target):
        assert gpu_cholesky.factorize(a, made)
    np.testing.assert_allclose(made, np.linalg.cholesky(a), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(a, definite(n).astype(dtype))
    assert not gpu_cholesky.factorize(-a, made)


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "dtype"), [(5, np.float32), (2049, np.float32), (700, np.float64)])
def test_on_a_gpu(n: int, dtype: type[np.generic]):
    cupy = pytest.importorskip("cupy")
    a = cupy.asarray(definite(n), dtype)
    made = cupy.empty_like(a)
    assert gpu_cholesky.factorize(a, made)
    exact = made.astype(np.float64)
    assert float(cupy.linalg.norm(a - exact @ exact.T) / cupy.linalg.norm(a)) < 2e-6
    assert not gpu_cholesky.factorize(-a, made)
