"""Arrays that lie on a mesh, as graphs take and return them: `dist.Tensor` is one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

from tessera.core.placement.mesh import Mesh
from tessera.core.placement.sharded_type import ShardedType

AnyShard: TypeAlias = Any  # of NumPy, or in the memory of a GPU
ARITHMETIC: Final = "tessera.ops.mesh_arithmetic"
"""The module of `OPERATORS`, by symbols: loaded when something is computed, as graphs stand above placement."""


class MeshArray(ABC):
    """An array in shards.

    type: dtype, shape and placement; mesh: the devices that hold them
    """

    type: ShardedType
    mesh: Mesh

    @abstractmethod
    def shard(self, rank: int) -> AnyShard:
        """Return the memory of a rank's shard.  Raises NotStored."""

    @abstractmethod
    def wait(self, *, writing: bool) -> None:
        """Wait for what still writes it; before it is written, also for what reads it."""

    @abstractmethod
    def made(self, kind: ShardedType, shards: Sequence[AnyShard]) -> "MeshArray":
        """Return another array on the same mesh, of a shard for each rank."""

    def __add__(self, other: object) -> "MeshArray":
        return self._computed("+", self, other)

    def __radd__(self, other: object) -> "MeshArray":
        return self._computed("+", other, self)

    def __sub__(self, other: object) -> "MeshArray":
        return self._computed("-", self, other)

    def __rsub__(self, other: object) -> "MeshArray":
        return self._computed("-", other, self)

    def __mul__(self, other: object) -> "MeshArray":
        return self._computed("*", self, other)

    def __rmul__(self, other: object) -> "MeshArray":
        return self._computed("*", other, self)

    def __truediv__(self, other: object) -> "MeshArray":
        return self._computed("/", self, other)

    def __rtruediv__(self, other: object) -> "MeshArray":
        return self._computed("/", other, self)

    def __matmul__(self, other: object) -> "MeshArray":
        return self._computed("@", self, other)

    def __rmatmul__(self, other: object) -> "MeshArray":
        return self._computed("@", other, self)

    def _computed(self, symbol: str, *operands: object) -> "MeshArray":
        """Return what a graph of one operator makes of the operands."""
        operators: Mapping[str, Callable[..., MeshArray]] = import_module(ARITHMETIC).OPERATORS
        return operators[symbol](*operands)
