"""Costs over the groups of a mesh: how groups lie in domains, published and measured points."""

import pytest

from tessera.core.placement.link_costs import LINKS, NOTHING, LinkCosts, spread, topology_on
from tessera.core.placement.mesh import Mesh, PhysicalDomain
from tessera.core.placement.topology import HOSTS, RACKS

MIB = 1 << 20


def test_the_links_between_domains_decide():
    mesh = Mesh.of(("dp", "tp"), range(16), (2, 8))
    inside, across = (LINKS.seconds("all_gather", mesh, axes, 64 * MIB) for axes in (("tp",), ("dp",)))
    assert inside < across / 5
    assert LINKS.seconds("slice", mesh, (), 0) == 0
    assert LINKS.cost("slice", mesh, ("tp",), MIB) == NOTHING


def test_how_groups_lie_in_domains():
    mesh = Mesh.of(("dp", "tp"), range(16), (2, 8))
    assert spread(mesh, ("tp",)) == (8, 1)
    assert spread(mesh, ("dp",)) == (1, 2)
    assert spread(mesh, ("dp", "tp")) == (8, 2)
    assert spread(Mesh.of(("pp", "tp"), range(144), (36, 4)), ("pp",)) == (18, 2)
    shuffled = Mesh.of("tp", [0, 8, 1, 9, 2, 10])
    assert spread(shuffled, ("tp",)) == (3, 2)


def test_measured_points_of_four_gpus_are_within_15_percent():
    mesh = Mesh.of("tp", range(4))
    for kind, received, seconds in (
        ("all_gather", 768 * MIB, 2477e-6), ("all_reduce", 2 * 3 * 2048, 15.1e-6), ("all_reduce", 1536 * MIB, 4553e-6),
    ):  # fmt: skip
        cost = LINKS.cost(kind, mesh, ("tp",), received)
        assert cost.seconds == pytest.approx(seconds, rel=0.15)
        assert cost.basis.startswith("measured on 2 and 4 H200s")


PUBLISHED = {512 * MIB: 1807e-6, 1 << 30: 3109e-6, 2 << 30: 5589e-6, 4 << 30: 10094e-6, 8 << 30: 20299e-6}


@pytest.mark.parametrize("size", list(PUBLISHED))
def test_published_points_of_an_nvl72_are_within_10_percent(size: int):
    mesh = Mesh.of(("dp", "tp"), range(72), (9, 8))
    cost = LINKS.cost("all_reduce", mesh, ("dp", "tp"), 2 * 71 / 72 * size)
    assert cost.seconds == pytest.approx(PUBLISHED[size], rel=0.10)
    assert cost.basis.startswith("published for an NVL72")


@pytest.mark.parametrize("size", [256 * MIB, 16 << 30])
def test_outside_the_published_range_it_says_unmeasured(size: int):
    cost = LINKS.cost("all_reduce", Mesh.of("dp", range(72)), ("dp",), 2 * 71 / 72 * size)
    assert not cost.measured
    assert cost.basis.startswith("unmeasured: ")


def test_domains_of_another_name_cost_what_lies_between_domains():
    mesh = Mesh.of("dp", range(4), domains=[PhysicalDomain("rack", 4)])
    assert spread(mesh, ("dp",)) == (1, 4)
    assert LINKS.seconds("all_gather", mesh, ("dp",), MIB) == pytest.approx(3 * 14e-6 + MIB / 50e9)


def test_the_topology_is_that_of_the_domains_or_one_that_is_given():
    assert topology_on(Mesh.of("dp", range(144))) == RACKS
    assert topology_on(Mesh.of("dp", range(4))) == HOSTS
    mesh = Mesh.of("dp", range(8))
    assert LinkCosts(RACKS).seconds("all_gather", mesh, ("dp",), 1 << 30) < LINKS.seconds(
        "all_gather", mesh, ("dp",), 1 << 30
    )


def test_half_of_an_all_reduce_takes_no_longer_than_all_of_it():
    for size in (4, 64):
        mesh = Mesh.of("tp", range(size))
        for moved in (64, 4096, MIB, 64 * MIB):
            half = LINKS.cost("reduce_scatter", mesh, ("tp",), moved)
            assert half.seconds <= LINKS.seconds("all_reduce", mesh, ("tp",), 2 * moved)
            assert half.sent == pytest.approx(moved)
