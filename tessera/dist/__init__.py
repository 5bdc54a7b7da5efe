"""Meshes and what lies on them: tensors in shards, distributions, plans.

It may import `core`, `lowering`, `runtime` and `performance`.  The functions and classes here are the public ones.
"""

from tessera.core.placement.memory import MemoryPlan as MemoryPlan
from tessera.core.placement.reshard_plan import ReshardPlan as ReshardPlan
from tessera.core.placement.shard_spec import ShardSpec as ShardSpec
from tessera.core.placement.sharded_type import ShardedType as ShardedType
from tessera.core.planning.described_transformer import Transformer as Transformer
from tessera.core.planning.device_timeline import DeviceTimeline as DeviceTimeline
from tessera.core.planning.parallel_plan import ParallelPlan as ParallelPlan
from tessera.core.planning.parallel_plan import PlanSearch as PlanSearch
from tessera.dist.distributions import Block as Block
from tessera.dist.distributions import BlockCyclic as BlockCyclic
from tessera.dist.distributions import Cyclic as Cyclic
from tessera.dist.distributions import Replicated as Replicated
from tessera.dist.meshes import Mesh as Mesh
from tessera.dist.meshes import mesh as mesh
from tessera.dist.planning import plan as plan
from tessera.dist.tensors import Parts as Parts
from tessera.dist.tensors import Tensor as Tensor
from tessera.dist.tensors import array as array
from tessera.dist.tensors import memory as memory
from tessera.dist.tensors import reshard as reshard
from tessera.dist.tensors import tensor as tensor

__all__ = [
    "Block", "BlockCyclic", "Cyclic", "DeviceTimeline", "MemoryPlan", "Mesh", "ParallelPlan", "Parts", "PlanSearch",
    "Replicated", "ReshardPlan", "ShardSpec", "ShardedType", "Tensor", "Transformer", "array", "memory", "mesh", "plan",
    "reshard", "tensor",
]  # fmt: skip
