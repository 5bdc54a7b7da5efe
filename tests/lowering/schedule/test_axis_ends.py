"""What is absent behind the end of an axis, and what is a number there."""

import math

import pytest

from support.cascades import E, exp, maximum, where
from support.gradients import graph_of
from tessera.core.base.dtypes import boolean, f32, f64, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import Affine, Term, window
from tessera.lowering.schedule.axis_ends import ends, ends_outside, read_along

LOADED, FIXED, SEEN, NEAR = E(Argument(0, f64)), E(Argument(1, f64)), E(Argument(2, boolean)), E(Argument(3, boolean))
"""Elements and a mask that are loaded, a number of the row, and a mask of indices."""


@pytest.mark.parametrize(
    ("made", "neutral", "absent"),
    [
        (LOADED, -math.inf, True), (FIXED, -math.inf, False), (LOADED * FIXED, 0.0, True), (exp(FIXED), 0.0, False),
        (where(NEAR, LOADED, -math.inf), -math.inf, True), (where(NEAR, LOADED, -math.inf), 0.0, False),
        (where(NEAR, LOADED, -1e4), -math.inf, False), (where(SEEN, FIXED, -1e4), -math.inf, True),
        (where(NEAR, LOADED, -1e4) + FIXED, -math.inf, False), (where(NEAR, LOADED, LOADED * 2.0), -math.inf, True),
        (where(NEAR, where(NEAR, LOADED, 0.0), 0.0), 0.0, True), (maximum(LOADED, 0.0), -math.inf, True),
        (where(NEAR, LOADED, -math.inf) - FIXED, -math.inf, False),
    ],
)  # fmt: skip
def test_ends(made: E, neutral: float, absent: bool):
    assert ends(made.expr, {0, 2}, neutral) is absent


def test_what_is_read_along_an_axis():
    def make(b: GraphBuilder, x: Value, y: Value) -> tuple[Value, ...]:
        part = b.view(y, window((8,), (2,), (1,), (5,)))
        return b.binary("mul", x, part), b.elementwise(b_index, [b.iota(5)])

    b_index = Argument(0, i64)
    graph = graph_of(make, (f32, (3, 1)), (f32, (8,)))
    nodes = {node.op: node for node in graph.nodes}
    axes = {value: tuple(range(2 - len(value.type.shape), 2)) for node in graph.nodes for value in node.results}
    axes[graph.inputs[0]] = (0,)
    found = read_along(graph.nodes, 1, axes)
    assert nodes["view"].result in found
    assert graph.outputs[0] in found
    assert nodes["iota"].result not in found
    assert graph.outputs[1] not in found


@pytest.mark.parametrize(
    ("affine", "outside"),
    [
        (Affine(0, (Term(0),)), False), (Affine(3, (Term(0),)), True), (Affine(4, (Term(0),)), True),
        (Affine(0, (Term(0, 2),)), True), (Affine(0, (Term(0, 1, 2),)), False), (Affine(4, (Term(0, -1),)), True),
        (Affine(7, (Term(0, -1),)), False), (Affine(0, (Term(0), Term(1))), False), (Affine(3, (Term(0), Term(1))), True),
        (Affine(4, (Term(0), Term(1, -1))), False), (Affine(2, ()), False), (Affine(0, (Term(0, 1, 1, 4),)), False),
    ],
)  # fmt: skip
def test_parts_of_an_array_end_with_it_or_do_not(affine: Affine, outside: bool):
    """Whether elements 5, 6, ... of the part are none of the array's 8."""
    assert ends_outside(affine, 8, (5, 3), 0) is outside
