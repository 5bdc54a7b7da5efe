"""A layer on a mesh, for tests of timelines, profiles and views: one all_reduce, forwards."""

import numpy as np

from tessera import op
from tessera.core.placement.shard_spec import ShardSpec
from tessera.dist.meshes import Mesh
from tessera.dist.tensors import Tensor, tensor
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer


def layer(x: Tracer, w: Tracer, v: Tracer) -> object:
    """Return what the layer makes."""
    return x + op.matmul(op.gelu(op.matmul(x, w)), v)


mlp: GraphFunction[..., object] = GraphFunction(layer, "mlp")


def arrays(
    mesh: Mesh, *, stored: bool = True, rows: int = 16, width: int = 8, hidden: int = 32
) -> tuple[Tensor, Tensor, Tensor]:
    """Return its arguments: rows cut by dp, weights by tp; random numbers, or nothing stored."""
    x = tensor((rows, width), ShardSpec(("row",), ("dp",)), mesh, name="x")
    w = tensor((width, hidden), ShardSpec(("col",), ("tp",)), mesh, name="w")
    v = tensor((hidden, width), ShardSpec(("row",), ("tp",)), mesh, name="v")
    rng = np.random.default_rng(0)
    for each in (x, w, v) if stored else ():
        each[...] = rng.standard_normal(each.shape).astype(np.float32)
    return x, w, v


def line(devices: int = 8, tp: int = 4) -> Mesh:
    """Return a mesh of simulated devices."""
    return Mesh(axes=["dp", "tp"], devices=range(devices), shape=(devices // tp, tp))
