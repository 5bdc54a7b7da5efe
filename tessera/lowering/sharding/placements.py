"""Read and write placements as graphs have them: one block a device, the last ones padded, and partial sums."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tessera.core.graph.graph import Tensor
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.placement.splits import Split

Axes = tuple[str, ...]


def placed(dims: Iterable[Axes], partial: Axes = (), op: str = "sum") -> Placement:
    """Return the placement of a value whose dimensions are cut by some axes of the mesh each."""
    return Placement(tuple(Split(axes) for axes in dims), partial, op)


def dims_of(placement: Placement) -> tuple[Axes, ...]:
    """Return the axes of the mesh that cut each dimension."""
    return tuple(split.axes for split in placement.splits)


def joined(placement: Placement) -> Placement:
    """Return the placement without partial sums."""
    return replace(placement, partial=(), op="sum")


def local_rows(extent: int, parts: int) -> int:
    """Return how many of `extent` rows the first of so many `parts` has; the last ones may have fewer, or none."""
    return -(-extent // parts)


def local_type(type_: Tensor, placement: Placement, mesh: Mesh) -> Tensor:
    """Return the type of one device's shard: that of the largest one, to which the others are padded."""
    shape = tuple(local_rows(size, mesh.size(axes)) for size, axes in zip(type_.shape, dims_of(placement), strict=True))
    return Tensor(type_.dtype, shape)


def text(type_: Tensor, placement: Placement) -> str:
    """Return a type with its placement: `bf16[8192@tp, 8192]{sum: dp}`."""
    return str(ShardedType(type_.dtype, type_.shape, placement))


def divides(shape: Sequence[int], placement: Placement, mesh: Mesh) -> bool:
    """Return whether every extent is a multiple of the parts that it is cut into."""
    return all(size % mesh.size(axes) == 0 for size, axes in zip(shape, dims_of(placement), strict=True))
