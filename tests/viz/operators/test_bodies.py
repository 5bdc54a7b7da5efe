"""Views of functions with loops and branches show what is inside of them."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from typing import Any

import numpy as np
import pytest

from tessera import graph, op, viz
from tessera.core.settings import overridden
from tessera.viz.graph.operator_graphs import operator_model, stages_of
from tessera.viz.operators.captured import captured
from tessera.viz.operators.chosen_kernel import ChosenKernel
from tessera.viz.plans.fusion_model import fusion_model

Array = Any

GIVEN = np.eye(3, dtype="f"), np.ones(3, "f"), np.ones((5, 3), "f")


def walked(w: Array, h: Array, xs: Array) -> Array:
    def step(c: Array, x: Array) -> tuple[Array, Array]:
        inner, _ = op.scan(lambda a, b: (op.sin(a) * b, None), c, op.stack([c, x], 0))
        return op.tanh(inner @ w + x), c

    last, ys = op.scan(step, h, xs)
    return op.cond(last.sum() > 0, lambda: op.exp(last), lambda: last), ys


FUNCTION = graph.module("walked")(walked)


def test_texts_have_the_bodies_inside():
    found = captured(FUNCTION, GIVEN, "explore")
    for stage in found.stages:
        assert stage.listing is not None
        text = "\n".join(line.text for line in stage.listing.lines)
        assert all(name in text for name in ("tanh(", "sin(", "exp("))
        assert {line.record for line in stage.listing.lines} - {""} == {record.id for record in stage.records}
    lines = found.stages[0].listing.lines if found.stages[0].listing is not None else ()
    (sine,) = [line for line in lines if "sin(" in line.text]
    (loop,) = [line for line in lines if " = loop(" in line.text and not line.text.startswith("      ")]
    assert len(sine.text) - len(sine.text.lstrip()) > len(loop.text) - len(loop.text.lstrip())
    assert sine.ops == loop.ops  # an operation of a body is marked with the loop that holds it


def test_dataflow_has_a_step_for_each_body():
    found = captured(FUNCTION, GIVEN, "dataflow")
    assert [body.name.count("loop") for body in found.bodies] == [1, 2, 0, 0]
    assert [len(body.nodes) for body in found.bodies] == [1, 2, 1, 1]
    model = operator_model(found)
    names = [step.name for step in model.steps]
    assert tuple(names) == stages_of(found)
    assert names[model.first] == "schedule-fuse"
    assert names[model.first + 1 :] == [body.name for body in found.bodies]
    assert operator_model(found, names[-1]).first == len(names) - 1


def test_the_kernels_of_bodies_can_be_explored():
    with overridden(target="cpu"):
        found = captured(FUNCTION, GIVEN, "explore")
        chosen = ChosenKernel(found)
        assert chosen.group in [group for body in found.bodies for group in body.plan.groups]
        assert chosen.listings
        kinds = {card.words for card in fusion_model(found).kernels}
        assert any("the host calls a routine" in form for form in kinds)


@pytest.mark.parametrize("view", ["explore", "dataflow", "fusion", "memory"])
def test_every_view_is_drawn(view: str):
    with overridden(target="cpu"):
        shown = getattr(viz, view)(FUNCTION, *GIVEN)
        assert "walked" in str(shown)
