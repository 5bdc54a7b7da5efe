"""What exists of tiles, symbolically."""

from dataclasses import replace
from unittest.mock import sentinel

from tessera.core.base.ordered_set import OrderedSet
from tessera.lowering.analysis.affine_forms import AffineForm, affine_form
from tessera.lowering.analysis.valid_elements import (
    MASK,
    WHOLE,
    Flags,
    Guard,
    Limit,
    ValidElements,
    broadcast,
    chosen,
    everything,
    keeps,
    made,
    merged,
    multiplied,
    reduced,
    reshaped,
    transposed,
)


def limit(number: int, *, upper: bool = True, fixed: bool = False, symbol: str = "n") -> Limit:
    """Indices below (not `upper`: from on) the extent of a symbol and a number."""
    bound = affine_form(symbol) - AffineForm(frozenset(), -number)
    return Limit(bound, upper, fixed, None, None)


ROWS, COLUMNS, AT_ALL = (0, limit(0)), (1, limit(0, symbol="m")), (WHOLE, limit(0, fixed=True, symbol="k"))
TILE = ValidElements((8, 16), OrderedSet({ROWS, COLUMNS, AT_ALL}), OrderedSet({ROWS}))


def test_the_tighter_of_two_limits_stays():
    assert keeps((0, limit(-3)), (0, limit(0)))
    assert not keeps((0, limit(0)), (0, limit(-3)))
    assert not keeps((0, limit(-3)), (1, limit(0)))
    assert not keeps((0, limit(-3)), (0, limit(0, symbol="m")))
    assert keeps((0, limit(3, upper=False)), (0, limit(0, upper=False)))
    assert made((8,), [(0, limit(0)), (0, limit(-3)), (0, limit(0, symbol="m"))]).items == {
        (0, limit(-3)), (0, limit(0, symbol="m"))
    }  # fmt: skip


def test_places_move_with_axes():
    assert transposed(TILE, [1, 0]).items == {(1, ROWS[1]), (0, COLUMNS[1]), AT_ALL}
    assert transposed(TILE, [1, 0]).zeros == {(1, ROWS[1])}
    assert reshaped(TILE, (8, 1, 16)).items == {ROWS, (2, COLUMNS[1]), AT_ALL}
    assert reduced(TILE, 1).items == {ROWS, AT_ALL}
    assert reduced(TILE, 0).items == {(0, COLUMNS[1]), AT_ALL}
    assert multiplied(TILE, TILE).items == {ROWS, COLUMNS, AT_ALL}
    single = ValidElements((1, 16), OrderedSet({(0, limit(0, fixed=True)), COLUMNS}))
    assert broadcast(single, (8, 16)).items == single.items
    assert reshaped(single, (16,)).items == {(WHOLE, limit(0, fixed=True)), (0, COLUMNS[1])}


def test_axes_that_are_joined_or_split():
    split = reshaped(TILE, (8, 2, 8)).items
    assert {place for place, _ in split} == {0, WHOLE, MASK}
    joined = reshaped(TILE, (128,)).items
    assert {(place, type(part)) for place, part in joined} == {(0, Flags), (WHOLE, Limit)}


def test_a_branch_is_one_or_the_other():
    guard = Guard(sentinel.condition, None)
    found = merged(TILE, ValidElements((8, 16), OrderedSet({ROWS})), guard)
    assert ROWS in found.items
    assert (1, replace(COLUMNS[1], guards=OrderedSet({guard}))) in found.items
    both = made((8, 16), [(1, replace(COLUMNS[1], guards=OrderedSet({g}))) for g in (guard, guard.opposite)])
    assert both.items == {COLUMNS}
    weaker = made((8, 16), [COLUMNS, (1, replace(COLUMNS[1], guards=OrderedSet({guard})))])
    assert weaker.items == {COLUMNS}


def test_a_choice_keeps_what_both_have():
    plain = everything((8, 16))
    assert chosen("c", TILE, TILE, (TILE, TILE)).items == TILE.items
    assert chosen("c", TILE, plain, (plain, plain)).items == OrderedSet()  # what the condition says already
    rows = ValidElements((8, 16), OrderedSet({ROWS}))
    found = chosen("c", TILE, rows, (TILE, rows))
    assert {item for item in found.items if item[0] != MASK} == {ROWS}
    assert {type(part) for place, part in found.items if place == MASK} == {Flags}
