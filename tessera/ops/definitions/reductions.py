"""Reductions along axes: sums, extremes, means, variances, conditions, and indices of extremes."""

import math
from collections.abc import Sequence

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import boolean
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.shapes import axes_of, axis_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.floats import widened

Axes = int | Sequence[int] | None


@operator("sum")
def sum_(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Sum along axes, or of everything; in f32 for shorter floats, in one fixed order."""
    return as_tracer(x).sum(axis, keepdims=keepdims)


@operator("max")
def max_(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the greatest along axes, or of everything; NaN wins."""
    return as_tracer(x).max(axis, keepdims=keepdims)


@operator("min")
def min_(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the least along axes, or of everything; NaN wins."""
    return as_tracer(x).min(axis, keepdims=keepdims)


@operator("mean")
def mean(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the mean along axes, or of everything."""
    return as_tracer(x).mean(axis, keepdims=keepdims)


@operator("var")
def var(x: Array, axis: Axes = None, *, keepdims: bool = False, ddof: float = 0) -> Array:
    """Return the variance along axes, or of everything: the mean square of the distances from the mean.

    ddof: subtracted from the number of elements that the sum of squares is divided by, as NumPy's: 0 where PyTorch's
      `correction` is 1.  Without a positive divisor the result is NaN, or infinite, as NumPy's.
    Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    return _variance(wide, axis, keepdims=keepdims, ddof=ddof).astype(dtype)


@operator("std")
def std(x: Array, axis: Axes = None, *, keepdims: bool = False, ddof: float = 0) -> Array:
    """Return the standard deviation along axes, or of everything: the square root of the variance.

    Its derivative where all elements are equal is 0, not NaN: the mean of the derivatives to both sides.
    ddof: as in `var`.  Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    variance = _variance(wide, axis, keepdims=keepdims, ddof=ddof)
    flat = variance == 0.0
    root = tracer.unary("sqrt", tracer.select(flat, 1.0, variance))
    return tracer.select(flat, 0.0, root).astype(dtype)


def _variance(x: Tracer, axis: Axes, *, keepdims: bool, ddof: float) -> Tracer:
    count = math.prod(x.shape[n] for n in axes_of(x.ndim, axis))
    divisor = count - ddof
    centered = x - x.mean(axis, keepdims=True)
    # A factor without bound is NaN for a sum of 0, as 0 / 0 is.
    return (centered * centered).sum(axis, keepdims=keepdims) * (1.0 / divisor if divisor > 0 else math.inf)


@operator("any")
def any_(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return whether an element along axes, or of everything, is not 0, as bool; NaN is not 0.  False of none."""
    return _holds(x).max(axis, keepdims=keepdims)


@operator("all")
def all_(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return whether no element along axes, or of everything, is 0, as bool; NaN is not 0.  True of none."""
    return _holds(x).min(axis, keepdims=keepdims)


@operator("count_nonzero")
def count_nonzero(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return how many elements along axes, or of everything, are not 0, as i64; NaN is not 0."""
    return _holds(x).sum(axis, keepdims=keepdims)


def _holds(x: Array) -> Tracer:
    value = as_tracer(x)
    return value if value.dtype == boolean else tracer.compare("ne", value, 0)


@operator("argmax")
def argmax(x: Array, axis: int | None = -1, *, keepdims: bool = False) -> Array:
    """Return the index of the greatest along an axis, the first of equal ones, as i64; NaN is the greatest.

    axis: None: of all elements in row-major order, as NumPy's default.  Raises OperandMismatch for an axis without
    elements.
    """
    return _index_of("max", "greatest", as_tracer(x), axis, keepdims=keepdims)


@operator("argmin")
def argmin(x: Array, axis: int | None = -1, *, keepdims: bool = False) -> Array:
    """Return the index of the least along an axis, the first of equal ones, as i64; NaN is the least.

    axis: None: of all elements in row-major order, as NumPy's default.  Raises OperandMismatch for an axis without
    elements.
    """
    return _index_of("min", "least", as_tracer(x), axis, keepdims=keepdims)


def _index_of(extreme: str, word: str, x: Tracer, axis: int | None, *, keepdims: bool) -> Tracer:
    """Return the first index along an axis at which an element is the extreme, or NaN."""
    values, number = (x.reshape(-1), 0) if axis is None else (x, axis_of(x.ndim, axis))
    extent = values.shape[number]
    if not extent:
        raise OperandMismatch(
            f"the {word} of no elements has no place: axis {number} of {values.shape} is empty",
            hint=f"give at least one element: x.shape[{number}] > 0",
        )
    index = values.iota(extent).reshape(*(extent if n == number else 1 for n in range(values.ndim)))
    wins = values == tracer.reduce(extreme, values, number, keepdims=True)
    if values.dtype.is_float:
        wins = wins | (values != values)  # noqa: PLR0124 - NaN equals nothing: where it is the extreme, it is looked for
    first = tracer.select(wins, index, extent).min(number)
    shape = [1 if axis is None or n == number else size for n, size in enumerate(x.shape)]
    return first.reshape(*shape) if keepdims else first
