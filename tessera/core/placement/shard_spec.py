"""Read layouts as users write them: `ShardSpec(partition=("row", "col"), mesh_axes=("tp", "pp"))`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadShardSpec, UnevenShards
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement, ShardMap
from tessera.core.placement.splits import Split

_NAMES: Final = {"row": 0, "col": -1}
UNEVEN: Final = ("pad", "refuse")
_HINT: Final = 'name dimensions "row", "col" or by numbers: ShardSpec(partition=("row", 1), mesh_axes=("dp", "tp"))'


class Distribution(Protocol):
    """A layout that can be given for a tensor."""

    def placed(self, shape: Sequence[int], mesh: Mesh) -> Placement:
        """Return the placement of a shape on a mesh.  Raises BadShardSpec, BadMesh, UnevenShards."""
        ...


@dataclass(frozen=True, init=False)
class ShardSpec:
    """Dimensions of a tensor, and for each the mesh axes that cut it.

    partition: dimensions, "row" the first and "col" the last, or numbers; one that stands twice is cut by both axes
    mesh_axes: one entry a dimension of `partition`, an axis or several, the slowest first; one dimension is cut by all
    block: elements that stay together: 0 an even share, 1 a cyclic distribution; one number, or one a dimension
    uneven: what becomes of extents that the mesh does not divide: "pad", devices have room for the largest shard and
    the last ones hold less, or "refuse"
    """

    partition: tuple[str | int, ...]
    mesh_axes: tuple[tuple[str, ...], ...]
    block: tuple[int, ...]
    uneven: str

    def __init__(
        self, partition: object = (), mesh_axes: object = (), *, block: int | Sequence[int] = 0, uneven: str = "pad"
    ) -> None:
        """Check the names.  Raises BadShardSpec."""
        dimensions = _listed(partition)
        axes = tuple(_names(each) for each in _listed(mesh_axes))
        if len(dimensions) == 1 and axes:  # cut by all of them
            axes = (tuple(axis for each in axes for axis in each),)
        if len(dimensions) != len(axes):
            raise _bad(f"{len(dimensions)} dimensions are cut by {len(axes)} mesh axes", "give one axis a dimension")
        for each in dimensions:
            if each not in _NAMES and (isinstance(each, bool) or not isinstance(each, int)):
                raise _bad(f"{each!r} is no dimension", _HINT)
        blocks = (block,) * len(axes) if isinstance(block, int) else tuple(block)
        if len(blocks) != len(axes) or any(each < 0 for each in blocks):
            raise _bad(f"block={block!r} does not fit", "give a number from 0 on, or one a dimension")
        if uneven not in UNEVEN:
            raise _bad(f"uneven={uneven!r} is no choice", 'write uneven="pad" or uneven="refuse"')
        object.__setattr__(self, "partition", cast("tuple[str | int, ...]", dimensions))
        object.__setattr__(self, "mesh_axes", axes)
        object.__setattr__(self, "block", blocks)
        object.__setattr__(self, "uneven", uneven)

    def placed(self, shape: Sequence[int], mesh: Mesh) -> Placement:
        """Return the placement of a shape on a mesh.  Raises BadShardSpec, BadMesh, UnevenShards."""
        rank = len(shape)
        axes: list[tuple[str, ...]] = [()] * rank
        blocks = [0] * rank
        names_of: dict[int, tuple[int, object]] = {}
        for given, names, block in zip(self.partition, self.mesh_axes, self.block, strict=True):
            number = _NAMES[given] if isinstance(given, str) else given
            if not -rank <= number < rank:
                raise _bad(f"a tensor of shape {tuple(shape)} has no dimension {given!r}", _HINT)
            first = names_of.setdefault(number % rank, (number, given))
            if first[0] != number:  # counted from both ends: "row" and "col" of a vector
                what = f"{first[1]!r} and {given!r} are one dimension of a tensor of shape {tuple(shape)}"
                raise _bad(what, "name it once, with both axes: partition=0, mesh_axes=((first, second),)")
            axes[number % rank] += names
            blocks[number % rank] = block
        placement = Placement(tuple(Split(*each) for each in zip(axes, blocks, strict=True))).normal(shape, mesh)
        if self.uneven == "refuse":
            require_even(shape, placement, mesh)
        return placement


def require_even(shape: Sequence[int], placement: Placement, mesh: Mesh) -> None:
    """Raise UnevenShards where a mesh does not divide a dimension."""
    shards = ShardMap.of(shape, placement, mesh)
    for number, (each, split) in enumerate(zip(shards.pieces, placement.splits, strict=True)):
        if not each.even:
            whole = -(-each.extent // (each.block * each.pieces)) * each.block * each.pieces
            by = "*".join(split.axes)
            what = f"dimension {number} has {each.extent:,} elements, and {by} cuts it into {each.pieces}"
            hint = f'make it {whole:,}, or let the last shards be shorter: uneven="pad"'
            raise at_call(UnevenShards(what, hint=hint))


@dataclass(frozen=True, init=False)
class Along:
    """The dimensions of a domain in order, each cut by the mesh axes at its place; those behind stay whole.

    mesh_axes: for each dimension an axis, several, or None; block: as of ShardSpec
    """

    mesh_axes: tuple[tuple[str, ...], ...]
    block: int = 0
    uneven: str = "pad"

    def __init__(self, mesh_axes: object = (), *, block: int = 0, uneven: str = "pad") -> None:
        """Check the names.  Raises BadShardSpec."""
        axes = tuple(() if each is None else _names(each) for each in _listed(mesh_axes))
        if uneven not in UNEVEN:
            raise _bad(f"uneven={uneven!r} is no choice", 'write uneven="pad" or uneven="refuse"')
        if isinstance(cast("object", block), bool) or not isinstance(cast("object", block), int) or block < 0:
            raise _bad(f"block={block!r} is no number of elements", "give a number from 1 on")
        object.__setattr__(self, "mesh_axes", axes)
        object.__setattr__(self, "block", block)
        object.__setattr__(self, "uneven", uneven)

    def placed(self, shape: Sequence[int], mesh: Mesh) -> Placement:
        """Return the placement of a shape on a mesh.  Raises BadShardSpec, BadMesh, UnevenShards."""
        if len(self.mesh_axes) > len(shape):
            what = f"{len(self.mesh_axes)} dimensions are cut, and the domain has {len(shape)}"
            raise _bad(what, "give at most one entry a dimension; several axes of one as a tuple")
        axes = (*self.mesh_axes, *((),) * (len(shape) - len(self.mesh_axes)))
        placement = Placement(tuple(Split(each, self.block if each else 0) for each in axes)).normal(shape, mesh)
        if self.uneven == "refuse":
            require_even(shape, placement, mesh)
        return placement


def _listed(given: object) -> tuple[object, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        return (given,)
    return tuple(cast("Iterable[object]", given))


def _names(given: object) -> tuple[str, ...]:
    names = _listed(given)
    if not names or not all(isinstance(each, str) for each in names):
        raise _bad(f"{given!r} is no axis of a mesh", 'write mesh_axes=("dp", "tp"), or (("dp", "pp"), "tp")')
    return cast("tuple[str, ...]", names)


def _bad(what: str, hint: str) -> TesseraError:
    return at_call(BadShardSpec(what, hint=hint))
