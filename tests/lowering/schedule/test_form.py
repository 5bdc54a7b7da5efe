"""Which sets of nodes are one kernel, and of which kind."""

from collections.abc import Sequence
from typing import TypeAlias

import pytest

from support.gradients import Make, graph_of
from tessera.core.base.dtypes import DType, f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term, window
from tessera.core.graph.isolated import isolated
from tessera.core.schedule.plan import ROW_LIMIT, Access
from tessera.lowering.schedule.axes import AxisSpace
from tessera.lowering.schedule.form import (
    FEWEST_CHANNELS,
    SHORT_ROW,
    Form,
    Members,
    blocked_axes,
    cascade_row,
    ends,
    form,
    in_steps,
    load_access,
    loadable,
    made_of_indices,
    product_axes,
    row_axis,
)
from tessera.performance.schedules import rows_schedule

Type: TypeAlias = tuple[DType, tuple[int, ...]]


def members(make: Make, *inputs: Type) -> Members:
    graph = graph_of(make, *inputs)
    return Members(graph.nodes, graph.inputs, graph.outputs)


def kind(make: Make, *inputs: Type) -> str | None:
    found = form(members(make, *inputs))
    return found and found.kind


def x(*shape: int) -> Type:
    return f32, shape


def outputs(b: GraphBuilder, v: Value) -> tuple[Value, Value]:
    e = b.unary("exp", v)
    return e, b.reduce(e, (1,))


KINDS: list[tuple[Make, list[Type], str | None]] = [
    (lambda b, v: b.unary("exp", b.unary("sin", v)), [x(3, 4)], "maps"),
    (lambda b, v: b.unary("exp", v), [x()], "maps"),
    (lambda b, v: b.reduce(v, (1,)), [x(3, 4)], "rows"),
    (lambda b, v: b.reduce(v, (0, 2)), [x(3, 4, 5)], "rows"),
    (outputs, [x(3, 4)], "rows"),
    (lambda b, v: b.reduce(v, (0,)), [x(ROW_LIMIT)], "rows"),
    (lambda b, v: b.reduce(v, (0,)), [x(ROW_LIMIT + 1)], "cascade"),
    (lambda b, v: b.reduce(v, (1,)), [x(3, 0)], None),
    (lambda b, v: b.reduce(b.reduce(v, (2,)), (1,)), [x(3, 4, 5)], None),
    (lambda b, v: b.reduce(b.unary("exp", b.reduce(v, (1,))), (0,)), [x(3, 4)], None),
    (lambda b, v, w: b.contract(v, w, ((0, 1), (1, 2)), (0, 2)), [x(3, 4), x(4, 5)], "product"),
    (lambda b, v, w: b.unary("exp", b.contract(v, w, ((0, 1), (1, 2)), (0, 2))), [x(3, 4), x(4, 5)], "product"),
    (lambda b, v, w: b.contract(b.unary("exp", v), w, ((0, 1), (1, 2)), (0, 2)), [x(3, 4), x(4, 5)], None),
    (lambda b, v, w: b.contract(v, w, ((0,), (1,)), (0, 1)), [x(3), x(4)], None),
    (lambda b, v, w: b.reduce(b.contract(v, w, ((0, 1), (1, 2)), (0, 2)), (1,)), [x(3, 4), x(4, 5)], "cascade"),
    (lambda b, v: b.contract(v, v, ((0, 1), (2, 1)), (0, 2)), [x(3, 4)], None),
    (lambda b, v, w: b.gather(v, w), [x(3, 4), (i64, (2,))], "elements"),
    (lambda b, v, w: b.unary("exp", b.concat((v, w), 0)), [x(3), x(4)], "elements"),
    (lambda b, v, w: b.reduce(b.concat((v, w), 0), (0,)), [x(3), x(4)], None),
    (lambda b, v: b.unary("exp", b.view(v, window((8,), (-1,), (2,), (5,)))), [x(8)], "elements"),
    (lambda b, v: b.unary("exp", b.view(v, window((8,), (1,), (1,), (5,)))), [x(8)], "maps"),
    (lambda b, v, w: b.scatter_add(w, v, 5), [x(3, 4), (i64, (3,))], "scatter"),
    (lambda b, v, w: b.unary("exp", b.scatter_add(w, v, 5)), [x(3, 4), (i64, (3,))], None),
]  # fmt: skip


@pytest.mark.parametrize(("make", "inputs", "expected"), KINDS)
def test_kinds(make: Make, inputs: Sequence[Type], expected: str | None):
    assert kind(make, *inputs) == expected


def test_the_blocked_axes_of_each_kind():
    maps = members(lambda b, v: b.unary("exp", v), x(2, 3, 4))
    rows = members(lambda b, v: b.reduce(v, (1,)), x(2, 3, 4))
    long = members(lambda b, v: b.reduce(v, (1,)), x(2, SHORT_ROW + 1, 4))
    product = members(lambda b, v, w: b.contract(v, w, ((0, 1, 2), (0, 2, 3)), (0, 1, 3)), x(2, 3, 4), x(2, 4, 5))
    found: list[tuple[int, ...]] = []
    for each in (maps, rows, long, product):
        made = form(each)
        assert made is not None
        found.append(tuple(made.space.extents[axis] for axis in blocked_axes(made, each)))
    assert found == [(3, 4), (3, 4), (SHORT_ROW + 1,), (3, 5, 4)]


def test_rows_above_the_limit_of_short_ones_are_taken_one_at_a_time():
    assert rows_schedule(SHORT_ROW)["ROWS"] == 2
    assert rows_schedule(SHORT_ROW + 1)["ROWS"] == 1
    one = members(lambda b, v: b.reduce(v, (0,)), x(8))
    found = form(one)
    assert found is not None
    assert row_axis(found, one) is None


def test_product_axes_without_rows_or_columns():
    vectors = members(lambda b, v, w: b.contract(v, w, ((0,), (0,)), ()), x(8), x(8))
    found = form(vectors)
    assert found is not None
    assert product_axes(vectors.nodes[0], found.space) == (None, None, 0)


def test_how_a_view_lies_in_its_array():
    one = members(lambda b, v: b.unary("exp", b.view(v, window((9, 8), (2, 1), (1, 2), (5, 3)))), x(9, 8))
    space = AxisSpace((5, 3), {one.nodes[0].result: (1, 0)})
    access = load_access(one.nodes[0].result, one, space)
    assert access == Access((9, 8), (Affine(2, (Term(1),)), Affine(1, (Term(0, 2),))))


@pytest.mark.parametrize(
    ("index", "size", "result"),
    [
        (Affine(0, (Term(0),)), 8, True),
        (Affine(3, (Term(0), Term(1, 8))), 64, True),
        (Affine(0, (Term(0, 2),)), 16, False),
        (Affine(7, (Term(0, -1),)), 8, False),
        (Affine(0, (Term(0, 1, 2),)), 8, False),
        (Affine(0, (Term(0, 1, 1, 4),)), 8, False),
        (Affine(0, (Term(0), Term(2))), 8, False),
        (Affine(5, (Term(1, 4),)), 64, True),
    ],
)
def test_boxes_in_memory(index: Affine, size: int, result: bool):
    """Axes 0 and 2 are blocked, axis 1 is not."""
    found = Form("maps", AxisSpace((8, 8, 8), {}))
    assert loadable(Access((size,), (index,)), (0, 2), found) == result
    if index.terms[0].axis == 0:
        assert not loadable(Access((size,), (index,), True), (0, 2), found)


def test_one_blocked_axis_twice_is_no_box():
    found = Form("maps", AxisSpace((8,), {}))
    diagonal = Access((8, 8), (Affine(0, (Term(0),)), Affine(0, (Term(0),))))
    assert not loadable(diagonal, (0,), found)
    # Its neighbor may be joined with it, which makes it one of the last two axes.
    beside = Access((8, 8, 4), (*diagonal.index, Affine(0, (Term(1),))))
    assert not loadable(beside, (1,), Form("maps", AxisSpace((8, 4), {})))
    halves = Access((2, 4), (Affine(0, (Term(0, 1, 4),)), Affine(0, (Term(0, 1, 1, 4),))))
    assert loadable(halves, (1,), Form("maps", AxisSpace((8, 4), {})))


def test_steps_of_a_product_end_where_the_array_ends():
    """What lies behind the summed axis in memory would be added otherwise, unless the axis is one step."""
    inside, at_the_end = Affine(0, (Term(0),)), Affine(24, (Term(0),))
    assert (ends(inside, 1000, 1024), ends(at_the_end, 1000, 1024)) == (False, True)
    for extent, affine, result in ((1000, inside, False), (1000, at_the_end, True), (200, inside, True)):
        found = Form("product", AxisSpace((extent,), {}), (0,))
        assert loadable(Access((1024,), (affine,)), (0,), found) == result


def test_nodes_that_compute_with_indices_alone():
    graph = graph_of(lambda b, v: b.binary("mul", b.scaled(b.iota(4), 3), b.scaled(v, 2)), (i64, (4,)))
    free: dict[Value, bool] = {}
    for node in graph.nodes:
        free[node.result] = made_of_indices(node, free)
    assert list(free.values()) == [True, True, False, False]


def attention(b: GraphBuilder, q: Value, k: Value, v: Value, *, batched: bool) -> Value:
    scores = (
        b.contract(q, k, ((0, 1, 3), (0, 2, 3)), (0, 1, 2))
        if not batched
        else b.contract(q, k, ((0, 3), (0, 2, 3)), (0, 2))
    )
    rank = len(scores.type.shape)
    top = b.reduce(scores, (rank - 1,), "max")
    kept = tuple(range(rank))
    shifted = apply("sub", Argument(0, f32), Argument(1, f32))
    weights = b.unary("exp", b.map(shifted, (scores, top), (kept, kept[:-1]), scores.type.shape))
    labels = (0, 2) if batched else (0, 1, 2)
    return b.contract(weights, v, (labels, (0, 2, 4)), (*labels[:-1], 4))


def test_rows_of_a_cascade_are_of_one_operand_only():
    several = members(lambda b, q, k, v: attention(b, q, k, v, batched=False), x(2, 5, 8), x(2, 7, 8), x(2, 7, 4))
    found = form(several)
    assert found is not None
    assert found.cascade is not None
    row = cascade_row(found.cascade, found.columns, several.nodes, found.space.axes)
    assert row is not None
    assert found.space.extents[row] == 5
    assert row in blocked_axes(found, several)
    one = members(lambda b, q, k, v: attention(b, q, k, v, batched=True), x(2, 8), x(2, 7, 8), x(2, 7, 4))
    batch = form(one)
    assert batch is not None
    assert batch.cascade is not None
    assert cascade_row(batch.cascade, batch.columns, one.nodes, batch.space.axes) is None


def test_heads_behind_rows_are_a_batch_of_a_cascade():
    """Of [row, head, column], as a transposed projection is, rows are taken several at a time, and heads one by one."""

    def make(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
        scores = b.contract(q, k, ((0, 1, 3), (2, 1, 3)), (0, 1, 2))
        top = b.map(apply("sub", Argument(0, f32), Argument(1, f32)), (scores, b.reduce(scores, (2,), "max")),
                    ((0, 1, 2), (0, 1)), scores.type.shape)  # fmt: skip
        return b.contract(b.unary("exp", top), v, ((0, 1, 2), (2, 1, 4)), (0, 1, 4))

    several = members(make, x(5, 2, 8), x(7, 2, 8), x(7, 2, 4))
    found = form(several)
    assert found is not None
    assert found.cascade is not None
    row = cascade_row(found.cascade, found.columns, several.nodes, found.space.axes)
    assert row is not None
    assert found.space.extents[row] == 5


def test_no_loop_over_two_products_where_a_mesh_cuts_the_sum():
    def chain(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
        made = attention(b, q, k, v, batched=False)
        return (
            made
            if not marked
            else b.add("contract", b.nodes[-1].operands, None, "", **isolated(b.nodes[-1].attributes))
        )

    inputs = x(2, 5, 8), x(2, 7, 8), x(2, 7, 4)
    marked = False
    assert kind(chain, *inputs) == "cascade"
    marked = True
    assert kind(chain, *inputs) is None


def test_a_loop_does_not_go_over_a_batch():
    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        return b.reduce(b.contract(v, w, ((0, 1), (0, 1)), (0,)), (0,))

    assert kind(make, x(3, 4), x(3, 4)) is None


def windowed(size: int, channels: int, stride: int = 1) -> Members:
    """Windows of 3 pixels, [place, tap, channel], with [filter, tap, channel]."""
    places = (size - 1) // stride + 1
    index = (Affine(-1, (Term(0, stride), Term(1))), Affine(0, (Term(2),)))

    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        return b.contract(b.view(v, IndexMap((places, 3, channels), index, True)), w, ((0, 1, 2), (3, 1, 2)), (0, 3))

    return members(make, x(size, channels), x(8, 3, channels))


@pytest.mark.parametrize(
    ("size", "channels", "stride", "expected"),
    [(9, 16, 1, "product"), (10, 16, 2, "product"), (9, 16, 2, None), (9, FEWEST_CHANNELS - 1, 1, None)],
)
def test_windows_are_read_in_a_product(size: int, channels: int, stride: int, expected: str | None):
    """Every second pixel is one of a pair, where there are pairs; few channels are packed with the taps first."""
    found = form(windowed(size, channels, stride))
    assert (found and found.kind) == expected


def test_steps_go_along_channels():
    one = windowed(40, 16)
    found = form(one)
    assert found is not None
    assert [found.space.extents[axis] for axis in blocked_axes(found, one)] == [40, 8, 16]


def test_steps_go_along_what_lies_last_in_both_factors():
    """[image, filter, pixel] with [image, channel, pixel]: the sum over more images than pixels goes along these."""
    one = members(lambda b, v, w: b.contract(v, w, ((0, 1, 2), (0, 3, 2)), (1, 3)), x(64, 4, 20), x(64, 5, 20))
    found = form(one)
    assert found is not None
    assert found.space.extents[blocked_axes(found, one)[-1]] == 20


@pytest.mark.parametrize(
    ("index", "steps"),
    [
        ((Affine(-1, (Term(0, 2), Term(2))), Affine(0, (Term(1),))), (2, 1)),
        ((Affine(-1, (Term(0, 3), Term(2))), Affine(0, (Term(1),))), ()),
        ((Affine(0, (Term(0, 2), Term(3))), Affine(0, (Term(1),))), ()),
        ((Affine(0, (Term(0, 2), Term(1, 4))), Affine(0, (Term(1),))), ()),
        ((Affine(0, (Term(1),)), Affine(0, (Term(0, 2),))), ()),
    ],
)
def test_in_which_steps_an_array_is_read(index: tuple[Affine, Affine], steps: tuple[int, ...]):
    """Axes 0 and 1 stay, 2 is summed, and 3 is that of the steps; an array of 16 x 16."""
    assert in_steps(Access((16, 16), index, True), (0, 1), 3).steps == steps
