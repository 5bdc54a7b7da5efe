"""Distributions of whole domains: `Block(mesh_axes=("dp", "tp"))` cuts the first dimension by dp, the second by tp."""

from tessera.core.placement.shard_spec import Along


class Block(Along):
    """Each device along an axis gets one range of indices, as even as whole elements allow."""

    def __init__(self, mesh_axes: object = (), *, uneven: str = "pad") -> None:
        """See `Along`.  Raises BadShardSpec."""
        super().__init__(mesh_axes, uneven=uneven)


class Cyclic(Along):
    """Indices go around the devices along an axis, one by one."""

    def __init__(self, mesh_axes: object = (), *, uneven: str = "pad") -> None:
        """See `Along`.  Raises BadShardSpec."""
        super().__init__(mesh_axes, block=1, uneven=uneven)


class BlockCyclic(Along):
    """Blocks of indices go around the devices along an axis."""

    def __init__(self, mesh_axes: object, block: int, *, uneven: str = "pad") -> None:
        """See `Along`.  Raises BadShardSpec."""
        super().__init__(mesh_axes, block=block, uneven=uneven)


class Replicated(Along):
    """Every device has everything."""

    def __init__(self) -> None:
        """Cut nothing."""
        super().__init__()
