"""Costs on the reference mesh."""

from tessera.lowering.sharding.costs import picoseconds, reference_extent


def test_reference_mesh():
    assert reference_extent(()) == 1
    assert reference_extent(("a", "b")) == 64


def test_costs_add_up():
    assert picoseconds() == 0
    assert picoseconds(sent=325_000_000_000) == picoseconds(local=4_200_000_000_000) == 10**12
    assert picoseconds(sent=650, products=800) == 2000 + 2
