"""The search for a plan of a transformer: a trillion parameters on 16 racks, models that do not fit, and one by hand."""

from dataclasses import replace

import pytest

from tessera.core.errors.catalog import NoPlanFits
from tessera.core.placement.mesh import Mesh
from tessera.core.planning.described_transformer import Transformer
from tessera.core.planning.parallel_plan import PlanSearch
from tessera.performance.parallel.search import extents_of, indivisible, search_transformer, spread_over

SMALL = Transformer(layers=8, width=1024, heads=16, sequence=512, batch=32, vocabulary=8192)
TRILLION = Transformer(layers=128, width=25600, heads=160, sequence=2048, batch=4608, vocabulary=51200)


@pytest.fixture(scope="module")
def trillion() -> PlanSearch:
    return search_transformer(TRILLION, Mesh.of("dp", range(1152)), 186 * 10**9)


def test_a_trillion_parameters_over_sixteen_racks(trillion: PlanSearch):
    best = trillion.best
    dp, tp, pp = best.extents
    assert dp * tp * pp == 1152
    assert best.bytes_per_device <= 186 * 10**9
    assert best.seconds == min(plan.seconds for plan in trillion.ranked)
    # No more than the rate of products, no less than half of it.
    assert 0.8e15 < best.rate < 1.6e15
    assert 0 <= best.bubble < 0.2
    timeline = best.timeline
    assert timeline is not None
    assert [len(row.devices) for row in timeline.rows] == [dp * tp] * pp
    assert sum(timeline.shares.values()) == pytest.approx(1.0)
    # tp sends most often, and stays inside one switch domain.
    assert best.mesh.level_of(best.mesh.group(0, ("tp",))) < len(best.mesh.domains)


def test_every_way_is_ranked_or_rejected_with_a_reason(trillion: PlanSearch):
    names = {trillion.best.name} | {each.name for each in trillion.rejected}
    assert len(names) == len(list(extents_of(1152)))
    assert all(each.reason for each in trillion.rejected)
    reasons = " ".join(each.reason for each in trillion.rejected)
    for part in ("slower", "does not divide", "a device of 173.2 GiB"):
        assert part in reasons
    slower = [each.seconds for each in trillion.rejected if each.fits]
    assert slower == sorted(slower)


def test_what_does_not_fit_is_refused_with_what_would():
    capacity = 2 << 30
    with pytest.raises(NoPlanFits) as caught:
        search_transformer(SMALL, Mesh.of("dp", range(1)), capacity)
    assert "a device of 2.0 GiB: optimizer alone 1.3 GiB, with dp 1 x tp 1 x pp 1" in str(caught.value)
    hint = caught.value.hint or ""
    assert hint == "2 devices would do: dp 1 x tp 1 x pp 2 takes 1.1 GiB a device"
    assert search_transformer(SMALL, Mesh.of("dp", range(2)), capacity).best.bytes_per_device <= capacity


def test_a_small_model_is_spread_over_its_batch():
    found = search_transformer(replace(SMALL, batch=1024), Mesh.of("dp", range(8)), 141 * 10**9)
    assert found.best.extents == (8, 1, 1)
    assert "tp transfers" in next(each for each in found.rejected if each.name == "dp 1 x tp 8 x pp 1").reason


def test_what_does_not_divide():
    assert indivisible(SMALL, 1, 3, 1) == "tp 3 does not divide 16 heads"
    assert indivisible(SMALL, 1, 1, 3) == "pp 3 does not divide 8 layers"
    assert indivisible(SMALL, 3, 1, 1) == "dp 3 does not divide 32 sequences of a step"
    assert indivisible(SMALL, 8, 4, 2) == ""
    with pytest.raises(NoPlanFits, match="no dp x tp x pp = 7 divides its extents"):
        search_transformer(SMALL, Mesh.of("dp", range(7)), 1 << 40)


def test_devices_keep_their_order_and_domains():
    mesh = Mesh.of(("a", "b"), range(72), (8, 9), memory=5)
    found = spread_over(mesh, 9, 4, 2)
    assert (found.axes, found.shape) == (("pp", "dp", "tp"), (2, 9, 4))
    assert (found.devices, found.domains, found.memory) == (mesh.devices, mesh.domains, 5)
    assert sorted(extents_of(4)) == [(1, 1, 4), (1, 2, 2), (1, 4, 1), (2, 1, 2), (2, 2, 1), (4, 1, 1)]
