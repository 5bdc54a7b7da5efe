"""Marks of sums that a mesh cuts."""

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Node, Value
from tessera.core.graph.isolated import NO_LABEL, is_isolated, isolated, label_before, last_joined

BATCHED = {"labels": ((0, 1, 2), (0, 1, 3)), "result": (2, 3)}
"""Sums over a batch, label 0, and rows, label 1."""


def product(before: int | None) -> Node:
    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        plain = b.contract(v, w, ((0, 1, 2), (0, 1, 3)), (2, 3))
        if before is None:
            return plain
        return b.add("contract", (v, w), None, "", **isolated(b.nodes[-1].attributes, before))

    return graph_of(make, (f32, (2, 3, 4)), (f32, (2, 3, 5))).nodes[-1]


def test_marked_sums():
    plain, alone, after_batch = product(None), product(NO_LABEL), product(0)
    assert [is_isolated(node) for node in (plain, alone, after_batch)] == [False, True, True]
    assert [last_joined(node) for node in (plain, alone, after_batch)] == [None, None, 0]


def test_the_label_before_a_cut_axis():
    shapes = (2, 3, 4), (2, 3, 5)
    assert label_before(BATCHED, shapes, (1, 1)) == 0
    assert label_before(BATCHED, shapes, (0, 0)) == NO_LABEL  # nothing is before it
    assert label_before(BATCHED, ((1, 3, 4), (1, 3, 5)), (1, 1)) == NO_LABEL  # one element: it is dropped
    assert label_before(BATCHED, shapes, (-1, 1)) == 0  # the first operand lacks the axis


def test_only_summed_axes_are_joined_with_a_summed_one():
    turned = {"labels": ((2, 0, 1), (3, 0, 1)), "result": (2, 3)}
    assert label_before(turned, ((4, 2, 3), (5, 2, 3)), (1, 1)) == NO_LABEL
    assert label_before(turned, ((4, 2, 3), (5, 2, 3)), (2, 2)) == 0
    assert label_before(turned, ((4, 1, 3), (5, 1, 3)), (2, 2)) == NO_LABEL
