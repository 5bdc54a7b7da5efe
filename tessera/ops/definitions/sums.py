"""Sums along an axis and by index: running sums, and sums at indices."""

from typing import Final

from tessera.core.arrays.array_methods import Array
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.shapes import axis_of, summed, working
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, as_tracer, indices
from tessera.ops.definitions.arrays import arange, pad

BLOCK: Final = 64
"""Elements of a running sum that are added directly: the block's, up to each of them."""


@operator("cumsum")
def cumsum(x: Array, axis: int | None = -1) -> Array:
    """Return the running sums along an axis, as NumPy's `cumsum`: floats of 16 bits in f32, integers in 64 bits.

    In blocks of 64 the sums are made directly; what comes before a block is the running sum of the totals of blocks,
    made in the same way, and added last.  axis: None: of all elements in row-major order.  Raises OperandMismatch for
    an axis that is not there.
    """
    array = as_tracer(x)
    array = array.reshape(-1) if axis is None else array
    number, dtype = 0 if axis is None else axis_of(array.ndim, axis), summed(array.dtype)
    order = [*(n for n in range(array.ndim) if n != number), number]
    sums = _running(array.astype(working(dtype)).transpose(*order))
    return sums.transpose(*(order.index(n) for n in range(array.ndim))).astype(dtype)


def _running(x: Tracer) -> Tracer:
    """Return running sums along the last axis."""
    *batch, length = x.shape
    rank = len(batch)
    if length <= BLOCK:
        kept = arange(length) <= arange(length)[:, None]  # not a product with 0: infinities behind do not count
        return tracer.select(kept, x[..., None, :], 0).sum(-1)
    blocks = -(-length // BLOCK)
    filled = pad(x, [*[(0, 0)] * rank, (0, blocks * BLOCK - length)]).reshape(*batch, blocks, BLOCK)
    inside = _running(filled)
    before = pad(_running(inside[..., -1]), [*[(0, 0)] * rank, (1, 0)])[..., :-1]
    whole = (inside + before[..., None]).reshape(*batch, blocks * BLOCK)
    return whole[..., :length]


@operator("scatter_add")
def scatter_add(x: Array, index: Array, values: Array, axis: int = 0) -> Array:
    """Return x with `values` added at integer indices along an axis; indices outside of it add nothing.

    index: of any shape; values: as `op.gather(x, index, axis)`.  What meets at one index is added in the order of the
    indices, in f32 for floats of 16 bits.  Raises OperandMismatch for values of another shape, and for no integers.
    """
    trace = trace_of(x, index, values)
    given, places, added = as_tracer(x, trace), indices(index, trace), as_tracer(values, trace)
    place = axis_of(given.ndim, axis)
    wanted = (*given.shape[:place], *places.shape, *given.shape[place + 1 :])
    if added.shape != wanted:
        raise OperandMismatch(f"values of {added.shape} at indices of {places.shape}", hint=f"give {wanted}")
    wide = working(given.dtype)
    builder = trace.builder
    total = builder.scatter_add(places.value, added.astype(wide).value, given.shape[place], place)
    return (given.astype(wide) + given.of(total)).astype(given.dtype)
