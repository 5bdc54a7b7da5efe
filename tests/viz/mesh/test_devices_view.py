"""The devices view: what it takes, its texts, and what is left of it without scripts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.mesh_mlp import arrays, line, mlp
from tessera import dist, viz
from tessera.core.errors.catalog import NothingToShow
from tessera.profiling.mesh_profile import MeshProfiler

MODEL = dist.Transformer(layers=8, width=1024, heads=16, sequence=512, batch=64, vocabulary=8192)


def test_a_function_on_a_mesh_is_planned_and_not_run():
    view = viz.devices(mlp, *arrays(line(), stored=False))
    assert view.data.clock == "virtual"
    assert len(view.data.rows) == 8
    lines = view.text().splitlines()
    assert lines[0].startswith("mlp on mesh(dp=2, tp=4), 8 devices, all simulated: sim:0 to sim:7: ")
    assert lines[1].startswith("  devices 0 to 7: compute ")
    assert mlp.executable_for(*arrays(line(), stored=False)) is not None
    assert viz.devices(mlp.executable).text() == view.text()


def test_a_profile_is_shown_in_the_hosts_time_and_its_text_is_the_same_in_every_run():
    profiles = [MeshProfiler(mlp)(*arrays(line())) for _ in range(2)]
    first, second = (viz.devices(each) for each in profiles)
    assert first.text() == second.text()
    assert first.text().splitlines()[0].endswith(": host time")
    assert "  device 7: 384 bytes sent" in first.text()


def test_a_search_shows_its_best_plan(tmp_path: Path):
    search = dist.plan.search(MODEL, 8)
    view = viz.devices(search)
    assert view.title == f"{MODEL}: {search.best.name}"
    written = json.loads(view.export_trace(tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert written["traceEvents"]


def test_without_scripts_there_are_figures_and_bars():
    plain = viz.devices(mlp, *arrays(line(), stored=False)).plain_html()
    assert plain.count("<tr>") == 9
    assert "device 7" in plain
    assert "background-color" in plain
    assert "<script" not in plain
    many = viz.devices(mlp, *arrays(line(72, 8), stored=False, rows=72)).plain_html()
    assert "and 48 more" in many


def test_what_is_no_timeline():
    with pytest.raises(NothingToShow) as caught:
        viz.devices(3)
    assert "devices() shows a function of operators" in str(caught.value)
    search = dist.plan.search(MODEL, 8)
    with pytest.raises(NothingToShow, match="was not simulated"):
        viz.devices(replace(search.best, timeline=None))
