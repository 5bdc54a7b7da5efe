"""Axes of a mesh for factors: what follows for operands and results."""

# Builders are handed to lambdas in tables, which have no place for their types.
# pyright: reportUnknownMemberType=false

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.lowering.sharding.assign import assignments
from tessera.lowering.sharding.factors import factors_of
from tessera.lowering.sharding.placements import placed

MESH = Mesh.of(("dp", "tp"), range(4), (2, 2))


def found(make: object, shape: tuple[int, ...], *placements: Placement) -> list[tuple[object, ...]]:
    node = graph_of(make, *((f32, shape) for _ in placements)).nodes[-1]  # pyright: ignore[reportArgumentType]
    factors = factors_of(node)
    given = list(zip(factors.operands, placements, strict=True))
    return [(each.operands, each.results, each.parts) for each in assignments(factors, given, MESH)]


def product(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.contract(x, y, ((0, 1), (1, 2)), (0, 2))


def test_partial_sums_and_all_that_may_stay_whole():
    rows, columns, whole = placed([("dp",), ()]), placed([("tp",), ()]), placed([(), ()])
    made = found(product, (4, 4), rows, columns)
    assert [parts for _, _, parts in made] == [("dp", "tp"), ("dp",), ("tp",), ()]
    assert made[0][:2] == ((placed([("dp",), ("tp",)]), columns), (placed([("dp",), ()], ("tp",)),))
    assert made[3][:2] == ((whole, whole), (whole,))


def test_an_axis_that_two_operands_use_otherwise_has_a_choice_each():
    made = found(product, (4, 4), placed([("dp",), ()]), placed([(), ("dp",)]))
    assert [results for _, results, _ in made] == [
        (placed([("dp",), ()]),), (placed([(), ("dp",)]),), (placed([(), ()]),)
    ]  # fmt: skip


def test_inner_parts_of_a_joined_axis_are_cut_behind_the_outer_ones():
    inner = found(lambda b, x: b.reshape(x, (8,)), (2, 4), placed([(), ("tp",)]))
    assert [results for _, results, _ in inner] == [(placed([()]),)], (
        "a part of the inner axis is no block of the whole"
    )
    both = found(lambda b, x: b.reshape(x, (8,)), (2, 4), placed([("dp",), ("tp",)]))
    assert both[0][1] == (placed([("dp", "tp")]),)


def test_extents_that_do_not_divide_are_cut_where_blocks_stay_blocks():
    rows = placed([("dp",), ()])
    assert [parts for *_, parts in found(lambda b, x: b.unary("neg", x), (3, 4), rows)] == [("dp",), ()]
    assert [parts for *_, parts in found(lambda b, x: b.reshape(x, (12,)), (3, 4), rows)] == [()], "6 rows, not 8"
    assert [parts for *_, parts in found(lambda b, x: b.reshape(x, (3,)), (3, 1), rows)] == [("dp",), ()]
    both = found(lambda b, x: b.unary("neg", x), (3, 4), placed([("dp", "tp"), ()]))
    assert both[0][2] == ("dp", "tp")


def test_rows_that_one_operand_sums_alone_are_cut_evenly():
    """What is behind their end would be multiplied with what the other one has, infinities too."""
    alone = placed([("dp",), ()])

    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.contract(x, y, ((0, 1), (2, 1)), (2,))

    assert [parts for *_, parts in found(make, (3, 4), alone, placed([(), ()]))] == [()]
    assert [parts for *_, parts in found(make, (4, 4), alone, placed([(), ()]))] == [("dp",), ()]
