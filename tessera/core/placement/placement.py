"""Place the elements of a value on a mesh: each device holds a shard, a copy, or a partial sum."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadShardSpec
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.splits import Pieces, Split, even_share

REDUCTIONS: Final = ("sum", "max", "min")
Index = tuple[slice | NDArray[np.int64], ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """How a value lies on a mesh.

    splits: one a dimension
    partial: mesh axes along which each device holds a contribution of its own; the value is the reduction `op` of them
    """

    splits: tuple[Split, ...]
    partial: tuple[str, ...] = ()
    op: str = "sum"

    @classmethod
    def replicated(cls, rank: int) -> "Placement":
        """Return the placement of a value of some rank that every device holds as a whole."""
        return cls((Split(),) * rank)

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that cut a dimension."""
        return tuple(axis for split in self.splits for axis in split.axes)

    def normal(self, shape: Sequence[int], mesh: Mesh) -> "Placement":
        """Return the same placement in the one way that it is written: an even share is block 0.

        Raises BadShardSpec for another number of dimensions, an axis that cuts twice or holds partial sums besides,
        and BadMesh for axes that the mesh does not have.
        """
        if len(self.splits) != len(shape):
            what = f"{len(self.splits)} dimensions are placed, and the shape {tuple(shape)} has {len(shape)}"
            raise at_call(BadShardSpec(what, hint="say for each dimension what cuts it"))
        used = (*self.axes, *self.partial)
        for axis in used:
            mesh.number(axis)
            if used.count(axis) > 1:
                hint = "each mesh axis cuts one dimension, or holds partial sums"
                raise at_call(BadShardSpec(f"mesh axis {axis!r} is used twice", hint=hint))
        order = tuple(axis for axis in mesh.axes if axis in self.partial)
        splits = (
            _normal(split, extent, mesh.size(split.axes)) for split, extent in zip(self.splits, shape, strict=True)
        )
        return Placement(tuple(splits), order, self.op if order else "sum")


def _normal(split: Split, extent: int, pieces: int) -> Split:
    even = not split.axes or split.block == even_share(extent, pieces)
    return Split(split.axes) if even else split


@dataclass(frozen=True)
class ShardMap:
    """A placement of a shape on a mesh: between indices of the whole, and devices with indices of their shards."""

    shape: tuple[int, ...]
    placement: Placement
    mesh: Mesh

    @staticmethod
    def of(shape: Iterable[int], placement: Placement, mesh: Mesh) -> "ShardMap":
        """Return the map of a placement, in its normal form, one for equal ones.  Raises BadShardSpec, BadMesh."""
        return _map_of(tuple(shape), placement, mesh)

    @cached_property
    def pieces(self) -> tuple[Pieces, ...]:
        """The pieces of each dimension."""
        return tuple(
            Pieces.of(extent, self.mesh.size(split.axes), split.block)
            for extent, split in zip(self.shape, self.placement.splits, strict=True)
        )

    @property
    def even(self) -> bool:
        """True where every device holds as many elements as every other."""
        return all(each.even for each in self.pieces)

    @property
    def replicas(self) -> int:
        """How many devices hold each element, or a contribution to it."""
        return self.mesh.size() // math.prod(each.pieces for each in self.pieces)

    @property
    def padded_shape(self) -> tuple[int, ...]:
        """The shape that each device has room for: that of the largest shard."""
        return tuple(each.padded for each in self.pieces)

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """Pieces of each dimension, by the rank that holds them."""
        position, splits = self.mesh.position, self.placement.splits
        return tuple(tuple(position(rank, split.axes) for split in splits) for rank in range(self.mesh.size()))

    def place(self, rank: int) -> tuple[int, ...]:
        """Return which piece of each dimension a rank holds."""
        return self.places[rank]

    def local_shape(self, rank: int) -> tuple[int, ...]:
        """Return the shape of a rank's shard, without what it is padded by."""
        return tuple(each.count(piece) for each, piece in zip(self.pieces, self.place(rank), strict=True))

    def indices(self, rank: int) -> Index:
        """Return the indices of the whole that a rank holds, for each dimension."""
        return tuple(each.indices(piece) for each, piece in zip(self.pieces, self.place(rank), strict=True))

    def ranks_of(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the ranks that hold an element, or a contribution to it, rising."""
        owners = tuple(each.owner(at) for each, at in zip(self.pieces, index, strict=True))
        return tuple(rank for rank in range(self.mesh.size()) if self.place(rank) == owners)

    def local_index(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the place of an element in the shards that hold it."""
        return tuple(each.local(at) for each, at in zip(self.pieces, index, strict=True))

    def global_index(self, rank: int, local: Sequence[int]) -> tuple[int, ...]:
        """Return the element of the whole at a place of a rank's shard."""
        parts = zip(self.pieces, self.place(rank), local, strict=True)
        return tuple(each.index(piece, at) for each, piece, at in parts)

    def shards(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Give each shard once: its pieces, and the ranks that hold it."""
        by_place: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.mesh.size()):
            by_place.setdefault(self.place(rank), []).append(rank)
        for place in itertools.product(*(range(each.pieces) for each in self.pieces)):
            yield place, tuple(by_place[place])


@lru_cache(maxsize=512)
def _map_of(extents: tuple[int, ...], placement: Placement, mesh: Mesh) -> ShardMap:
    return ShardMap(extents, placement.normal(extents, mesh), mesh)
