"""Factorize positive definite matrices on a GPU by cuSOLVER, columns first.

cuSOLVER counts columns first, where a row-major lower factor is an upper one; it takes half as long for lower ones.  So
the upper factor is computed, which is a lower one to it, and turned.
"""

import importlib
from typing import Any, Final, TypeAlias

import numpy as np

from tessera.ops.libraries.arrays import Numbers
from tessera.ops.recipes.launch_recipe import machine_of, variant
from tessera.ops.tiles.factorization import lower_of_upper
from tessera.runtime.memory.operands import operand

Cupy: TypeAlias = Any  # the module, an optional package without stubs
_TURN: Final = {"BM": 64, "BN": 64}


def factorize(a: Numbers, made: Numbers) -> bool:
    """Fill `made` with the lower factor of one CuPy matrix; return whether that is positive definite."""
    cupy: Cupy = importlib.import_module("cupy")
    work = cupy.array(a, order="C")
    failed = cupy.zeros(1, np.int32)
    _factorize_upper(cupy, work, failed)
    variant(lower_of_upper, machine_of(operand(work, "a")), _TURN, {}, {})(work, made)
    return not bool(failed.any())


def _factorize_upper(cupy: Cupy, a: Numbers, failed: Numbers) -> None:
    """Replace the upper triangle by its factor; `failed` becomes the row that is not positive definite, or 0."""
    cusolver = importlib.import_module("cupy_backends.cuda.libs.cusolver")
    lower = importlib.import_module("cupy_backends.cuda.libs.cublas").CUBLAS_FILL_MODE_LOWER
    handle = importlib.import_module("cupy.cuda.device").get_cusolver_handle()
    letter, n = "s" if a.dtype == np.float32 else "d", a.shape[0]
    size = getattr(cusolver, f"{letter}potrf_bufferSize")(handle, lower, n, a.data.ptr, n)
    workspace = cupy.empty(size, a.dtype)
    getattr(cusolver, f"{letter}potrf")(handle, lower, n, a.data.ptr, n, workspace.data.ptr, size, failed.data.ptr)
