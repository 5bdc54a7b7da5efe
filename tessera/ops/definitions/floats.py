"""Operands of functions that need floats, in the dtype that they are computed in."""

from tessera.core.base.dtypes import DType, f32
from tessera.graphs.shapes import working
from tessera.graphs.trace import Trace
from tessera.graphs.tracer import Tracer, as_tracer


def float_dtype(dtype: DType) -> DType:
    """Return the dtype of a function's result that has to be a float: f32 for integers."""
    return dtype if dtype.is_float else f32


def widened(x: object, trace: Trace | None = None) -> tuple[Tracer, DType]:
    """Return an operand in the dtype that it is computed in, and the dtype that the result is rounded to at the end."""
    given = as_tracer(x, trace)
    dtype = float_dtype(given.dtype)
    return given.astype(working(dtype)), dtype
