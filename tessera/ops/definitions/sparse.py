"""Products of sparse matrices in CSR form with dense ones: a `call` of a kernel, with derivatives."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import DType, boolean, i64, promote
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.graph import Routine, Tensor
from tessera.core.program.program import Attribute
from tessera.graphs.custom import traced_adjoint
from tessera.graphs.function import operator
from tessera.graphs.shapes import working
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, as_tracer, indices
from tessera.ops.libraries import sparse

Options = Mapping[str, Attribute]

MOST_DENSE: Final = {16: 1 / 128, 32: 1 / 16, 64: 1 / 16}
"""By bits of an element, the share of elements from which the dense product takes less time on GPUs of today."""
LEAST_WARNED: Final = 1 << 20
"""Elements of the least dense matrix that there is a warning for: below it, neither takes long."""


@operator("spmm")
def spmm(values: Array, columns: Array, starts: Array, dense: Array) -> Array:
    """Return the product of a sparse matrix in CSR form and dense ones: [..., rows, n].

    values, columns: [nonzeros], the elements row by row and which column each is in; starts: [rows + 1], where each row
    begins in them, and their number; dense: [..., columns, n].  Elements outside count for nothing; sums are made in
    the order of the elements, in f32 for floats of 16 bits, and derivatives are those of `values` and `dense`.
    Warns where so many elements are given that a product with a dense matrix takes less time.
    Raises OperandMismatch for shapes that do not fit, and for columns or starts that are no integers.
    """
    trace = trace_of(values, columns, starts, dense)
    given, matrix = as_tracer(values, trace), as_tracer(dense, trace)
    place, first = indices(columns, trace), indices(starts, trace)
    if given.ndim != 1 or place.shape != given.shape:
        raise OperandMismatch(f"values of {given.shape} in columns of {place.shape}", hint="give one column a value")
    if first.ndim != 1 or not first.shape[0]:
        raise OperandMismatch(f"starts of {first.shape}", hint="give where each row begins, and the number of values")
    if matrix.ndim < 2:
        raise OperandMismatch(f"a product with {matrix.shape}", hint="give a matrix, [columns, n]")
    met = promote(given.dtype, matrix.dtype)
    dtype = i64 if met == boolean else met
    _warn_where_dense(given.size, (first.shape[0] - 1) * matrix.shape[-2], dtype)
    *batch, height, width = matrix.shape
    rank = len(batch)
    wide = matrix.astype(dtype).transpose(rank, *range(rank), rank + 1).reshape(height, math.prod(batch) * width)
    made = _product(given.astype(dtype), place, first, wide)
    rows = made.shape[0]
    return made.reshape(rows, *batch, width).transpose(*range(1, rank + 1), 0, rank + 1)


def _warn_where_dense(given: int, elements: int, dtype: DType) -> None:
    most = MOST_DENSE.get(dtype.bits, MOST_DENSE[32])
    if elements >= LEAST_WARNED and given > most * elements:
        warnings.warn(
            f"spmm of {given / elements:.1%} of a matrix: from {most:.1%} on, a product with the dense matrix, "
            f"op.matmul, takes less time for {dtype}", RuntimeWarning, stacklevel=2,
        )  # fmt: skip


def _product(values: Tracer, columns: Tracer, starts: Tracer, dense: Tracer) -> Tracer:
    wide = working(values.dtype)
    operands = [each.value for each in (values, columns, starts, dense)]
    kind = wide.name if wide.is_float else "i64"
    (made,) = values.trace.builder.call(_SPMM, operands, kind=kind)
    return values.of(made)


def _types(types: Sequence[Tensor], _: Options) -> list[Tensor]:
    values, _columns, starts, dense = types
    return [Tensor(values.dtype, (starts.shape[0] - 1, dense.shape[1]))]


def _adjoint(
    inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]
) -> tuple[Tracer, None, None, Tracer]:
    """Return the products of rows that meet in an element, and the product with the transposed matrix."""
    del outputs
    (values, columns, starts, dense), (given,) = inputs, cotangents
    builder = values.trace.builder
    (place,) = builder.call(_ROWS, [columns.value, starts.value])
    wide = working(values.dtype)
    left = values.of(builder.gather(given.value, place, 0)).astype(wide)
    right = values.of(builder.gather(dense.value, columns.value, 0)).astype(wide)
    by_values = (left * right).sum(-1).astype(values.dtype)
    order, rows, begins = builder.call(_TRANSPOSED, [columns.value, starts.value], columns=dense.shape[0])
    picked = values.of(builder.gather(values.value, order, 0))
    return by_values, None, None, _product(picked, values.of(rows), values.of(begins), given)


def _row_types(types: Sequence[Tensor], _: Options) -> list[Tensor]:
    return [Tensor(i64, types[0].shape)]


def _transposed_types(types: Sequence[Tensor], options: Options) -> list[Tensor]:
    elements = types[0].shape
    return [Tensor(i64, elements), Tensor(i64, elements), Tensor(i64, (int(str(options["columns"])) + 1,))]


_SPMM = Routine("spmm", "a kernel", _types, sparse.multiply, fills=True, adjoint=traced_adjoint(_adjoint))
_ROWS = Routine("csr_rows", "NumPy, CuPy", _row_types, sparse.rows_of_elements)
_TRANSPOSED = Routine("csr_transpose", "NumPy, CuPy", _transposed_types, sparse.transposed)
