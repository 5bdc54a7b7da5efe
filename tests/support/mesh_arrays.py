"""Arrays on meshes in tests: shards in a list."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tessera.core.base.dtypes import from_numpy
from tessera.core.graph.graph import Tensor
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.placement import Placement
from tessera.core.placement.sharded_type import ShardedType
from tessera.lowering.sharding.placements import dims_of, placed
from tessera.runtime.interpret.mesh import part_of, whole_of


class Sharded(MeshArray):
    """A list of shards."""

    def __init__(self, kind: ShardedType, mesh: Mesh, shards: Sequence[NDArray[Any]]) -> None:
        self.type, self.mesh, self._shards = kind, mesh, list(shards)

    @classmethod
    def of(cls, array: NDArray[Any], mesh: Mesh, *dims: str) -> "Sharded":
        placement = placed(tuple(tuple(each.split()) for each in dims))
        dtype = from_numpy(array.dtype)
        assert dtype is not None
        parts = [part_of(array, dims_of(placement), mesh, rank) for rank in range(mesh.size())]
        return cls(ShardedType(dtype, array.shape, placement), mesh, parts)

    @property
    def shards(self) -> list[NDArray[Any]]:
        return self._shards

    def shard(self, rank: int) -> NDArray[Any]:
        return self.shards[rank]

    def wait(self, *, writing: bool) -> None:
        pass

    def made(self, kind: ShardedType, shards: Sequence[NDArray[Any]]) -> "Sharded":
        return Sharded(kind, self.mesh, shards)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.whole, dtype, copy=copy)

    @property
    def placement(self) -> Placement:
        return self.type.placement

    @property
    def whole(self) -> NDArray[Any]:
        return whole_of(self.shards, Tensor(self.type.dtype, self.type.shape), dims_of(self.placement), self.mesh)
