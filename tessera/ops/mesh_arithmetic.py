"""Arithmetic on arrays of a mesh: `X @ W`, `2.0 * X` as graphs of one operator."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

from tessera.core.placement.mesh_array import MeshArray
from tessera.graphs.function import operator
from tessera.graphs.tracer import Tracer, as_tracer


def _value(operand: Tracer) -> Tracer:
    """Return what stands for an array in the graph: one that a function closes over is no argument of it."""
    return as_tracer(operand) if isinstance(cast("object", operand), MeshArray) else operand


@operator("add")
def add(a: Tracer, b: Tracer) -> Tracer:
    """Return a + b, element by element."""
    return _value(a) + _value(b)


@operator("sub")
def subtract(a: Tracer, b: Tracer) -> Tracer:
    """Return a - b, element by element."""
    return _value(a) - _value(b)


@operator("mul")
def multiply(a: Tracer, b: Tracer) -> Tracer:
    """Return a * b, element by element."""
    return _value(a) * _value(b)


@operator("div")
def divide(a: Tracer, b: Tracer) -> Tracer:
    """Return a / b, element by element."""
    return _value(a) / _value(b)


@operator("matmul")
def product(a: Tracer, b: Tracer) -> Tracer:
    """Return the matrix product of a and b."""
    return _value(a) @ _value(b)


OPERATORS: Final[Mapping[str, Callable[..., MeshArray]]] = MappingProxyType(
    cast(
        "Mapping[str, Callable[..., MeshArray]]",
        {"+": add, "-": subtract, "*": multiply, "/": divide, "@": product},
    )
)
