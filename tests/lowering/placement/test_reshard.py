"""Plans between any two placements: the value stays, bytes are exact, and never more than gathering everything."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.base.dtypes import bf16, f32
from tessera.core.errors.catalog import BadMesh
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement, ShardMap
from tessera.core.placement.reshard_plan import ReshardPlan
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.placement.splits import Split
from tessera.lowering.placement.moved_elements import gathered_bytes
from tessera.lowering.placement.reshard import plan_reshard
from tessera.runtime.shards.exchange import assemble, exchange, shard

AXES = ("dp", "tp", "pp")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Mesh, tuple[int, ...], Placement, Placement]:
    """A mesh, a shape and two placements."""
    axes = AXES[: draw(st.integers(1, 3))]
    extents = tuple(draw(st.integers(1, 3)) for _ in axes)
    mesh = Mesh.of(axes, range(math.prod(extents)), extents)
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=0, max_size=3)))

    def placement() -> Placement:
        order = draw(st.permutations(axes))
        splits = [Split()] * len(shape)
        cut = draw(st.integers(0, len(axes))) if shape else 0
        for axis in order[:cut]:
            number = draw(st.integers(0, len(shape) - 1))
            splits[number] = Split((*splits[number].axes, axis), draw(st.sampled_from([0, 0, 0, 1, 2, 3])))
        partial = order[cut : cut + draw(st.integers(0, len(axes) - cut))]
        return Placement(tuple(splits), tuple(partial), draw(st.sampled_from(["sum", "max"]))).normal(shape, mesh)

    return mesh, shape, placement(), placement()


@settings(max_examples=150, deadline=None)
@given(cases())
def test_between_any_two_placements(case: tuple[Mesh, tuple[int, ...], Placement, Placement]):
    mesh, shape, before, after = case
    plan = plan_reshard(f32, shape, before, after, mesh)
    whole = np.arange(1, math.prod(shape) + 1, dtype=np.float32).reshape(shape)
    done = exchange(plan, shard(whole, ShardMap.of(shape, before, mesh)))
    np.testing.assert_array_equal(assemble(done.shards, ShardMap.of(shape, after, mesh)), whole)
    assert done.received == tuple(step.received for step in plan.steps)
    assert plan.received <= gathered_bytes(before, shape, mesh, 4)
    if not after.partial:
        expected = shard(whole, ShardMap.of(shape, after, mesh))
        assert all(np.array_equal(got, want) for got, want in zip(done.shards, expected, strict=True))


def plan(mesh: Mesh, before: str, after: str) -> ReshardPlan:
    old, new = ShardedType.parse(before), ShardedType.parse(after)
    return plan_reshard(old.dtype, old.shape, old.placement, new.placement, mesh)


NVL72 = Mesh.of(("dp", "tp", "pp"), range(72), (4, 9, 2))


def test_the_collectives_that_have_a_name():
    mesh = Mesh.of(("dp", "tp"), range(8), (2, 4))
    for before, after, kinds in (
        ("f32[8, 8]", "f32[8@tp, 8]", ["slice"]),
        ("f32[8@tp, 8]", "f32[8, 8]", ["all_gather"]),
        ("f32[8@tp, 8]", "f32[8, 8@tp]", ["all_to_all"]),
        ("f32[8, 8]{sum: tp}", "f32[8, 8]", ["all_reduce"]),
        ("f32[8, 8]{sum: tp}", "f32[8, 8@tp]", ["reduce_scatter"]),
        ("f32[8, 8]", "f32[8, 8]{sum: tp}", ["mask"]),
        ("f32[8@dp, 8]", "f32[8@dp, 8]", []),
        ("f32[8]{sum: dp, tp}", "f32[8]", ["all_reduce"]),
        # An eighth is reduced, instead of everything.
        ("f32[64, 8]{sum: tp}", "f32[64@dp, 8]", ["slice", "all_reduce"]),
        ("f32[64, 8]{sum: tp}", "f32[64@dp, 8@tp]", ["reduce_scatter"]),
        ("f32[8@tp]", "f32[8@tp:cyclic]", ["all_to_all"]),
    ):
        assert [step.kind for step in plan(mesh, before, after).steps] == kinds, (before, after)


def test_bytes_are_exact():
    mesh = Mesh.of("tp", range(9))
    gathered = plan(mesh, "bf16[8192, 8192@tp]", "bf16[8192, 8192]")
    assert gathered.received == 8 * 8192 * 8192 * 2
    assert gathered.steps[0].most == 8192 * (8192 - 904) * 2  # the last device holds 904 columns
    reduced = plan(mesh, "f32[90, 10]{sum: tp}", "f32[90, 10]")
    assert reduced.received == 2 * 8 * 900 * 4
    scattered = plan(mesh, "f32[90, 10]{sum: tp}", "f32[90@tp, 10]")
    assert (scattered.received, scattered.steps[0].most) == (8 * 900 * 4, 8 * 100 * 4)
    moved = plan(mesh, "f32[9@tp, 9]", "f32[9, 9@tp]")
    assert moved.received == 9 * 8 * 4


def test_how_a_plan_is_shown():
    shown = plan(NVL72, "bf16[8192@dp, 8192]{sum: tp}", "bf16[8192@dp, 8192@tp]")
    assert str(shown).splitlines() == [
        "bf16[8192@dp, 8192]{sum: tp} -> bf16[8192@dp, 8192@tp]",
        "  reduce_scatter over tp -> bf16[8192@dp, 8192@tp], 28.5 MiB a device, 77.1 us",
        "1 step, 2.0 GiB received by 72 devices, 77.1 us estimated",
    ]
    assert "mask over tp -> f32[8]{sum: tp}, nothing is moved" in str(plan(NVL72, "f32[8]", "f32[8]{sum: tp}"))


def test_a_million_by_a_million():
    moved = plan(NVL72, "bf16[1000000@tp, 1000000@pp]", "bf16[1000000@pp, 1000000@tp]")
    assert moved.received < gathered_bytes(moved.before, moved.shape, NVL72, 2) // 10
    assert moved.steps[-1].after == ShardedType.parse("bf16[1000000@pp, 1000000@tp]").placement


def test_time_decides_among_plans():
    """Where a device is reached slowly, more steps inside of the fast domain are cheaper."""
    mesh = Mesh.of(("dp", "tp"), range(64), (8, 8))
    found = plan(mesh, "f32[4096@dp*tp, 64]", "f32[4096, 64@tp]")
    assert found.seconds <= plan(mesh, "f32[4096@dp*tp, 64]", "f32[4096, 64]").seconds


def test_axes_that_the_mesh_lacks():
    with pytest.raises(BadMesh):
        plan_reshard(bf16, (8,), Placement((Split(("ep",)),)), Placement.replicated(1), NVL72)
