"""Along what each primitive may be cut."""

# Builders are handed to lambdas in tables, which have no place for their types.
# pyright: reportUnknownMemberType=false

import pytest

from support.gradients import Make, graph_of
from tessera.core.base.dtypes import DType, f32, i64
from tessera.core.graph.index_maps import window
from tessera.lowering.sharding.factors import FREE, OWNED, WHOLE, NodeFactors, factors_of


def factors(make: object, *types: tuple[DType, tuple[int, ...]]) -> NodeFactors:
    return factors_of(graph_of(make, *types).nodes[-1])  # pyright: ignore[reportArgumentType] - a builder


def roles(found: NodeFactors) -> list[tuple[int, str]]:
    return [(each.extent, each.role) for each in found.factors]


def test_a_contraction():
    found = factors(lambda b, x, y: b.contract(x, y, ((0, 1), (2, 1)), (2, 0)), (f32, (4, 6)), (f32, (8, 6)))
    assert roles(found) == [(4, FREE), (6, "sum"), (8, FREE)]
    assert (found.operands, found.results) == ((((0,), (1,)), ((2,), (1,))), (((2,), (0,)),))
    assert found.shape(found.results[0], {2: 2}) == (2, 4)


def test_heads_of_a_reshape_are_the_outer_part_of_an_axis():
    turned = factors(lambda b, x: b.transpose(x, (1, 0, 2)), (f32, (5, 4, 8)))
    assert (roles(turned), turned.operands) == ([(4, FREE), (5, FREE), (8, FREE)], (((1,), (0,), (2,)),))
    found = factors(lambda b, x: b.reshape(x, (5, 4, 8)), (f32, (5, 32)))
    assert found.operands == (((0,), (1, 2)),)
    joined = factors(lambda b, x: b.reshape(x, (5, 32)), (f32, (5, 4, 8)))
    assert (joined.operands, joined.results) == ((((0,), (2,), (1,)),), (((0,), (2, 1)),))


def test_reductions_and_repetitions():
    found = factors(lambda b, x: b.reduce(x, (0, 2), "max"), (f32, (2, 3, 4)))
    assert roles(found) == [(2, "max"), (3, FREE), (4, "max")]
    found = factors(lambda b, x: b.broadcast(x, (1,), (7, 4)), (f32, (4,)))
    assert (roles(found), found.operands) == ([(7, FREE), (4, FREE)], (((1,),),))


@pytest.mark.parametrize(
    "make",
    [
        lambda b, x: b.view(x, window((8, 4), (2, 0), (1, 1), (3, 4))),
        lambda b, x: b.view(x, window((8, 4), (-1, 0), (1, 1), (8, 4))),
        lambda b, x: b.view(x, window((8, 4), (0, 0), (2, 1), (4, 4))),
    ],
)
def test_windows_need_their_axis_whole(make: Make):
    found = factors(make, (f32, (8, 4)))
    assert [found.factors[dim[0]].role for dim in found.operands[0]] == [WHOLE, FREE]
    assert [found.factors[dim[0]].role for dim in found.results[0]] == [WHOLE, FREE]


def test_gathers_joins_and_sums_by_index():
    found = factors(lambda b, x, i: b.gather(x, i), (f32, (9, 4)), (i64, (5,)))
    assert roles(found) == [(9, "choose"), (4, FREE), (5, FREE)]
    found = factors(lambda b, x: b.concat([x, x], 0), (f32, (3, 4)))
    assert [found.factors[dim[0]].role for dim in found.results[0]] == [WHOLE, FREE]
    found = factors(lambda b, x, i: b.scatter_add(i, x, 7), (f32, (5, 4)), (i64, (5,)))
    assert roles(found) == [(5, "sum"), (4, FREE), (7, OWNED)]


def test_what_is_empty_is_not_cut():
    assert roles(factors(lambda b, x: b.reshape(x, (0, 3)), (f32, (3, 0)))) == [
        (3, WHOLE),
        (0, WHOLE),
        (0, WHOLE),
        (3, WHOLE),
    ]
