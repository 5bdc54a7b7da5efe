"""Plans of collectives as data: totals, and how they are printed."""

from tessera.core.base.dtypes import f32
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.reshard_plan import STEPS, ReshardPlan, ReshardStep
from tessera.core.placement.sharded_type import ShardedType


def test_totals_and_text():
    first, second, third = (
        ShardedType.parse(text).placement for text in ("f32[4@a]{sum: b}", "f32[4]{sum: b}", "f32[4]")
    )
    steps = (
        ReshardStep("all_gather", ("a",), first, second, 4000, 2048, 0.25),
        ReshardStep("all_reduce", ("b",), second, third, 96, 24, 1e-3),
    )
    plan = ReshardPlan(f32, (4,), Mesh.of(("a", "b"), range(4), (2, 2)), first, third, steps)
    assert (plan.received, plan.seconds) == (4096, 0.251)
    assert str(plan).splitlines() == [
        "f32[4@a]{sum: b} -> f32[4]",
        "  all_gather over a -> f32[4]{sum: b}, 2.0 KiB a device, 250.0 ms",
        "  all_reduce over b -> f32[4], 24 bytes a device, 1.0 ms",
        "2 steps, 4.0 KiB received by 4 devices, 251.0 ms estimated",
    ]
    assert {step.kind for step in steps} <= set(STEPS)


def test_nothing_to_do():
    same = ShardedType.parse("f32[4@a]").placement
    plan = ReshardPlan(f32, (4,), Mesh.of("a", range(2)), same, same, ())
    assert str(plan).splitlines()[1] == "0 steps, 0 bytes received by 2 devices, 0.0 us estimated"
