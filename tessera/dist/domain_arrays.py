"""Arrays over domains: `tessera.array.from_domain(D, dtype="bf16", distribution=dist.Block(mesh_axes=("dp", "tp")))`."""

from tessera.core.placement.mesh import Mesh
from tessera.core.placement.shard_spec import Distribution
from tessera.dist.domain import Rect
from tessera.dist.tensors import Tensor, tensor

__all__ = ["from_domain"]


def from_domain(
    domain: Rect,
    dtype: object = "f32",
    distribution: Distribution | None = None,
    mesh: Mesh | None = None,
    name: str = "",
) -> Tensor:
    """Declare a tensor over a domain, distributed over a mesh, by default the one in use.

    Raises BadShardSpec, BadMesh, UnevenShards, MeshMemory.
    """
    return tensor(domain.shape, distribution, mesh, dtype, name)
