"""Sorting along an axis: indices by the libraries' stable sorts, and elements gathered by them.

before: `sort(x)`
after:  order = call "argsort" of x; x gathered at order, so its derivative is that of a gather
"""

from collections.abc import Mapping, Sequence
from operator import index as index_of
from typing import Final, NamedTuple

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import boolean, i64, u8
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.graph import Routine, Tensor
from tessera.core.program.program import Attribute
from tessera.graphs.function import operator
from tessera.graphs.shapes import axis_of, working
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.arrays import take_along_axis
from tessera.ops.libraries import sorting


class TopK(NamedTuple):
    """The greatest elements along an axis in falling order, or the least in rising order, and their indices, i64."""

    values: Array
    indices: Array


@operator("argsort")
def argsort(x: Array, axis: int | None = -1, descending: bool = False) -> Array:
    """Return the indices that sort x along an axis, rising, as i64.

    Equal elements keep their order, 0.0 and -0.0 among them, also where `descending`.  NaN counts as the greatest: it
    comes last, as NumPy's, and first where `descending`.  axis: None: of all elements in row-major order.
    A call of a library, NumPy or CuPy.  Raises OperandMismatch for an axis that is not there, LibraryMissing on a GPU
    without CuPy.
    """
    keys, number = _along(as_tracer(x), axis)
    return _order(keys, number, descending=descending)


@operator("sort")
def sort(x: Array, axis: int | None = -1, descending: bool = False) -> Array:
    """Return the elements of x in rising order along an axis, as `argsort` has it; derivatives move with elements.

    axis: None: all elements as one axis, in row-major order.  Raises OperandMismatch for an axis that is not there,
    LibraryMissing on a GPU without CuPy.
    """
    values, number = _along(as_tracer(x), axis)
    return take_along_axis(values, _order(values, number, descending=descending), number)


@operator("top_k")
def top_k(x: Array, k: int, axis: int = -1, *, largest: bool = True) -> TopK:
    """Return the k greatest elements along an axis in falling order, and their indices: `.values` and `.indices`.

    largest: false for the k least elements, in rising order
    Equal elements come in the order of their indices; NaN counts as the greatest, as PyTorch's `topk` has it.
    Raises OperandMismatch for an axis that is not there or has less than k elements, LibraryMissing on a GPU without
    CuPy.
    """
    values = as_tracer(x)
    number, count = axis_of(values.ndim, axis), index_of(k)
    if not 0 <= count <= values.shape[number]:
        raise OperandMismatch(
            f"the {count} {'greatest' if largest else 'least'} of {values.shape[number]} elements",
            hint=f"give 0 <= k <= {values.shape[number]}",
        )
    order = _order(values, number, descending=largest)
    indices = order[(*(slice(None),) * number, slice(count))]
    return TopK(take_along_axis(values, indices, number), indices)


def _along(x: Tracer, axis: int | None) -> tuple[Tracer, int]:
    """Return what is sorted, and the axis: of all elements in row-major order for None."""
    return (x.reshape(-1), 0) if axis is None else (x, axis_of(x.ndim, axis))


def _order(x: Tracer, axis: int, *, descending: bool) -> Tracer:
    # f32 has all floats of 16 bits, in their order, and u8 has bools.
    keys = x.astype(u8 if x.dtype == boolean else working(x.dtype))
    (order,) = keys.trace.builder.call(_ARGSORT, [keys.value], axis=axis, descending=descending)
    return keys.of(order)


def _indices(types: Sequence[Tensor], _: Mapping[str, Attribute]) -> list[Tensor]:
    return [Tensor(i64, types[0].shape)]


_ARGSORT: Final = Routine("argsort", "NumPy, CuPy", _indices, sorting.argsort)
