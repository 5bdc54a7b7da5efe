"""The routines behind decompositions, on batches, on nothing, with SciPy and without."""

import sys
from types import ModuleType

import numpy as np
import pytest

from tessera.core.errors.catalog import NoDecomposition
from tessera.ops.libraries.linear_algebra import cholesky, library_for, svd, triangular_solve

RNG = np.random.default_rng(0)
A = RNG.normal(size=(2, 3, 4, 4)) + 4 * np.eye(4)
B = RNG.normal(size=(2, 3, 4, 2))


@pytest.fixture(params=["numpy", "scipy"])
def libraries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the test no SciPy, or one that notes that it was asked."""
    if request.param == "numpy":
        monkeypatch.setitem(sys.modules, "scipy.linalg", None)
        return "numpy"
    scipy = ModuleType("scipy")
    linalg = ModuleType("scipy.linalg")

    def solve_triangular(a: np.ndarray, b: np.ndarray, *, trans: int, lower: bool) -> np.ndarray:
        triangle = np.tril(a) if lower else np.triu(a)
        return np.linalg.solve(triangle.T if trans else triangle, b)

    linalg.solve_triangular = solve_triangular  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "scipy", scipy)
    monkeypatch.setitem(sys.modules, "scipy.linalg", linalg)
    return "scipy"


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_triangular_systems(libraries: str, lower: bool, transpose: bool):
    assert libraries
    (x,) = triangular_solve([A, B], {"lower": lower, "transpose": transpose})
    triangle = np.tril(A) if lower else np.triu(A)
    np.testing.assert_allclose((triangle.swapaxes(-1, -2) if transpose else triangle) @ x, B, atol=1e-12)


def test_systems_without_elements():
    for shape in ((0, 3, 3), (2, 0, 0)):
        a = np.zeros(shape) + np.eye(shape[-1])
        (x,) = triangular_solve([a, np.zeros((*shape[:-1], 2))], {"lower": True, "transpose": False})
        assert x.shape == (*shape[:-1], 2)
        assert cholesky([a, np.empty_like(a)], {})[0].shape == shape


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda: cholesky([-np.eye(2), np.eye(2)], {}), "not positive definite"),
        (lambda: svd([np.full((2, 2), np.nan)], {}), "NaN or infinities"),
        (lambda: triangular_solve([np.zeros((2, 2)), np.ones((2, 1))], {"lower": True, "transpose": False}),
         "0 on its diagonal"),
    ],
)  # fmt: skip
def test_what_has_no_decomposition(compute: object, message: str):
    assert callable(compute)
    with pytest.raises(NoDecomposition, match=rf"^[^\n]*(?:{message})"):
        compute()


def test_the_library_is_that_of_the_array():
    assert library_for(A) is np
