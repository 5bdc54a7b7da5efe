"""Matrix products: matmul, gemm, linear."""

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import DType, promote
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.scaled import Scaled
from tessera.graphs.scaled_calls import product
from tessera.graphs.shapes import working
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import as_tracer, contraction


@operator("matmul")
def matmul(
    a: Array, b: Array, *, tile_shape: tuple[int, int, int] | tuple[()] = (), exact: bool = False, compute: str = ""
) -> Array:
    """Return the matrix product of the last two axes, broadcast over the others, as NumPy's `matmul`.

    a: [..., M, K] or [K]; b: [..., K, N] or [K].  Products are summed in f32 (f64 for f64) and rounded once; of bools
    the result says whether any product holds.
    tile_shape: the blocks (BM, BN, BK) to compute it in; exact: without tensor cores, the same bits everywhere
    compute: "tf32" for f32 operands that are rounded to that first
    a and b may be Scaled, as `op.quantize` returns them: then codes are multiplied, and summed as their numerics say.
    Raises OperandMismatch for extents that do not fit.
    """
    if isinstance(a, Scaled) or isinstance(b, Scaled):
        return _scaled_product(a, b, tile_shape, exact=exact, compute=compute)
    return tracer.matmul(a, b, tile_shape=tile_shape, exact=exact, compute=compute)


@operator("gemm")
def gemm(
    a: Array, b: Array, bias: Array | None = None, *, tile_shape: tuple[int, int, int] | tuple[()] = (),
    exact: bool = False, compute: str = "",
) -> Array:  # fmt: skip
    """Return a b + bias: `matmul` with a bias along the last axis.

    a: also the result of attention, [..., heads, length, width], for b with heads * width rows: heads are joined first
    """
    if isinstance(a, Scaled) or isinstance(b, Scaled):
        made = _scaled_product(a, b, tile_shape, exact=exact, compute=compute)
        return made if bias is None else made + bias
    x, y = as_tracer(a), as_tracer(b)
    if x.ndim > 2 and y.ndim == 2 and x.shape[-1] != y.shape[0] == x.shape[-3] * x.shape[-1]:
        *batch, heads, length, width = x.shape
        rank = len(batch)
        x = x.transpose(*range(rank), rank + 1, rank, rank + 2).reshape(*batch, length, heads * width)
    made = tracer.matmul(x, y, tile_shape=tile_shape, exact=exact, compute=compute)
    return made if bias is None else made + bias


def _scaled_product(a: Array, b: Array, tile_shape: tuple[int, ...], *, exact: bool, compute: str) -> Array:
    if compute:
        raise OperandMismatch(f"compute={compute!r} of codes", hint="leave it out: their numerics say what is computed")
    x, y = (each if isinstance(each, Scaled) else as_tracer(each, trace_of(each)) for each in (a, b))
    return product(x, y, tile_shape=tile_shape, exact=exact)


@operator("linear")
def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return x weight^T + bias, as PyTorch's layers have it: [..., in] and [out, in] give [..., out].

    bias: [out].  A weight [in] gives [...], with a bias without axes.  Products are summed in f32 (f64 for f64), the
    bias is added to the sums, and both are rounded once.  x and weight may be Scaled.
    Raises OperandMismatch for extents that do not fit.
    """
    if isinstance(x, Scaled) or isinstance(weight, Scaled):
        total = _scaled_product(x, weight.T, (), exact=False, compute="")
        return total if bias is None else total + bias
    trace = trace_of(x, weight, bias)
    rows, columns = as_tracer(x, trace), as_tracer(weight, trace)
    if not rows.ndim or columns.ndim not in (1, 2) or rows.shape[-1] != columns.shape[-1]:
        raise OperandMismatch(
            f"x of {rows.shape} and a weight of {columns.shape} have no inner extent in common",
            hint="give x [..., in] and a weight [out, in]; op.matmul takes one that is [in, out]",
        )
    rank = rows.ndim - 1
    labels = ((*range(rank), rank + 1), (*range(rank, rank + columns.ndim - 1), rank + 1))
    result = tuple(range(rank + columns.ndim - 1))
    if bias is None:
        return contraction(rows, columns, labels, result)
    shift = as_tracer(bias, trace)
    if shift.shape != columns.shape[:-1]:
        raise OperandMismatch(
            f"a bias of {shift.shape} for a weight of {columns.shape}", hint=f"give it the shape {columns.shape[:-1]}"
        )
    met = promote(promote(rows.dtype, columns.dtype), shift.dtype)
    total = contraction(rows, columns, labels, result, dtype=_sums_of(promote(rows.dtype, columns.dtype)))
    return (total + shift).astype(met)


def _sums_of(dtype: DType) -> DType:
    """Return the dtype in which sums of products are kept until they are rounded."""
    return working(dtype) if dtype.is_float else dtype
