"""Decompositions of matrices on arrays of NumPy (LAPACK) or CuPy (cuSOLVER, cuBLAS)."""

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import numpy as np

from tessera.core.errors.catalog import NoDecomposition
from tessera.core.program.program import Attribute
from tessera.ops.libraries.arrays import Numbers, library_for
from tessera.ops.libraries.gpu_cholesky import factorize
from tessera.runtime.arrays.interop import is_cupy

Options: TypeAlias = Mapping[str, Attribute]


def _checked(array: object) -> AbstractContextManager[object]:
    """Have CuPy raise LinAlgError as NumPy does, instead of returning what has no meaning."""
    return importlib.import_module("cupyx").errstate(linalg="raise") if is_cupy(array) else nullcontext()


def _decomposed(compute: Callable[[], Sequence[Numbers]], array: Numbers, why: str) -> Sequence[Numbers]:
    try:
        with _checked(array):
            return compute()
    except np.linalg.LinAlgError as failed:
        raise NoDecomposition(f"{why}: {failed}") from failed


def cholesky(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Fill the second array with the lower triangular factors of a batch of matrices.  Raises NoDecomposition."""
    del options
    a, made = arrays
    why = "cholesky of a matrix that is not positive definite"
    if library_for(a) is not np and math.prod(a.shape[:-2]) == 1 and a.size:
        if not factorize(a.reshape(a.shape[-2:]), made.reshape(a.shape[-2:])):
            raise NoDecomposition(why)
    elif a.size:
        (made[...],) = _decomposed(lambda: [library_for(a).linalg.cholesky(a)], a, why)
    return [made]


def svd(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Return (u, s, vh) of a batch of matrices, reduced.  Raises NoDecomposition."""
    del options
    (a,) = arrays
    linalg = library_for(a).linalg
    return _decomposed(lambda: list(linalg.svd(a, full_matrices=False)), a, "svd of a matrix with NaN or infinities")


def triangular_solve(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Return the solutions of a batch of triangular systems; options: lower, transpose.  Raises NoDecomposition."""
    a, b = arrays
    library = library_for(a)
    lower, transpose = bool(options["lower"]), bool(options["transpose"])
    if not library.diagonal(a, axis1=-2, axis2=-1).all():
        raise NoDecomposition("triangular_solve of a matrix with a 0 on its diagonal")
    single = _triangular(a)
    if single is None or not b.size:
        turned = library.tril(a) if lower else library.triu(a)
        turned = library.swapaxes(turned, -1, -2) if transpose else turned
        return [library.linalg.solve(turned, b)]
    flat, sides = a.reshape((-1, *a.shape[-2:])), b.reshape((-1, *b.shape[-2:]))
    made = [
        single(each, side, trans=1 if transpose else 0, lower=lower) for each, side in zip(flat, sides, strict=True)
    ]
    return [library.stack(made).reshape(b.shape)]


def _triangular(a: Numbers) -> Callable[..., Numbers] | None:
    """Return the function for one triangular system: CuPy's, SciPy's, or None without SciPy."""
    try:
        linalg = importlib.import_module("cupyx.scipy.linalg" if is_cupy(a) else "scipy.linalg")
    except ImportError:
        return None
    return linalg.solve_triangular
