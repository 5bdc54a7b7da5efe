"""The benchmark of the notebook side: models of the sizes that are said, links that are counted, figures as JSON."""

import importlib
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tessera import viz
from tessera.core.base.source import Span
from tessera.core.settings import overridden
from tessera.core.targets import every_level
from tessera.tuning.results import config_key
from tessera.viz.diffs.sides import Subject, related
from tessera.viz.ir.panes import Pane, ViewLine
from tessera.viz.stage_alignment.align import Related

if TYPE_CHECKING:  # the fixtures put the folder on the path
    from benchmarks.notebook_figures import Figure

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))  # pyright: ignore[reportUnknownMemberType] - of pytest itself
    return importlib.import_module("notebook_models")


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))  # pyright: ignore[reportUnknownMemberType] - of pytest itself
    return importlib.import_module("notebook_figures")


def test_an_explorer_of_every_level(models: ModuleType, tmp_path: Path) -> None:
    with overridden(cache_dir=tmp_path):
        view = models.large_explorer(2_000, models.LEVELS)
    assert view.data.levels == every_level()[1:]
    assert {len(pane.lines) for pane in view.data.panes} == {2_000}
    # A line of the source has counterparts in every level, a twentieth of its lines.
    first = view.data.panes[0].lines[0].sources[0]
    marked = view.data.counterparts(view.data.select_source(first))
    assert [len(lines) for lines in marked] == [100] * len(view.data.panes)
    assert models.IR_LINES == 10_000


@pytest.mark.parametrize("make", ["text_stages", "tile_stages"])
def test_sides_of_a_diff(models: ModuleType, make: str) -> None:
    stages = getattr(models, make)
    view = viz.diff(*stages(0.2, lines=500))
    one = view.data.comparison
    assert (len(one.before), len(one.after)) == (500, 500)
    changed = sum(count for kind, count in one.counts.items() if kind != "moved")
    assert 70 <= changed <= 260  # a fifth: as one change of a line, or as one line removed and one added
    same = viz.diff(*stages(renumbered=True, lines=500)).data.comparison
    assert sum(same.counts.values()) == 0
    assert same.before[7].text != same.after[7].text
    assert models.DIFF_LINES == 5_000


def test_renumbered_operations_are_those_of_another_compilation(models: ModuleType) -> None:
    before, after = models.tile_stages(renumbered=True, lines=50)
    assert not {record.id for record in before.records} & {record.id for record in after.records}
    assert related(Subject(None, None, (before,)), 0, Subject(None, None, (after,)), 0) is Related.PROGRAM


@pytest.mark.parametrize("nodes", [1000, 2000])
def test_a_graph(models: ModuleType, nodes: int) -> None:
    graph = models.large_graph(nodes).data.steps[0].graph
    assert (len(graph.nodes), len(graph.edges)) == (nodes, nodes * 3 // 2)
    assert all(int(edge.source[1:]) < int(edge.target[1:]) for edge in graph.edges)


def test_a_launch_and_a_search(models: ModuleType) -> None:
    profile = models.large_profile()
    assert (len(profile.tiles), len(set(profile.tiles.unit.tolist()))) == (100_000, 132)
    tuning = models.large_dashboard().tuning
    assert len({config_key(trial.config) for trial in tuning.trials}) == 10_000
    assert Counter(trial.status for trial in tuning.trials) == {"measured": 9_500, "illegal": 500}


def test_every_view_is_shown(models: ModuleType, tmp_path: Path) -> None:
    with overridden(cache_dir=tmp_path):
        views = models.small_views()
    assert sorted(views) == sorted(viz.__all__)
    assert len({view.kind for view in views.values()}) == len(views) - 1  # two are graphs


def test_instructions_by_what_they_are_linked_to(models: ModuleType) -> None:
    compiler = importlib.import_module("notebook_compiler")
    kernel, line = Span("cell.py", 1, 1, 9, 9), Span("cell.py", 4, 1, 4, 9)
    lines = (
        ViewLine("saxpy:"), ViewLine("        .p2align 4"), ViewLine(".LBB0_1:"), ViewLine("        pushq   %rbp"),
        ViewLine("        movq    %rax, %rbx", spans=(kernel,)), ViewLine("        vaddps  %ymm0", spans=(line,)),
        ViewLine("        vmulps  %ymm0", ops=(3,)), ViewLine("        ret", spans=(kernel,), ops=(3,)),
    )  # fmt: skip
    found = compiler.links_of_x86(Pane("asm", "", lines), kernel)
    assert found == {"nothing": 1, "own": 1, "lines": 3}
    assert compiler.share(found, "lines", "own") == 80.0
    sass = (ViewLine("/*0000*/ NOP"), ViewLine("/*0010*/ FADD R1", spans=(line,)))
    assert compiler.links_of_sass(Pane("sass", "", sass), kernel) == {"lines": 1, "own": 0, "nothing": 1}


def test_figures_are_judged_by_their_medians(figures: ModuleType) -> None:
    fast: Figure = figures.Figure("redraw", "ms", (60.0, 40.0, 45.0), 50.0)
    assert (fast.median, fast.ratio, fast.met) == (45.0, 0.9, True)
    shares: Figure = figures.Figure("mapped", "%", (97.0,), 98.0, least=True)
    assert shares.met is False
    assert shares.row.endswith(">= 98     NOT MET")
    part: Figure = figures.Figure("bytes", "kB", (3.0,))
    assert (part.ratio, part.met) == (None, None)
    assert figures.Figure("requests", "count", (0.0,), 0.0).met is True


def test_parts_are_kept_beside_each_other(figures: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "results" / "notebook.json"
    figure = figures.Figure("redraw", "ms", (60.0, 40.0, 45.0), 50.0)
    figures.keep(path, {"models": figures.part_document([figure], (0.5, 0.25, 0.125), "150.0")})
    figures.keep(path, {"live": figures.part_document([], (0.5, 0.25, 0.125), "150.0")})
    kept = json.loads(path.read_text())
    assert list(kept) == ["models", "live"]
    assert kept["models"]["figures"] == [
        {
            "name": "redraw", "unit": "ms", "median": 45.0, "least": 40.0, "most": 60.0, "repetitions": 3,
            "target": 50.0, "bound": "at most", "ratio": 0.9, "met": True,
        }
    ]  # fmt: skip
    assert kept["models"]["machine"]["load"] == [0.5, 0.25, 0.12]
    assert kept["models"]["versions"]["chromium"] == "150.0"
    assert kept["live"]["figures"] == []


def test_the_kept_results_name_every_part(models: ModuleType) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    notebook = importlib.import_module("benchmarks.notebook")
    kept = json.loads((FOLDER / "results" / "notebook.json").read_text())
    assert kept.keys() == notebook.PARTS.keys()
    for part in kept.values():
        assert part["figures"]
        assert {"date", "machine", "versions", "figures"} == part.keys()
