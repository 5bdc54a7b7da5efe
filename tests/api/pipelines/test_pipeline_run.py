"""Runs of a pipeline: the order of the work, and what is kept of it meanwhile."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false

import numpy as np
import pytest

from support.operators import Array
from tessera import dist
from tessera.api.pipelines.pipeline_run import PipelineRun
from tessera.api.pipelines.stage import Stage
from tessera.core.planning.parallel_plan import FORWARD
from tessera.core.settings import overridden


def scale(p: Array, x: Array) -> Array:
    return p * x


def loss(y: Array, target: Array) -> Array:
    return (y * target).sum()


def run_of(stages: int, micro_batches: int) -> PipelineRun:
    made = [Stage(n, scale, dist.Mesh("tp", [n]), 1 / micro_batches) for n in range(stages)]
    return PipelineRun(made, None, micro_batches, [np.float32([n + 2]) for n in range(stages)])


def test_the_order_of_each_schedule():
    def text(schedule: str) -> str:
        return " ".join(f"{piece.way}{piece.micro_batch}@{number}" for number, piece in run_of(2, 3).order(schedule))

    assert text(FORWARD) == "F0@0 F0@1 F1@0 F1@1 F2@0 F2@1"
    assert text("gpipe") == "F0@0 F0@1 F1@0 F1@1 F2@0 F2@1 B0@1 B0@0 B1@1 B1@0 B2@1 B2@0"
    assert text("1f1b") == "F0@0 F0@1 F1@0 B0@1 B0@0 F1@1 F2@0 B1@1 B1@0 F2@1 B2@1 B2@0"


@pytest.mark.parametrize(("schedule", "most"), [("gpipe", 6), ("1f1b", 3)])
def test_what_a_stage_keeps(schedule: str, most: int, monkeypatch: pytest.MonkeyPatch):
    """1F1B keeps as many micro-batches at a time as there are stages, GPipe all of them."""
    run, kept = run_of(3, 6), [0]
    before = run._go_backward  # pyright: ignore[reportPrivateUsage] - where the first stage lets an input go

    def watched(stage: Stage, batch: int, sums: Array) -> Array:
        if stage.number == 0:
            computed = {each for number, each in run.under_way.inputs if number} | {
                each for number, each in run.under_way.cotangents if number == 0
            }
            kept.append(len(computed))
        return before(stage, batch, sums)

    monkeypatch.setattr(run, "_go_backward", watched)
    x = np.arange(1, 7, dtype=np.float32)[:, None]
    with overridden(target="interpret"):
        total, gradients = run.forward_and_backward(x, np.ones((6, 1), np.float32), loss, schedule)
    assert max(kept) == most
    assert float(total) == 24 * 21 / 6
    assert [float(np.asarray(each)[0]) for each in gradients] == [12 * 3.5, 8 * 3.5, 6 * 3.5]
    assert not run.under_way.inputs
    assert not run.under_way.cotangents


def test_declared_micro_batches():
    run = run_of(2, 2)
    x = run.declared({"a": np.zeros((6, 4), np.float16)}, run.stages[1], "x")["a"]
    assert (str(x.type), x.mesh, x.stored, run.rows) == ("f16[3, 4]", run.stages[1].mesh, False, 3)
