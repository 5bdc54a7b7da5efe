"""Decisions of fusion for people, compared with the plan."""

import pytest

from support.operator_graphs import CASES, QKV, ROWS, attention, classify, line_of
from tessera.core.schedule.algebra import SECTIONS
from tessera.viz.operators.captured import captured
from tessera.viz.plans.fusion_model import FORMS, fusion_model


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_those_of_the_plan(name: str):
    function, arguments = CASES[name]
    found = captured(function, arguments, "fusion")
    model = fusion_model(found)
    assert model.group == found.selection
    for card, group in zip(model.kernels, found.plan.groups, strict=True):
        assert (card.number, card.form, card.words) == (group.ident, group.kind, FORMS[group.kind])
        assert len(card.rows) == len(group.members)
        assert bool(card.algebra) == (group.loop is not None)
        assert set(card.lines) == {line for row in card.rows for line in row.lines}
        assert card.cost.operations == sum(row.operations for row in card.rows)
    assert sum(card.cost.bytes for card in model.kernels) == model.fused.bytes
    known = {node.ident for node in found.executable.traced.nodes}
    for row in (row for card in model.kernels for row in (*card.rows, *card.algebra)):
        assert set(row.ops) <= known


def test_a_derived_kernel_says_where_its_parts_come_from():
    (kernel,) = fusion_model(captured(attention, QKV, "fusion")).kernels
    softmax, product = line_of("A = op.softmax"), line_of("return op.matmul(A, V)")
    lines = {(row.section, row.symbol): row.lines for row in kernel.algebra}
    assert lines["carried", "M0"] == lines["carried", "c0"] == (softmax,)
    assert lines["carried", "M1"] == lines["result", "result"] == (product,)
    assert list(dict.fromkeys(row.section for row in kernel.algebra)) == list(SECTIONS)
    assert next(row.text for row in kernel.algebra if row.symbol == "M1") == "sum_j V * exp(S - c0)"


def test_neighbours_say_why_they_are_two():
    model = fusion_model(captured(classify, ROWS, "fusion"))
    first, second = model.boundaries
    assert (first.producer, first.consumer, first.arrays) == (0, 1, ("logits: f32[64, 48]",))
    assert first.bytes == 64 * 48 * 4
    assert (second.rule, second.arrays) == ("reduced-axes", ("p: f32[64, 48]",))
    assert second.remedy == "reduce the same axes in both, or reduce both axes at once"
    assert second.saved == 64 * 48 * 4
    assert set(second.about) >= {"result"}
    assert line_of("op.sum(p, 0)") in second.lines


def test_trials_name_what_was_joined():
    trials = fusion_model(captured(classify, ROWS, "fusion")).trials
    assert trials[0].parts == ("g0", "g1")
    refused = [each for each in trials if each.rule and each.parts[-1] == "result"]
    assert (refused[-1].rule, refused[-1].form) == ("reduced-axes", "")
    assert all(bool(each.words) == bool(each.rule) for each in trials)
    assert any(part.endswith("(5)") for each in trials for part in each.parts)
