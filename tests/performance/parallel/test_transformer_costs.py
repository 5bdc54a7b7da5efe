"""Costs of transformers: bytes and seconds that can be counted by hand, and what each way of spreading changes."""

from dataclasses import replace

import pytest

from tessera.core.placement.mesh import Mesh
from tessera.core.planning.described_transformer import Transformer
from tessera.core.planning.parallel_plan import GPIPE, ONE_F_ONE_B, PipelineShape
from tessera.performance.parallel.transformer_costs import SpreadTransformer

MODEL = Transformer(layers=8, width=1024, heads=16, sequence=512, batch=32, vocabulary=8192)


def spread(dp: int, tp: int, pp: int, schedule: str = ONE_F_ONE_B, *, again: bool = False) -> SpreadTransformer:
    mesh = Mesh.of(("pp", "dp", "tp"), range(dp * tp * pp), (pp, dp, tp))
    return SpreadTransformer(MODEL, mesh, PipelineShape(schedule, pp, 32 // dp, 1), again, 1 << 40)


def test_memory_of_one_device():
    memory = spread(1, 1, 1).memory
    assert memory["weights"] == 2 * MODEL.parameters
    assert memory["gradients"] == 4 * MODEL.parameters
    assert memory["optimizer"] == 12 * MODEL.parameters
    assert memory["activations"] == 8 * 512 * 2 * MODEL.kept_elements


def test_every_axis_divides_the_memory_that_it_should():
    one, tp, pp, dp = spread(1, 1, 1), spread(1, 4, 1), spread(1, 1, 4), spread(4, 1, 1)
    for name in ("weights", "optimizer", "activations"):
        assert tp.memory[name] == pytest.approx(one.memory[name] / 4, rel=1e-6)
    assert dp.memory["weights"] == one.memory["weights"]
    assert dp.memory["optimizer"] == pytest.approx(one.memory["optimizer"] / 4, rel=1e-6)
    assert sum(pp.parameters(stage) for stage in range(4)) == MODEL.parameters
    assert pp.memory_of(0)["activations"] == one.memory["activations"]  # four micro-batches of a quarter of the layers
    assert spread(1, 1, 4, GPIPE).memory_of(0)["activations"] == 8 * one.memory["activations"]


def test_blocks_that_are_computed_again_keep_their_inputs_and_take_a_third_longer():
    kept, again = spread(1, 1, 1), spread(1, 1, 1, again=True)
    assert again.memory["activations"] == 8 * 512 * 2 * MODEL.width
    assert again.compute == pytest.approx(kept.compute * 4 / 3)


def test_collectives_and_their_bytes():
    found = {(each.kind, each.axes): each for each in spread(2, 4, 1).collectives}
    stream = 512 * 1024 * 2
    gather = found["all_gather", ("tp",)]
    assert gather.count == 6 * 8 * 16
    assert gather.cost.sent == stream * 3 / 4
    assert found["reduce_scatter", ("tp",)].count == 4 * 8 * 16
    weights = spread(2, 4, 1).parameters(0)
    assert found["reduce_scatter", ("dp",)].sent == pytest.approx(weights * 4 / 2)
    assert found["all_gather", ("dp",)].sent == pytest.approx(weights * 2 / 2)
    assert not spread(1, 1, 1).collectives
    sends = spread(1, 1, 4).collectives
    assert [(each.kind, each.count, each.cost.sent) for each in sends] == [("send", 64, stream)]


def test_a_step_is_no_shorter_than_its_operations_allow():
    one = spread(1, 1, 1)
    plan = one.plan()
    assert plan.operations == 3 * (8 * MODEL.block_operations(MODEL.tokens) + MODEL.head_operations(MODEL.tokens))
    assert one.seconds >= plan.operations / 660e12
    assert plan.parts["compute"] == pytest.approx(one.seconds)


def test_twice_the_batch_takes_twice_as_long():
    one = spread(1, 2, 1)
    twice = replace(one, model=replace(MODEL, batch=64), pipeline=replace(one.pipeline, micro_batches=64))
    assert twice.seconds == pytest.approx(2 * one.seconds)
