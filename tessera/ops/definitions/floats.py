"""Operands of functions that need floats, in the dtype that they are computed in."""

from typing import Final

from tessera.core.base.dtypes import DType, f32, f64, promote
from tessera.core.graph.expr import Number
from tessera.graphs.operands.numbers import literal
from tessera.graphs.shapes import working
from tessera.graphs.trace import Trace, trace_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.runtime.arrays.host import plain

_NUMBERS: Final = (bool, int, float)


def float_dtype(dtype: DType) -> DType:
    """Return the dtype of a function's result that has to be a float: f32 for integers."""
    return dtype if dtype.is_float else f32


def widened(x: object, trace: Trace | None = None) -> tuple[Tracer, DType]:
    """Return an operand in the dtype that it is computed in, and the dtype that the result is rounded to at the end."""
    given = as_tracer(x, trace)
    dtype = float_dtype(given.dtype)
    return given.astype(working(dtype)), dtype


def widened_pair(a: object, b: object) -> tuple[Tracer, Tracer, DType]:
    """Return two operands in the dtype that they are computed in together, and the dtype of the result.

    A Python number takes the dtype of the array beside it; two of them, and integers, give f32.
    """
    trace = trace_of(a, b)
    sides = [number if isinstance(number := plain(each), _NUMBERS) else as_tracer(each, trace) for each in (a, b)]
    dtypes = [side.dtype for side in sides if isinstance(side, Tracer)]
    dtype = float_dtype(promote(*dtypes) if len(dtypes) == 2 else dtypes[0] if dtypes else f32)
    wide = working(dtype)
    x, y = (
        side.astype(wide) if isinstance(side, Tracer) else Tracer(trace, trace.builder.full(number_of(side), wide, ()))
        for side in sides
    )
    return x, y, dtype


def number_of(value: Number) -> float:
    """Return a Python number as a float.  Raises OperandMismatch for an integer that no float holds."""
    return float(literal(value, f64).value)
