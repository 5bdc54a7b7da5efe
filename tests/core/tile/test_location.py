"""Locations keep identities and places through whatever MLIR does to them."""

from tessera.core.base.source import NOWHERE, Span
from tessera.core.mlir import ir
from tessera.core.tile.location import identities, name_of, named, origin, place, spans

A = Span("cell <1>.py", 3, 5, 3, 9)
B = Span("other.py", 4, 1, 6, 2)


def test_an_operation_knows_its_number_and_its_place():
    location = origin(17, A)
    assert str(location) == 'loc("op17"("cell <1>.py":3:5 to :9))'
    assert identities(location) == (17,)
    assert spans(location) == (A,)


def test_fused_operations_know_all_of_theirs():
    location = ir.Location.fused([origin(3, A), origin(5, B), origin(3, A)])
    assert identities(location) == (3, 5)
    assert spans(location) == (A, B)


def test_call_sites_are_looked_into():
    location = ir.Location.callsite(origin(2, A), [origin(4, B)])
    assert identities(location) == (2, 4)
    assert spans(location) == (A, B)


def test_block_arguments_carry_a_name_that_is_no_identity():
    assert name_of(named("acc", A)) == "acc"
    assert identities(named("acc", A)) == ()
    assert name_of(named("", A)) == ""


def test_nowhere_is_unknown():
    assert place(NOWHERE) == ir.Location.unknown()
    assert spans(place(NOWHERE)) == ()
    assert identities(origin(0, NOWHERE)) == (0,)
