"""Shards in memory: cut, put together again, and moved by plans that are not the planner's."""

import numpy as np
import pytest

from tessera.core.base.dtypes import f32
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import ShardMap
from tessera.core.placement.reshard_plan import ReshardPlan, ReshardStep
from tessera.core.placement.sharded_type import ShardedType
from tessera.runtime.shards.exchange import assemble, exchange, shard

MESH = Mesh.of(("dp", "tp"), range(6), (2, 3))


def on(text: str) -> ShardMap:
    return ShardedType.parse(text).on(MESH)


@pytest.mark.parametrize(
    "text",
    [
        "f32[7, 5]",
        "f32[7@dp, 5@tp]",
        "f32[7@tp*dp, 5]",
        "f32[7@tp:cyclic, 5@dp:cyclic(2)]",
        "f32[7, 5@tp]{sum: dp}",
        "f32[7, 5]{max: dp, tp}",
    ],
)
def test_cut_and_put_together(text: str):
    whole = np.random.default_rng(1).standard_normal((7, 5)).astype(np.float32)
    parts = shard(whole, on(text))
    assert [part.shape for part in parts] == [on(text).local_shape(rank) for rank in range(6)]
    np.testing.assert_array_equal(assemble(parts, on(text)), whole)
    parts[0][...] = 9  # copies
    assert (whole != 9).all()


def test_replicas_may_be_read_by_anyone_and_are_counted():
    before, after = on("f32[6@tp]"), on("f32[6]")
    step = ReshardStep("all_gather", ("tp",), before.placement, after.placement)
    plan = ReshardPlan(f32, (6,), MESH, before.placement, after.placement, (step,))
    done = exchange(plan, shard(np.arange(6, dtype=np.float32), before))
    assert done.received == (6 * 4 * 4,)
    assert all(part.tolist() == [0, 1, 2, 3, 4, 5] for part in done.shards)


def test_a_step_over_too_small_a_group_is_found_out():
    before, after = on("f32[6@tp]"), on("f32[6]")
    step = ReshardStep("all_gather", ("dp",), before.placement, after.placement)
    plan = ReshardPlan(f32, (6,), MESH, before.placement, after.placement, (step,))
    with pytest.raises(AssertionError, match="all_gather: rank 0 lacks elements that its group does not hold"):
        exchange(plan, shard(np.arange(6, dtype=np.float32), before))


def test_contributions_are_folded_in_the_order_of_devices():
    before, after = on("f32[1]{sum: tp}"), on("f32[1]")
    step = ReshardStep("all_reduce", ("tp",), before.placement, after.placement)
    plan = ReshardPlan(f32, (1,), MESH, before.placement, after.placement, (step,))
    parts = [np.array([value], np.float32) for value in (1e8, 1, -1e8) * 2]
    done = exchange(plan, parts)
    want = (np.float32(1e8) + np.float32(1)) + np.float32(-1e8)
    assert [part[0] for part in done.shards] == [want] * 6
