"""The page of a profile, from made-up launches."""

import numpy as np
import pytest

from tessera.core.work import Work
from tessera.performance.device_model import Machine
from tessera.profiling.records import Tiles
from tessera.profiling.results import Profile
from tessera.viz.profile.unit_bars import UNITS, bars_html, unit_bars

PIXELS = 600


def profile(unit: list[int], start: list[float], end: list[float], phases: dict[str, list[float]] | None = None):
    count = len(unit)
    part = np.full(count, 100.0)
    machine = Machine("<made up>", 1, 8, "core", 1e10, 2e10, 1, {"f32": 1e10}, "made up")
    work = Work(part, part, part, {"f32": 100.0 * count}, 100.0 * count, 0.0, 0.0)
    columns = {name: np.array(values, float) for name, values in (phases or {}).items()}
    tiles = Tiles(np.arange(count), np.array(unit), np.array(start, float), np.array(end, float), part, part, columns)
    return Profile("k<1>", "cpu:znver5", machine, tiles, work, (1e-6, 2e-6), (1e-6, 2e-6))


APART = profile([0, 0, 1], [0, 500, 250], [400, 1000, 1000])


def test_tiles_are_drawn_one_by_one_where_they_are_apart():
    first, second = unit_bars(APART).units
    assert (first.label, first.remark) == ("core 0", "2 tiles, busy 90%")
    assert [segment.width for segment in first.segments] == [240, 60, 300]
    assert first.segments[0].title == "tile 0: 0.40 µs from 0.00 µs"
    assert [segment.width for segment in second.segments] == [150, 450]
    assert second.remark == "1 tile, busy 75%"


def test_tiles_beside_each_other_are_drawn_by_how_many_there_are():
    both = profile([0, 0, 1], [0, 500, 0], [1000, 1000, 500])
    first, second = unit_bars(both).units
    assert [segment.width for segment in first.segments] == [300, 300]
    assert len({segment.colour for segment in first.segments}) == 2
    assert sum(segment.width for segment in second.segments) == PIXELS


@pytest.mark.parametrize("count", [1, 7, 48, 49, 1000])
def test_every_bar_has_its_width(count: int):
    edges = np.linspace(0, 12345.0, count + 1)
    (row,) = unit_bars(profile([0] * count, edges[:-1].tolist(), edges[1:].tolist())).units
    assert sum(segment.width for segment in row.segments) == PIXELS


def test_many_units_are_sampled():
    count = 132
    view = unit_bars(profile(list(range(count)), [0.0] * count, [10.0] * count))
    assert len(view.units) == UNITS
    assert view.left == "40 of 132 cores are drawn"


def test_phases_have_bars():
    page = profile([0, 0], [0, 500], [500, 1000], {"load": [100, 200], "compute": [400, 300]})
    assert [(name, round(share, 3)) for name, share, _ in unit_bars(page).phases] == [
        ("load", 0.3),
        ("compute", 0.7),
    ]
    assert "30% of the tiles&#x27; time" in bars_html(page) or "30% of the tiles' time" in bars_html(page)


def test_the_page_begins_with_the_figures_and_is_escaped():
    page = bars_html(APART)
    assert page.index("roofline") < page.index("core 0")
    assert "profile of k&lt;1&gt; on &lt;made up&gt;" in page
    assert "<made" not in page
    assert "<script" not in page
    assert "<style" not in page


def test_a_launch_without_tiles():
    assert unit_bars(profile([], [], [])).units == ()
    assert "core" in bars_html(profile([], [], []))
