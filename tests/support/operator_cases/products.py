"""Rows of products, decompositions and transforms."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

from collections.abc import Callable
from typing import Final

import numpy as np

from support.operator_cases.case import ELSE, Case, Numbers, f, i
from support.operators import Array
from tessera import op


def _scattered(x: Numbers, index: Numbers, values: Numbers) -> Numbers:
    made = x.copy()
    for n, each in zip(index.ravel(), values.reshape(-1, *values.shape[index.ndim :]), strict=True):
        if 0 <= n < len(x):
            made[n] += each
    return made


STARTS: Final = np.array([0, 2, 2, 5, 6])
COLUMNS: Final = np.array([0, 4, 1, 2, 3, 0])


def _sparse(values: Numbers, dense: Numbers) -> Numbers:
    matrix = np.zeros((4, dense.shape[-2]))
    matrix[np.repeat(np.arange(4), np.diff(STARTS)), COLUMNS] = values
    return matrix @ dense


def _definite(x: Array) -> Array:
    return x @ x.swapaxes(-1, -2) + 2 * np.eye(x.shape[-1]) if isinstance(x, np.ndarray) else x @ x.T + 2 * np.eye(5)


def _rebuilt(x: Array) -> Array:
    u, s, vh = op.svd(x)
    return (u * s[..., None, :]) @ vh, s


PRODUCTS: Final[dict[str, Case]] = {
    "matmul": Case(
        op.matmul, np.matmul, (f(5, 7), f(7, 3)),
        ((lambda: op.matmul(np.ones((3, 4)), np.ones((3, 4))), "no inner extent in common"),
         (lambda: op.matmul(np.ones((3, 4)), np.ones((4, 3)), tile_shape=(1, 2)), "not three extents")),
        (f(5, 0), f(0, 3)), (f(2, 5, 7), f(2, 7, 3)), slack=4,
    ),
    "gemm": Case(
        op.gemm, lambda a, b, c: a @ b + c, (f(5, 7), f(7, 3), f(3)),
        ((lambda: op.gemm(np.ones((3, 4)), np.ones((3, 4))), "no inner extent in common"),
         (lambda: op.gemm(np.ones((3, 4)), np.ones((4, 3)), np.ones(4)), "do not broadcast")),
        (f(0, 7), f(7, 3), f(3)), (f(2, 5, 7), f(2, 7, 3), f(2, 1, 3)), slack=4,
    ),
    "einsum": Case(
        lambda a, b: op.einsum("ij,kj->ki", a, b), lambda a, b: np.einsum("ij,kj->ki", a, b), (f(5, 7), f(3, 7)),
        ((lambda: op.einsum("ij,jk->ik", ELSE, ELSE), "does not name"), (lambda: op.einsum("i", ELSE, ELSE), "names 1")),
        (f(0, 7), f(3, 7)), slack=4,
    ),
    "scatter_add": Case(
        op.scatter_add, _scattered, (f(5, 3), i(2, 3, low=-1, high=7), f(2, 3, 3)),
        ((lambda: op.scatter_add(ELSE, ELSE, ELSE), "indices are integers"),
         (lambda: op.scatter_add(ELSE, np.arange(3), np.ones(4)), "values of")),
        (f(5, 3), i(0), f(0, 3)), slack=2,
    ),
    "spmm": Case(
        lambda v, m: op.spmm(v, COLUMNS, STARTS, m), _sparse, (f(6), f(5, 3)),
        ((lambda: op.spmm(ELSE, ELSE, np.arange(3), np.ones((3, 2))), "indices are integers"),
         (lambda: op.spmm(ELSE, np.arange(3), np.arange(3), ELSE), "a product with")),
        (f(6), f(5, 0)), slack=4,
    ),
    "cholesky": Case(
        lambda x: op.cholesky(_definite(x)), lambda x: np.linalg.cholesky(_definite(x)), (f(5, 5),),
        ((lambda: op.cholesky(np.ones((3, 4))), "square matrices"),
         (lambda: op.cholesky(-np.eye(3)), "not positive definite")),
        (f(0, 5, 5),), (f(2, 5, 5),), slack=40,
    ),
    "svd": Case(
        _rebuilt, lambda x: (x, np.linalg.svd(x, compute_uv=False)), (f(5, 3),),
        ((lambda: op.svd(ELSE), "no matrices"), (lambda: op.svd(np.full((2, 2), np.nan)), "NaN or infinities")),
        None, (f(2, 5, 3),), slack=40,
    ),
    "triangular_solve": Case(
        lambda x, y: op.triangular_solve(_definite(x), y),
        lambda x, y: np.linalg.solve(np.tril(_definite(x)), y), (f(5, 5), f(5, 3)),
        ((lambda: op.triangular_solve(np.eye(3), np.ones((4, 2))), "has no right side"),
         (lambda: op.triangular_solve(np.zeros((3, 3)), np.ones((3, 2))), "0 on its diagonal")),
        (f(5, 5), f(5, 0)), (f(2, 5, 5), f(2, 5, 3)), slack=40,
    ),
}  # fmt: skip


def _interleaved(z: Numbers) -> Numbers:
    return np.stack([np.real(z), np.imag(z)], -1)


def _spectrum(name: str, *options: int) -> Callable[..., Numbers]:
    def want(re: Numbers, im: Numbers) -> Numbers:
        return _interleaved(getattr(np.fft, name)(re + 1j * im, *options))

    return want


EMPTY_AXIS: Final = ((lambda: op.fft(np.ones((3, 0))), "has no elements"), (lambda: op.fft(ELSE, 1), "no axis 1"))
TRANSFORMS: Final[dict[str, Case]] = {
    "Complex": Case(
        lambda x, y: (op.Complex(x) * op.Complex(y)).parts,
        lambda x, y: _interleaved((x[..., 0] + 1j * x[..., 1]) * (y[..., 0] + 1j * y[..., 1])), (f(5, 7, 2), f(7, 2)),
        ((lambda: op.Complex(ELSE) * op.Complex(ELSE), "no two parts"),
         (lambda: op.Complex(np.ones((3, 2))) * op.Complex(np.ones((4, 2))), "do not broadcast")),
        (f(0, 7, 2), f(7, 2)), slack=2,
    ),
    "fft": Case(
        lambda x, y: op.fft((x, y), 1).parts, _spectrum("fft", None, 1), (f(2, 67, 3), f(2, 67, 3)), EMPTY_AXIS,
        (f(0, 67, 3), f(0, 67, 3)), slack=8,
    ),
    "ifft": Case(
        lambda x, y: op.ifft((x, y)).parts, _spectrum("ifft"), (f(3, 15), f(3, 15)), EMPTY_AXIS,
        (f(0, 15), f(0, 15)), slack=8,
    ),
    "fft2d": Case(
        lambda x, y: op.fft2d((x, y)).parts, _spectrum("fft2"), (f(9, 70), f(9, 70)),
        ((lambda: op.fft2d(ELSE), "has no axis -2"),), (f(0, 9, 70), f(0, 9, 70)), (f(2, 9, 70), f(2, 9, 70)), slack=8,
    ),
    "ifft2d": Case(
        lambda x, y: op.ifft2d((x, y)).parts, _spectrum("ifft2"), (f(9, 5), f(9, 5)),
        ((lambda: op.ifft2d((ELSE, np.ones(4))), "are alike"),), (f(0, 9, 5), f(0, 9, 5)), (f(2, 9, 5), f(2, 9, 5)),
        slack=8,
    ),
    "rfft": Case(
        lambda x: op.rfft(x).parts, lambda x: _interleaved(np.fft.rfft(x)), (f(3, 67),),
        ((lambda: op.rfft((ELSE, ELSE)), "takes a real array"),), slack=8,
    ),
}  # fmt: skip
