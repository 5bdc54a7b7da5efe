"""Meshes and tensors of `tessera.dist` as the mesh view's models."""

from tessera.core.placement.mesh import Mesh as PlacedMesh
from tessera.core.placement.placement import ShardMap
from tessera.dist.tensors import Tensor
from tessera.viz.mesh.model import Axis, Device, Mesh, Shard, ShardedArray


def mesh_model(mesh: PlacedMesh) -> Mesh:
    """Return a mesh as it is drawn: each device in the smallest domain that it stands in."""
    domain = mesh.domains[0]
    devices = tuple(
        Device(rank, mesh.coordinates(rank), f"{domain.name} {mesh.domain_of(rank)}") for rank in range(mesh.size())
    )
    axes = tuple(Axis(*each) for each in zip(mesh.axes, mesh.shape, strict=True))
    *_, largest = mesh.domains
    name = largest.name if len(mesh.domains) > 1 else "mesh"
    return Mesh(f"simulated {name}" if mesh.simulated else name, axes, devices, largest.link)


def array_model(tensor: Tensor) -> ShardedArray | None:
    """Return a tensor as it is drawn, in blocks; None where a shard is no block: cyclic distributions."""
    shards = tensor.map
    if not all(each.contiguous for each in shards.pieces):
        return None
    blocks = tuple(_block(shards, rank) for rank in range(tensor.mesh.size()))
    spec = tuple(split.axes for split in tensor.placement.splits)
    kind = tensor.type.dtype
    return ShardedArray(
        tensor.name or "array", tensor.shape, kind.name, kind.bytes, spec, mesh_model(tensor.mesh), blocks,
        shards.replicas,
    )  # fmt: skip


def _block(shards: ShardMap, rank: int) -> Shard:
    ranges = [each for each in shards.indices(rank) if isinstance(each, slice)]
    starts = tuple(int(each.start) for each in ranges)
    return Shard(rank, starts, tuple(int(each.stop) for each in ranges))
