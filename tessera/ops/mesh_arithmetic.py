"""Python's operators on arrays of a mesh: `X @ W`, `2.0 * X`, `X > 0` as graphs of one operator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

import numpy as np

from tessera.core.arrays.array_methods import Array
from tessera.core.placement.mesh_array import MeshArray
from tessera.graphs.function import operator
from tessera.graphs.operands.updates import At
from tessera.graphs.trace import current_trace
from tessera.graphs.tracer import Tracer, as_tracer, binary, compare, matmul, unary


def _of_two(name: str, compute: Callable[[str, object, object], Tracer]) -> Callable[..., Array]:
    @operator(name)
    def apply(a: Array, b: Array) -> Array:
        """Apply an operation of two operands, element by element."""
        return compute(name, a, b)

    return apply


def _of_one(name: str) -> Callable[..., Array]:
    @operator(name)
    def apply(a: Array) -> Array:
        """Apply an operation to each element."""
        return unary(name, a)

    return apply


@operator("matmul")
def product(a: Array, b: Array) -> Array:
    """Return the matrix product of the last two axes."""
    return matmul(a, b)


def elements(x: MeshArray, index: object) -> Array:
    """Return elements of an array in NumPy's memory; while a graph is captured, a value of it."""
    return np.asarray(x)[cast("slice", index)] if current_trace() is None else as_tracer(x)[index]


@dataclass(frozen=True, slots=True)
class SliceBounds:
    """A slice as an argument of a graph, which is part of its key: Python hashes slices from 3.12 on."""

    bounds: tuple[object, object, object]

    @classmethod
    def of(cls, index: "slice[object, object, object]") -> "SliceBounds":
        """Take a slice apart."""
        return cls((index.start, index.stop, index.step))


@operator("at")
def _updated(x: Array, index: Sequence[object], kind: str, new: Array) -> Array:
    """Return x with elements at an index replaced, or combined with new ones."""
    subscript = tuple(slice(*each.bounds) if isinstance(each, SliceBounds) else each for each in index)
    return getattr(as_tracer(x).at[subscript], kind)(new)


class MeshUpdate:
    """`X.at[index]` of an array on a mesh: makes new arrays on the mesh; see `graphs.operands.updates.Update`."""

    def __init__(self, array: MeshArray, index: object) -> None:
        self._array, self._index = array, index
        entries = cast("Sequence[object]", index if isinstance(index, tuple) else (index,))
        self._subscript = tuple(
            SliceBounds.of(cast("slice[object, object, object]", each)) if isinstance(each, slice) else each
            for each in entries
        )

    def get(self) -> Array:
        """Return the elements themselves: `X[index]`."""
        return self._array[self._index]

    def set(self, new: object) -> Array:
        """Return X with `new` in this place."""
        return _updated(self._array, self._subscript, "set", new)

    def add(self, new: object) -> Array:
        """Return X with `new` added in this place."""
        return _updated(self._array, self._subscript, "add", new)

    def multiply(self, new: object) -> Array:
        """Return X multiplied by `new` in this place; not for index arrays."""
        return _updated(self._array, self._subscript, "multiply", new)

    def max(self, new: object) -> Array:
        """Return the greater of X and `new` in this place."""
        return _updated(self._array, self._subscript, "max", new)

    def min(self, new: object) -> Array:
        """Return the lesser of X and `new` in this place."""
        return _updated(self._array, self._subscript, "min", new)


@dataclass(frozen=True, slots=True)
class MeshPlaces:
    """`X.at` of an array on a mesh."""

    array: MeshArray

    def __getitem__(self, index: object) -> MeshUpdate:
        return MeshUpdate(self.array, index)


def places(x: MeshArray) -> MeshPlaces | At[Tracer]:
    """Return what `X.at[index]` is read from; while a graph is captured, that of a value of it."""
    return MeshPlaces(x) if current_trace() is None else as_tracer(x).at


ARITHMETIC: Final = ("add", "sub", "mul", "div", "floordiv", "mod", "pow", "and", "or", "xor", "shl", "shr")
COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")
OPERATORS: Final[Mapping[str, Callable[..., Array]]] = MappingProxyType(
    {name: _of_two(name, binary) for name in ARITHMETIC}
    | {name: _of_two(name, compare) for name in COMPARISONS}
    | {name: _of_one(name) for name in ("neg", "abs", "not")}
    | {"matmul": product}
)
"""Operators by the opcodes and predicates of expressions."""
