"""Arrays that lie on a mesh, as graphs take and return them: `dist.Tensor` is one.

Arithmetic, comparisons and methods are graphs of one operator, whose results lie on the mesh too.  Python's numbers of
an array (`float(X)`, `if X:`), and NumPy's functions of it, gather it.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Self, TypeAlias, cast

import numpy as np
from numpy.typing import DTypeLike as NumpyDType
from numpy.typing import NDArray

from tessera.core.arrays.array_methods import Array, ArrayMethods, Axes, operator_of
from tessera.core.arrays.numpy_operand import UfuncCall
from tessera.core.base.dtypes import DTypeLike
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.sharded_type import ShardedType

AnyShard: TypeAlias = Any  # of NumPy, or in the memory of a GPU
ARITHMETIC: Final = "tessera.ops.mesh_arithmetic"
"""The module of `OPERATORS`, by opcodes: loaded when something is computed, as graphs stand above placement."""


class MeshArray(ArrayMethods):
    """An array in shards.

    type: dtype, shape and placement; mesh: the devices that hold them
    """

    type: ShardedType
    mesh: Mesh

    @abstractmethod
    def shard(self, rank: int) -> AnyShard:
        """Return the memory of a rank's shard.  Raises NotStored."""

    @property
    @abstractmethod
    def shards(self) -> Sequence[AnyShard]:
        """The memory of each rank's shard, in the order of ranks.  Raises NotStored."""

    @abstractmethod
    def wait(self, *, writing: bool) -> None:
        """Wait for what still writes it; before it is written, also for what reads it."""

    @abstractmethod
    def made(self, kind: ShardedType, shards: Sequence[AnyShard]) -> "MeshArray":
        """Return another array on the same mesh, of a shard for each rank."""

    @abstractmethod
    def __array__(self, dtype: NumpyDType | None = None, copy: bool | None = None) -> NDArray[Any]:  # any dtype
        """Return all of it as a NumPy array.  Raises NotStored."""

    # Its type

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the whole array."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The element type, as NumPy has it."""
        return self.type.dtype.numpy

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the elements of the whole array, each counted once; `memory()` is what devices set aside."""
        return self.size * self.itemsize

    # Graphs of one operator

    def binary(self, opcode: str, left: object, right: object) -> Self:
        """Apply an operation of two operands."""
        return self._computed(opcode, left, right)

    def compare(self, predicate: str, other: object) -> Self:
        """Compare element by element."""
        return self._computed(predicate, self, other)

    def unary(self, opcode: str) -> Self:
        """Apply an operation of one operand."""
        return self._computed(opcode, self)

    def __matmul__(self, other: object) -> Self:
        return self._computed("matmul", self, other)

    def __rmatmul__(self, other: object) -> Self:
        return self._computed("matmul", other, self)

    def _computed(self, opcode: str, *operands: object) -> Self:
        operators: Mapping[str, Callable[..., Self]] = import_module(ARITHMETIC).OPERATORS
        return operators[opcode](*operands)

    def reduced(self, reduction: str, axis: Axes, *, keepdims: bool) -> Self:
        """Return the sum, the greatest ("max"), the least ("min") or the mean along axes."""
        return operator_of(reduction)(self, axis, keepdims=keepdims)

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the same elements in row-major order in another shape; -1 stands for the extent that fits."""
        return operator_of("reshape")(self, _flat(shape))

    def transpose(self, *axes: int | Sequence[int]) -> Self:
        """Permute the axes; without arguments, reverse them."""
        return operator_of("transpose")(self, _flat(axes) or None)

    def astype(self, dtype: DTypeLike) -> Self:
        """Convert to another element type, to nearest even."""
        return operator_of("cast")(self, dtype)

    # Elements

    @property
    def at(self) -> Array:
        """Places of elements, as JAX has them: `X.at[2:4].set(0)` is X with other elements there."""
        return import_module(ARITHMETIC).places(self)

    def __getitem__(self, index: object) -> Array:
        """Read elements into a NumPy array; while a graph is captured, a view that the graph takes of the array."""
        return import_module(ARITHMETIC).elements(self, index)

    def item(self) -> bool | int | float:
        """Return the one element of the array as a number of Python.  Raises ValueError where it has several."""
        return cast("bool | int | float", np.asarray(self).item())

    def tolist(self) -> object:
        """Return the elements as numbers of Python, in lists for each axis."""
        return np.asarray(self).tolist()

    def __bool__(self) -> bool:
        return bool(np.asarray(self))

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __index__(self) -> int:
        return np.asarray(self).__index__()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self.shape else format(str(self), spec)

    # NumPy's functions

    def other_ufunc(self, call: UfuncCall) -> object:
        """Apply a universal function to what is gathered.  Raises OperandMismatch for an array on a mesh as out=."""
        if any(isinstance(out, MeshArray) for out in cast("tuple[object, ...]", call.keywords.get("out", ()))):
            message = f"np.{call.ufunc.__name__} writes into no array on a mesh"
            raise at_call(OperandMismatch(message, hint="store the result: X[...] = X + Y"))
        return getattr(call.ufunc, call.method)(*_in_numpy(call.operands), **call.keywords)

    def __array_function__(
        self, function: Callable[..., object], _: object, arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> object:
        """Apply a function to what is gathered; see NumPy's NEP 18."""
        return function(*_in_numpy(arguments), **{name: _in_numpy(value) for name, value in keywords.items()})


def _in_numpy(value: object) -> Any:  # noqa: ANN401 - what the function takes
    """Return a value with NumPy's arrays instead of those on a mesh, in lists and tuples too."""
    if isinstance(value, MeshArray):
        return np.asarray(value)
    if isinstance(value, list):
        return [_in_numpy(each) for each in cast("list[object]", value)]
    return tuple(map(_in_numpy, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else value


def _flat(numbers: Sequence[int | Sequence[int]]) -> tuple[int, ...]:
    """Return numbers that were given one by one, or as one sequence."""
    entries = numbers[0] if len(numbers) == 1 and not isinstance(numbers[0], int) else numbers
    return tuple(cast("Sequence[int]", entries))
