"""Values of ranks, as the public collectives take and give them: arrays of any library, a list of them by rank.

Inside, everything is a buffer of one axis in a rank's memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias, cast

import numpy as np

from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import RankMismatch
from tessera.core.placement.devices import ON_CPU, ON_GPU, Device
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.placement import Placement
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.placement.splits import Split
from tessera.dist.meshes import Mesh as PublicMesh
from tessera.dist.meshes import mesh_in_use
from tessera.lowering.placement.reshard import plan_reshard
from tessera.runtime.arrays.host import is_array
from tessera.runtime.arrays.interop import library_of
from tessera.runtime.arrays.pointers import address
from tessera.runtime.dist.collectives import Group
from tessera.runtime.dist.engine import Buffer, RankEngine
from tessera.runtime.dist.engines import engine_of
from tessera.runtime.memory.device_arrays import device_of, is_on_device
from tessera.runtime.memory.operands import Operand, as_result, empty, extents, operand, packed
from tessera.runtime.memory.owned import DeviceArray, to_device
from tessera.runtime.shards.exchange import exchange

Values: TypeAlias = Sequence[object] | MeshArray
"""A value a rank, in the order of the mesh's devices, or an array that lies on a mesh."""
_ONE: Final = "give every rank a value of one shape and type"


@dataclass(frozen=True, slots=True)
class RankValues:
    """The values of all ranks of a mesh.

    leaves: of each rank, operands of one shape and type; groups: ranks that communicate
    """

    mesh: Mesh
    leaves: tuple[tuple[Operand[object], ...], ...]
    groups: tuple[Group, ...]

    @property
    def first(self) -> Operand[object]:
        """Some leaf: all are like it."""
        return next(leaf for mine in self.leaves for leaf in mine)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of every leaf."""
        return self.first.shape

    @property
    def dtype(self) -> DType:
        """The type of every leaf."""
        return self.first.dtype


def mesh_for(x: object, mesh: Mesh | None, axis: str | Iterable[str] | None) -> Mesh:
    """Return the mesh that values lie on: the one given, their own, or the one in use.

    Without an axis and outside of `with mesh:`, it is one of the values' own GPUs, or of shards of the CPU.
    Raises BadMesh where an axis is named and there is no mesh.
    """
    if mesh is not None:
        return mesh
    if isinstance(x, MeshArray):
        return x.mesh
    if axis is not None or PublicMesh.in_use:
        return mesh_in_use(() if axis is None else (axis,) if isinstance(axis, str) else axis)
    given = cast("Sequence[object]", x)
    if given and is_array(given[0]) and is_on_device(given[0]):
        return Mesh.of("rank", [Device(ON_GPU, device_of((value,)) or 0) for value in given])
    return Mesh.of("rank", [Device(ON_CPU, number) for number in range(len(given))])


def groups_of(mesh: Mesh, axis: str | Iterable[str] | None) -> tuple[Group, ...]:
    """Return the groups of ranks along axes (None: all of the mesh), several axes as one.  Raises BadMesh."""
    engine: RankEngine = engine_of(mesh.devices)
    axes = mesh.axes if axis is None else (axis,) if isinstance(axis, str) else tuple(axis)
    return tuple(Group(engine, ranks) for ranks in mesh.along(axes))


def read_values(
    x: Values, mesh: Mesh | None, axis: str | Iterable[str] | None, *, leaves: int | None = None, alike: bool = True
) -> RankValues:
    """Read a value a rank; with `leaves`, each rank's first axis counts its leaves.

    alike: all have one shape.  Raises RankMismatch for values that do not go together, and what `operand` raises.
    """
    place = mesh_for(x, mesh, axis)
    given = _shards(x) if isinstance(x, MeshArray) else list(x)
    if len(given) != place.size():
        message = f"there are {len(given)} values for the {place.size()} ranks of the mesh"
        raise RankMismatch(message, hint="give a value a rank, in the order of the mesh's devices")
    mine = tuple(tuple(_leaves(value, rank, leaves)) for rank, value in enumerate(given))
    if not any(mine):
        raise RankMismatch("no rank has a leaf", hint="give at least one")
    values = RankValues(place, mine, groups_of(place, axis))
    _require_alike(values, alike=alike)
    return values


def _shards(x: MeshArray) -> list[object]:
    """Return what each rank holds, once nothing writes it any more."""
    x.wait(writing=False)
    return [x.shard(rank) for rank in range(x.mesh.size())]


def _leaves(value: object, rank: int, leaves: int | None) -> Iterable[Operand[object]]:
    name = f"the value of rank {rank}"
    if leaves is None:
        yield operand(value, name)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(cast("Sequence[object]", value)):
            yield operand(each, f"leaf {number} of rank {rank}")
    else:
        whole = operand(value, name)
        if not whole.shape:
            raise RankMismatch(f"{name} is a single number", hint="its first axis counts its leaves")
        for number in range(whole.shape[0]):
            yield operand(cast("Sequence[object]", whole.value)[number], f"leaf {number} of rank {rank}")


def _require_alike(values: RankValues, *, alike: bool) -> None:
    first = values.first
    for mine in values.leaves:
        for leaf in mine:
            if leaf.dtype != first.dtype:
                raise RankMismatch(f"{first.name} holds {first.dtype}, and {leaf.name} {leaf.dtype}", hint=_ONE)
            if alike and leaf.shape != first.shape:
                message = f"{first.name} is {extents(first.shape)}, and {leaf.name} {extents(leaf.shape)}"
                raise RankMismatch(message, hint=_ONE)


def reduced_axes(x: MeshArray, axis: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the mesh axes along which an array's shards are reduced: those named, those of partial sums, or all."""
    if axis is None:
        return x.type.placement.partial or x.mesh.axes
    return (axis,) if isinstance(axis, str) else tuple(axis)


def reduced_array(
    x: MeshArray, values: RankValues, axes: str | Iterable[str] | None, results: Sequence[object]
) -> MeshArray:  # fmt: skip
    """Return an array on the mesh of `x`, of shards that were reduced along axes: none of them cuts it any more.

    Raises RankMismatch where a cyclic distribution along one of them has no such array.
    """
    gone = reduced_axes(x, axes)
    shape: list[int] = []
    splits: list[Split] = []
    for extent, split in zip(values.shape, x.type.placement.splits, strict=True):
        kept = tuple(axis for axis in split.axes if axis not in gone)
        if split.block and kept != split.axes:
            raise RankMismatch(f"{x.type} is dealt in turns along {', '.join(gone)}", hint="reshard it in blocks first")
        splits.append(Split(kept, split.block))
        shape.append(extent * x.mesh.size(kept))
    placement = x.type.placement
    left = tuple(axis for axis in placement.partial if axis not in gone)
    kind = ShardedType(x.type.dtype, tuple(shape), Placement(tuple(splits), left, placement.op))
    own = {id(result): np.array(result) for result in results}  # shards may be written
    return x.made(kind, [own[id(result)] for result in results])


def resharded(x: MeshArray, after: Placement) -> MeshArray:
    """Return an array on a mesh in another placement, brought there by the cheapest collectives."""
    x.wait(writing=False)
    plan = plan_reshard(x.type.dtype, x.type.shape, x.type.placement, after, x.mesh)
    shards = exchange(plan, [x.shard(rank) for rank in range(x.mesh.size())]).shards
    own = {id(shard): np.array(shard) for shard in shards}  # shards may be written
    return x.made(plan.type_of(plan.after), [own[id(shard)] for shard in shards])


def gathered_array(x: MeshArray, axis: str | Iterable[str] | None) -> MeshArray:
    """Return an array on a mesh of which no dimension is cut along some axes (None: along any).  Raises BadMesh."""
    gone = x.mesh.axes if axis is None else (axis,) if isinstance(axis, str) else tuple(axis)
    for each in gone:
        x.mesh.number(each)
    placement = x.type.placement
    splits = tuple(_without(split, gone) for split in placement.splits)
    return resharded(x, Placement(splits, placement.partial, placement.op))


def _without(split: Split, gone: Sequence[str]) -> Split:
    kept = tuple(each for each in split.axes if each not in gone)
    return Split(kept, split.block if kept else 0)


def rank_buffer(values: RankValues, rank: int, number: int = 0, dim: int | None = None) -> Buffer:
    """Return a leaf of a rank as a buffer of one axis in that rank's memory, `dim` slowest; a copy where it has to be.

    Raises RankMismatch for arrays of a GPU where ranks are none, and where `dim` is not their first axis.
    """
    leaf, device = values.leaves[rank][number], values.mesh.devices[rank]
    if device.kind != ON_GPU:
        if leaf.on_device:
            raise RankMismatch(f"{leaf.name} lies on a GPU, and the rank is {device}", hint="make a mesh of GPUs")
        return buffer(leaf, dim)
    if not leaf.on_device:
        return to_device(buffer(leaf, dim), device.index)
    if dim and any(extent > 1 for extent in leaf.shape[:dim]):
        raise RankMismatch(f"{leaf.name} lies on a GPU in rows of axis 0, not {dim}", hint="take dim=0, or transpose")
    found = packed(leaf)
    size = found.view.size
    return DeviceArray.over(address(found.view), (size,), leaf.dtype.numpy, device.index, found.value)


def buffer(leaf: Operand[object], dim: int | None = None) -> Buffer:
    """Return the elements of an array of the host as a buffer of one axis."""
    view = leaf.view if dim is None else np.moveaxis(leaf.view, dim, 0)
    return np.ascontiguousarray(view).reshape(-1)


def as_array(found: Buffer, shape: Sequence[int], like: Operand[object], dim: int | None = None) -> object:
    """Return a buffer as an array of the library of `like`; `dim`: the axis that is slowest in it.

    Ranks that share memory share results, so NumPy's are read-only.
    """
    shape = tuple(shape)
    if isinstance(found, DeviceArray):
        return found.reshape(shape)
    if dim is None:
        array: Buffer = found.reshape(shape)
    else:
        array = np.moveaxis(found.reshape((shape[dim], *shape[:dim], *shape[dim + 1 :])), 0, dim)
    if library_of(like.value) in ("torch", "jax"):
        made = empty(like, shape, like.dtype)
        made.view[...] = array
        return as_result(made, like)
    array.flags.writeable = False
    return array


def axis_number(dim: int, shape: Sequence[int]) -> int:
    """Return an axis counted from the front.  Raises RankMismatch for one that there is not."""
    if not -len(shape) <= dim < len(shape):
        raise RankMismatch(
            f"values of {len(shape)} axes have no axis {dim}", hint=f"dim= counts axes up to {len(shape)}"
        )
    return dim % len(shape)


def elements_of(shape: Sequence[int]) -> int:
    """Return the number of elements."""
    return prod(shape)
