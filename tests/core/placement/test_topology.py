"""Costs of collectives against the points that were measured and published."""

import pytest

from tessera.core.placement.topology import (
    GIB,
    HOST_OF_8,
    HOSTS,
    KIB,
    NVL72,
    RACKS,
    Collective,
    CollectiveCost,
    sent,
    topology_of,
)

MIB = 1 << 20
SIZES = (8 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB)
MEASURED: dict[tuple[Collective, int], tuple[float | None, ...]] = {  # microseconds, one for each of SIZES
    ("all_reduce", 4): (15.1, 15.6, 17.0, 22.5, 44.1, 107.8, 335, 1202, 4553),
    ("all_reduce", 2): (11.3, 11.7, 13.1, 18.2, 37.7, 87.9, 263, 907, 3295),
    ("all_gather", 4): (41.6, 39.6, 37.3, 42.2, 42.3, 74.8, 198, 673, 2477),
    ("all_gather", 2): (23.1, 22.8, 23.1, 39.3, 44.9, 62.1, 166, 554, 1980),
    ("reduce_scatter", 4): (44.4, 42.8, None, 45.2, 45.1, 68.9, 198, 673, 2459),
    ("reduce_scatter", 2): (24.4, 25.2, 25.3, 41.9, 50.7, 72.0, 168, 570, 1968),
}
PUBLISHED = {GIB // 2: 1807, GIB: 3109, 2 * GIB: 5589, 4 * GIB: 10094, 8 * GIB: 20299}


@pytest.mark.parametrize(("collective", "ranks"), list(MEASURED))
def test_steps_of_two_and_four_gpus_are_within_15_percent(collective: Collective, ranks: int):
    for size, expected in zip(SIZES, MEASURED[collective, ranks], strict=True):
        cost = HOSTS.cost(collective, ranks, size)
        assert cost.measured
        assert cost.basis.startswith("measured on 2 and 4 H200s")
        if expected is not None:
            assert cost.seconds * 1e6 == pytest.approx(expected, rel=0.15), size


def test_published_points_of_72_gpus_are_within_10_percent():
    for size, expected in PUBLISHED.items():
        cost = RACKS.cost("all_reduce", 72, size)
        assert cost.seconds * 1e6 == pytest.approx(expected, rel=0.10)
        assert cost.basis.startswith("published")


@pytest.mark.parametrize(
    ("domain", "collective", "ranks", "size"),
    [
        (NVL72, "all_reduce", 72, GIB // 4),
        (NVL72, "all_reduce", 72, 16 * GIB),
        (NVL72, "all_gather", 72, GIB),
        (NVL72, "all_reduce", 36, GIB),
        (HOST_OF_8, "all_reduce", 4, 2 * GIB),
        (HOST_OF_8, "all_reduce", 8, GIB),
        (HOST_OF_8, "broadcast", 4, GIB),
    ],
)
def test_what_nobody_measured_says_so(domain: object, collective: Collective, ranks: int, size: int):
    assert domain in (NVL72, HOST_OF_8)
    cost = (NVL72 if domain is NVL72 else HOST_OF_8).cost(collective, ranks, size)
    assert not cost.measured
    assert cost.basis.startswith("unmeasured: ")
    assert cost.seconds > 0


def test_costs_never_fall_as_sizes_grow():
    for topology in (HOSTS, RACKS):
        for collective in ("all_reduce", "all_gather", "all_to_all", "broadcast"):
            for ranks in (2, 3, 4, 8, 36, 72, 144):
                sizes = [4**power for power in range(3, 19)]
                costs = [topology.cost(collective, ranks, size).seconds for size in sizes]
                assert costs == sorted(costs), (topology.domain.name, collective, ranks)


def test_bytes_sent():
    assert sent("all_reduce", 4, 1000) == 1500
    assert sent("all_gather", 4, 1000) == sent("reduce_scatter", 4, 1000) == sent("all_to_all", 4, 1000) == 750
    assert sent("broadcast", 4, 1000) == sent("send", 4, 1000) == 1000


def test_one_rank_sends_nothing():
    assert HOSTS.cost("all_reduce", 1, GIB) == CollectiveCost(0.0, 0.0, "nothing is sent")


def test_across_domains_a_device_sends_its_share_alone():
    inside, across = HOSTS.cost("all_reduce", 8, GIB), HOSTS.cost("all_reduce", 16, GIB)
    network = 2 * 14e-6 + GIB / 8 / 50e9
    scatter = HOST_OF_8.cost("reduce_scatter", 8, GIB).seconds + HOST_OF_8.cost("all_gather", 8, GIB).seconds
    assert across.seconds == pytest.approx(scatter + network)
    assert across.sent == pytest.approx(inside.sent + GIB / 8)
    assert not across.measured


def test_a_tree_all_reduce_moves_as_much_as_a_ring_where_ranks_hold_one_node():
    ring, tree = HOSTS.cost("all_reduce", 4, GIB), HOSTS.tree_all_reduce(4, GIB)
    assert tree.sent == pytest.approx(ring.sent)
    wide = HOSTS.tree_all_reduce(4, GIB, partials=2.0, widening=2.0)
    assert wide.sent == pytest.approx(ring.sent / 2 * 5)
    assert wide.seconds > tree.seconds


def test_meshes_of_72_stand_in_racks():
    assert topology_of(72) is topology_of(144) is RACKS
    assert topology_of(8) is topology_of(4) is HOSTS


def test_a_cost_says_what_it_rests_on():
    text = str(RACKS.cost("all_reduce", 72, GIB))
    assert text.startswith("3,051.")
    assert "published for an NVL72" in text
