"""Conversions: `cast`, and arrays as codes and scales by `quantize` and `dequantize`."""

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import BY_NAME
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.numerics import Format, Numerics, NumericsLike, numerics_of
from tessera.graphs import scaled
from tessera.graphs.function import operator
from tessera.graphs.scaled import Scaled
from tessera.graphs.scaled_calls import restored, rounded
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import as_tracer
from tessera.ops.definitions.random import as_key


@operator("cast")
def cast(x: Array, dtype: NumericsLike, *, key: Array | None = None) -> Array:
    """Convert to another element type, to nearest even.

    Numerics that no machine computes in, such as `fp4 @ scale(block=(1, 32))`, round to what they can store, and the
    dtype stays.  The derivative is that of the identity, 0 where a number is cut to the greatest.
    key: for stochastic rounding
    """
    given = as_tracer(x)
    if isinstance(dtype, Numerics | Format) or (isinstance(dtype, str) and dtype not in BY_NAME):
        return rounded(given, numerics_of(dtype), None if key is None else as_key(key))
    return given.astype(dtype)


@operator("quantize")
def quantize(x: Array, numerics: NumericsLike, *, key: Array | None = None) -> Scaled:
    """Return an array of floats as codes and scales.

    numerics: e.g. `fp4 @ scale(block=(1, 32), dtype="e8m0")`.  Each block is divided by its scale and rounded; what is
    too large becomes the largest number.  Without a scale the numbers themselves are rounded.
    key: for stochastic rounding.  Raises OperandMismatch for a block that does not divide its axis, or a missing key.
    """
    given = as_tracer(x, trace_of(x))
    return scaled.quantize(given, numerics_of(numerics), None if key is None else as_key(key))


@operator("dequantize")
def dequantize(x: Scaled) -> Array:
    """Return the numbers that codes and scales stand for, in f32.  Raises OperandMismatch for what is no Scaled."""
    if not isinstance(x, Scaled):  # pyright: ignore[reportUnnecessaryIsInstance] - users are not checked
        raise OperandMismatch(f"{x!r} has no codes", hint="give what op.quantize returned")
    return restored(x)
