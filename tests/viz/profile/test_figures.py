"""Profiles for plotly."""

import json
import sys

import numpy as np
import pytest

from support.profiles import profile_of
from tessera.viz import roofline, timeline
from tessera.viz.profile.figures import tiles_over_time
from tessera.viz.profile.model import TileColumns

FOUND = profile_of([0, 0, 1], [0, 500, 250], [400, 1000, 1000])


def test_a_roofline_has_a_line_a_roof_and_a_marker_a_launch():
    pytest.importorskip("plotly")
    data = json.loads(roofline(FOUND).figure().to_json())["data"]
    assert [trace["mode"] for trace in data] == ["lines", "markers"]
    assert data[1]["x"] == [1.0]


def test_a_timeline_counts_tiles():
    pytest.importorskip("plotly")
    (trace,) = json.loads(timeline(FOUND).figure().to_json())["data"]
    assert trace["x"] == pytest.approx([0.0, 0.25, 0.4, 0.5, 1.0])
    assert trace["y"] == [1, 2, 1, 2, 0]


def test_many_times_are_thinned():
    start = np.arange(10_000, dtype=np.float32)
    columns = TileColumns(start, start, start, start, start + 0.5, {})
    times, running = tiles_over_time(columns, 100)
    assert len(times) == len(running) <= 100


def test_without_plotly_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match="pip install"):
        roofline(FOUND).figure()
