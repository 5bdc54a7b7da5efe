"""Parallel plans as data: their parts add up, and their texts say what matters."""

import pytest

from tessera.core.placement.mesh import Mesh
from tessera.core.placement.topology import CollectiveCost
from tessera.core.planning.parallel_plan import (
    GPIPE,
    INTERLEAVED,
    ONE_F_ONE_B,
    ParallelPlan,
    PipelineShape,
    PlannedCollective,
    PlanSearch,
    RejectedPlan,
)

COLLECTIVES = (
    PlannedCollective("all_reduce", "activations", ("tp",), 4, CollectiveCost(0.5, 2048.0, "unmeasured: a model")),
    PlannedCollective("send", "activations", ("pp",), 2, CollectiveCost(0.25, 1024.0, "measured")),
)


def plan() -> ParallelPlan:
    mesh = Mesh.of(("pp", "dp", "tp"), range(8), (2, 1, 4))
    shape = PipelineShape(ONE_F_ONE_B, 2, 4, 1)
    return ParallelPlan(
        "a model", mesh, shape, {"weights": 1 << 30, "values": 1 << 29}, 4 << 30, 6.0, COLLECTIVES, 10.0, 0.2, 8e12
    )


def test_bubbles_and_what_is_kept():
    assert PipelineShape(ONE_F_ONE_B, 4, 12, 1).bubble == pytest.approx(3 / 15)
    assert PipelineShape(INTERLEAVED, 4, 12, 1, 3).bubble == pytest.approx(3 / 39)
    assert PipelineShape(GPIPE, 4, 12, 1).kept == 12
    assert PipelineShape(ONE_F_ONE_B, 1, 12, 1).bubble == 0


def test_parts_of_a_step_add_up():
    found = plan()
    assert found.extents == (1, 4, 2)
    assert found.parts == {"compute": 6.0, "tp transfers": 2.0, "dp transfers": 0.0, "waiting in the pipeline": 2.0}
    assert sum(found.parts.values()) == found.seconds
    assert (found.sent, found.communication, found.bytes_per_device) == (4 * 2048 + 2 * 1024, 2.5, 3 << 29)
    assert found.rate == 8e12 / 10 / 8


def test_the_text_of_a_search():
    rejected = (
        *(RejectedPlan(f"dp {n}", f"{n} slower", 11.0) for n in range(7)),
        RejectedPlan("dp 8", "no", fits=False),
    )
    assert str(PlanSearch("a model", 8, (plan(),), rejected, 12)).splitlines() == [
        "12 ways to spread a model over 8 devices",
        "best: a model on 8 devices: dp 1 x tp 4 x pp 2",
        "  1f1b, 2 stages, 4 micro-batches of 1",
        "  a step: 10 s, bubble 20.0%, 0 TFLOP/s a device",
        "  memory: 1.5 GiB of 4.0 GiB: weights 1.0 GiB, values 512.0 MiB",
        "  4 x all_reduce over tp of activations: 8.0 KiB a device, 2 s, unmeasured",
        "  2 x send over pp of activations: 2.0 KiB a device, 500 ms",
        *(f"slower: dp {n}: {n} slower" for n in range(3)),
        "slower: and 4 more",
        "impossible: dp 8: no",
    ]
