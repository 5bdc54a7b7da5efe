"""Heat maps: numbers at their tiles, outliers, forms."""

import numpy as np
import pytest

from support.profiles import profile_of
from tessera.profiling.records import Tiles
from tessera.profiling.results import Profile
from tessera.viz import heatmap
from tessera.viz.profile.heatmap import outliers, tile_heat


def twelve(slow: float = 9000.0) -> Profile:
    durations = [100.0] * 11 + [slow]
    return profile_of([0] * 12, [1000.0 * n for n in range(12)], [1000.0 * n + d for n, d in enumerate(durations)])


def test_numbers_are_at_their_groups():
    found = profile_of([1, 0], [50.0, 0.0], [70.0, 90.0])
    tiles = found.tiles
    sparse = Tiles(np.array([1, 0]), tiles.unit, tiles.start, tiles.end, tiles.read, tiles.written, {})
    heat = tile_heat(_with(found, sparse))
    assert heat.duration.tolist() == [90.0, 20.0]
    assert heat.order.tolist() == [0.0, 1.0]
    assert heat.unit.tolist() == [0.0, 1.0]


def _with(profile: Profile, tiles: Tiles) -> Profile:
    return Profile(
        profile.kernel, profile.target, profile.machine, tiles, profile.work, profile.plain, profile.instrumented
    )


def test_groups_without_a_record_have_no_number():
    found = twelve()
    tiles = found.tiles
    kept = Tiles(
        tiles.group[::2], tiles.unit[::2], tiles.start[::2], tiles.end[::2], tiles.read[::2], tiles.written[::2], {}
    )
    heat = tile_heat(_with(found, kept))
    assert np.isnan(heat.duration[1::2]).all()
    assert not np.isnan(heat.duration[::2]).any()


def test_outliers_are_far_above_the_median():
    (slow,) = outliers(twelve())
    assert (slow.tile, slow.place, slow.duration, slow.ratio) == (11, (11,), 9000.0, 90.0)
    assert outliers(twelve(140.0)) == ()
    assert outliers(profile_of([], [], [])) == ()


def test_forms():
    view = heatmap(twelve())
    assert view.text() == "heat map of k: 12 tiles, group 12"
    page = view.plain_html()
    assert "tile 11 at [11]: 9 µs, 90.0 times the median" in page
    assert page.count("<td") == 12
    assert "<script" not in page
    assert "no outliers" in heatmap(twelve(140.0)).plain_html()
    assert heatmap(profile_of([], [], [])).plain_html() == "<div>heat map of k: 0 tiles, group 0</div>"


@pytest.mark.parametrize("count", [1, 33, 1000])
def test_the_plain_form_is_small(count: int):
    many = profile_of([0] * count, [float(n) for n in range(count)], [n + 1.0 for n in range(count)])
    assert heatmap(many).plain_html().count("<td") <= 32
