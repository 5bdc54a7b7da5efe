"""Decompositions of matrices: Cholesky, singular values, and triangular systems, by the libraries of the vendors.

Each is a `call` in the graph: LAPACK through NumPy (SciPy where it is installed) on the host, cuSOLVER and cuBLAS
through CuPy on a GPU.  Their derivatives are operators.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from tessera.core.arrays.array_methods import Array
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.build import broadcast_shape
from tessera.core.graph.graph import Routine, Tensor
from tessera.core.program.program import Attribute
from tessera.graphs import tracer
from tessera.graphs.custom import traced_adjoint
from tessera.graphs.function import operator
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.arrays import arange, broadcast_to
from tessera.ops.definitions.floats import widened
from tessera.ops.libraries import linear_algebra

Options = Mapping[str, Attribute]


class Svd(NamedTuple):
    """A singular value decomposition: `u * s[..., None, :] @ vh`."""

    u: Array
    s: Array
    vh: Array


@operator("cholesky")
def cholesky(a: Array) -> Array:
    """Return the lower triangular L with L @ L.T == a, above the diagonal 0, of each of the last two axes' matrices.

    a: [..., n, n], symmetric and positive definite (the mean of it and its transpose is taken); floats of 16 bits are
    computed in f32.  Derivative: Murray, "Differentiation of the Cholesky decomposition", arXiv:1602.07527, 2016.
    Raises OperandMismatch for a matrix that is not square, NoDecomposition, when it runs, for one that is not positive
    definite, LibraryMissing on a GPU without CuPy.
    """
    wide, dtype = widened(a)
    _require_square(wide, "cholesky")
    (made,) = _called(_CHOLESKY, [(wide + wide.T) * 0.5])
    return made.astype(dtype)


@operator("triangular_solve")
def triangular_solve(a: Array, b: Array, *, lower: bool = True, transpose: bool = False) -> Array:
    """Return x with a @ x == b, or a.T @ x == b where `transpose`, for triangular matrices a.

    a: [..., n, n], of which only the lower triangle is read, or the upper one where `lower` is false; b: [..., n, k],
    or [n] where a is one matrix; batches are broadcast together.  Floats of 16 bits are computed in f32.
    Raises OperandMismatch for shapes that do not fit, NoDecomposition, when it runs, for a 0 on the diagonal,
    LibraryMissing on a GPU without CuPy.
    """
    trace = trace_of(a, b)
    left, dtype = widened(a, trace)
    right, other = widened(b, trace)
    _require_square(left, "triangular_solve")
    vector = right.ndim == 1
    if vector:
        right = right[:, None]
    if right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise OperandMismatch(f"a system of {left.shape} has no right side {as_tracer(b, trace).shape}")
    wide = left.dtype if left.dtype.bits >= right.dtype.bits else right.dtype
    try:
        batch = broadcast_shape([left.shape[:-2], right.shape[:-2]])
    except ValueError as wrong:
        raise OperandMismatch(f"the batches of {left.shape} and {right.shape} do not broadcast") from wrong
    left = broadcast_to(left.astype(wide), (*batch, *left.shape[-2:]))
    right = broadcast_to(right.astype(wide), (*batch, *right.shape[-2:]))
    (made,) = _called(_TRIANGULAR_SOLVE[lower, transpose], [left, right], lower=lower, transpose=transpose)
    made = made[..., 0] if vector else made
    return made.astype(dtype if dtype.bits >= other.bits else other)


@operator("svd")
def svd(a: Array) -> Svd:
    """Return (u, s, vh) with (u * s) @ vh == a, each as long as the lesser extent; `.u`, `.s` and `.vh` name them.

    s falls and is not negative; the columns of u and the rows of vh are orthonormal.  a: [..., m, n]; floats of 16 bits
    are computed in f32.  The derivatives of u and vh have 1 / (s_i^2 - s_j^2): they grow without bound as singular
    values meet, and what belongs to two equal ones is left out, which is right for functions that do not depend on how
    vectors of equal singular values are chosen.  That of s always exists.
    Raises OperandMismatch for something without two axes, or without elements, NoDecomposition, when it runs, where the
    iteration does not converge, LibraryMissing on a GPU without CuPy.
    """
    wide, dtype = widened(a)
    if wide.ndim < 2 or 0 in wide.shape[-2:]:
        raise OperandMismatch(
            f"{wide.shape} has no matrices in its last two axes", hint="give [..., m, n], no extent 0"
        )
    return Svd(*(each.astype(dtype) for each in _called(_SVD, [wide])))


def _called(routine: Routine, operands: Sequence[Tracer], **options: Attribute) -> list[Tracer]:
    trace = operands[0].trace
    return [Tracer(trace, value) for value in trace.builder.call(routine, [x.value for x in operands], **options)]


def _require_square(a: Tracer, name: str) -> None:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise OperandMismatch(f"{name} takes square matrices, not {a.shape}", hint="give [..., n, n]")


def _triangle(x: Tracer, *, lower: bool, diagonal: float = 1.0) -> Tracer:
    """Return x with 0 on the other side of the diagonal, which is multiplied by a number."""
    rows, columns = arange(x.shape[-2])[:, None], arange(x.shape[-1])
    kept = tracer.select(rows > columns if lower else rows < columns, x, 0.0)
    return tracer.select(rows == columns, x * diagonal, kept)


def _same(types: Sequence[Tensor], _: Options) -> list[Tensor]:
    return [types[-1]]


def _cholesky_adjoint(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Return L^-T P L^-1, symmetrised, where P is the lower triangle of L^T L', its diagonal halved."""
    del inputs
    (lower,), (given,) = outputs, cotangents
    inner = _triangle(lower.T @ _triangle(given, lower=True), lower=True, diagonal=0.5)
    half = triangular_solve(lower, inner, transpose=True)
    whole = triangular_solve(lower, half.T, transpose=True).T
    return (whole + whole.T) * 0.5


def _solve(lower: bool, transpose: bool) -> Routine:
    def adjoint(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Sequence[Tracer]:
        (a, _), (x,), (given,) = inputs, outputs, cotangents
        by_b = triangular_solve(a, given, lower=lower, transpose=not transpose)
        by_a = x @ by_b.T if transpose else by_b @ x.T
        return _triangle(-by_a, lower=lower), by_b

    return Routine(
        "triangular_solve", "LAPACK, cuBLAS", _same, linear_algebra.triangular_solve, adjoint=traced_adjoint(adjoint)
    )


def _svd_types(types: Sequence[Tensor], _: Options) -> list[Tensor]:
    (a,) = types
    *batch, m, n = a.shape
    least = min(m, n)
    shapes = (*batch, m, least), (*batch, least), (*batch, least, n)
    return [Tensor(a.dtype, shape) for shape in shapes]


def _svd_adjoint(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Return U (F * skew(U^T U') S + S (F * skew(V^T V')) + S') V^T, and what leaves the spaces of U and V.

    F is 1 / (s_j^2 - s_i^2), 0 where these are equal (Giles, "Collected matrix derivative results for forward and
    reverse mode algorithmic differentiation", 2008).
    """
    (a,), (u, s, vh), (by_u, by_s, by_vh) = inputs, outputs, cotangents
    rows, columns = s[..., :, None], s[..., None, :]
    gap = (columns - rows) * (columns + rows)
    distinct = gap != 0.0
    factor = tracer.select(distinct, 1.0 / tracer.select(distinct, gap, 1.0), 0.0)
    left, right = u.T @ by_u, vh @ by_vh.T
    inner = (factor * (left - left.T)) * columns + rows * (factor * (right - right.T))
    places = arange(s.shape[-1])
    inner = inner + tracer.select(places[:, None] == places, rows * 0.0 + by_s[..., None, :], 0.0)
    made = u @ inner @ vh
    inverse = tracer.select(s != 0.0, 1.0 / tracer.select(s != 0.0, s, 1.0), 0.0)
    if a.shape[-2] > s.shape[-1]:
        made = made + ((by_u - u @ left) * inverse[..., None, :]) @ vh
    if a.shape[-1] > s.shape[-1]:
        made = made + (u * inverse[..., None, :]) @ (by_vh - right.T @ vh)
    return made


_CHOLESKY = Routine(
    "cholesky",
    "LAPACK, cuSOLVER",
    _same,
    linear_algebra.cholesky,
    fills=True,
    adjoint=traced_adjoint(_cholesky_adjoint),
)
_TRIANGULAR_SOLVE = {sides: _solve(*sides) for sides in product((False, True), repeat=2)}
_SVD = Routine("svd", "LAPACK, cuSOLVER", _svd_types, linear_algebra.svd, adjoint=traced_adjoint(_svd_adjoint))
