"""The explorer's HTML: self-contained, escaped, readable without scripts, small."""

import base64
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from support.operator_graphs import QKV, ROWS, attention, classify, line_of
from tessera.api.source_module import compile_source
from tessera.core.artifact import Artifact
from tessera.core.base.source import Source, Span
from tessera.core.compilation import Compilation
from tessera.core.errors.catalog import NothingToShow, UnknownLevel
from tessera.core.listing import Line, Listing
from tessera.kernels.kernel import Kernel
from tessera.profiling.profile import profile
from tessera.runtime.launch.program_counters import can_sample
from tessera.viz import explore
from tessera.viz.ir.explorer_view import PLAIN_LINES


@pytest.fixture
def html(compilation: Compilation) -> str:
    return explore(compilation).html()


def data_of(html: str) -> dict[str, Any]:  # JSON of the view
    found = re.search(r'class="tsr-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_nothing_is_fetched_and_only_one_script_runs(html: str) -> None:
    page = html.replace('"http://www.w3.org/2000/svg"', "")  # the name of a namespace, which nothing fetches
    assert not re.search(r"https?:|//cdn|@import|url\(|src=|fetch\(|XMLHttp|import\(", page)
    assert len(re.findall(r"<script>", html)) == 1


def test_the_whole_output_of_a_small_kernel_is_small_and_deterministic(compilation: Compilation, html: str) -> None:
    assert len(html.encode()) < 100_000
    assert html == explore(compilation).html()


def test_tags_are_balanced(html: str) -> None:
    class Balance(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    balance = Balance()
    balance.feed(html)
    assert balance.open == []


def test_each_line_of_the_data_points_at_its_links(html: str) -> None:
    data = data_of(html)
    assert data["open"] == []
    tile, keys = data["panes"][2], data["keys"]
    lines = tile["text"].split("\n")
    at = next(i for i, line in enumerate(lines) if "mulf" in line)
    assert keys[tile["keys"][at]] == [[7], [6], [[7, 16, 28]]]
    told = "lines: 1 new, 1 changed or moved, 1 gone"
    assert tile["counts"] == {"fresh": 1, "changed": 1, "gone": 1, "told": told}
    assert len(tile["keys"]) == len(lines)


def test_hostile_text_stays_text(artifact: Artifact) -> None:
    bad = "</script><img src=x onerror=alert(1)>&<!--"
    source = Source("cell.py", bad, 1, bad)
    hostile = replace(artifact, name=bad, source=source)
    line = Line(bad, (Span("cell.py", 1, 1, 1, 9),), (1,))
    html = explore(Compilation(hostile, (Listing("tile", bad, (line,)),))).html()
    assert "<img" not in html
    assert "<!--" not in html
    assert html.count("</script>") == 2
    assert data_of(html)["panes"][0]["text"] == bad


def test_without_scripts_every_level_can_be_read_and_long_ones_are_cut(artifact: Artifact) -> None:
    lines = tuple(Line(f"op{i}", (Span("cell.py", 7, 1, 7, 5),), (i,)) for i in range(PLAIN_LINES + 3))
    html = explore(
        Compilation(artifact, (Listing("tile", "", lines), Listing("asm", "", lines[:1]))), levels=["asm"]
    ).html()
    plain = html[html.index("tsr-plain") : html.index("tsr-data")]
    assert f"op{PLAIN_LINES - 1}\n" in plain
    assert f"op{PLAIN_LINES}\n" not in plain
    assert "... 3 more lines" in plain
    assert "<details open><summary>machine code of the CPU (1 line)" in plain
    assert "   L7  op0" in plain


def test_long_levels_are_sent_deflated_and_whole(artifact: Artifact) -> None:
    lines = tuple(Line(f"vaddps %ymm{i}, %ymm1, %ymm2  # step {i}") for i in range(5000))
    html = explore(Compilation(artifact, (Listing("asm", "", lines),))).html()
    assert len(html) < 100_000
    found = re.search(r'class="tsr-data" data-packed>(.*?)</script>', html)
    assert found is not None
    data = json.loads(zlib.decompress(base64.b64decode(found[1])))
    assert data["panes"][0]["text"].split("\n") == [line.text for line in lines]


def test_an_empty_compilation_still_shows_its_source(artifact: Artifact) -> None:
    html = explore(Compilation(artifact)).html()
    assert "y[i] = alpha * x[i] + y[i]" in html


def test_llvm_passes_are_stages_of_their_level() -> None:
    source = "@kernel\ndef twice(x: f32[n], y: mut f32[n]):\n    i = tile.linear_id()\n    if i < n:\n        y[i] = 2.0 * x[i]\n"
    kernel: Kernel = compile_source(source).twice
    assert len(explore(kernel).data.stages("llvm")) == 1
    stages = explore(kernel, llvm_passes=True).data.stages("llvm")
    assert stages[0].stage == "mlir-translate"
    assert "InstCombine" in [pane.stage for pane in stages]
    assert any(pane.changes["gone"] for pane in stages[1:])


def test_other_levels_can_be_left_out(compilation: Compilation) -> None:
    whole, part = explore(compilation), explore(compilation, levels=("source", "asm"), only=True)
    assert "tile" in whole.data.levels
    assert part.data.levels == ("asm",)
    assert part.data.source == whole.data.source
    assert part.data.stages("asm")[-1].lines == whole.data.stages("asm")[-1].lines
    assert len(part.html()) < len(whole.html())


@pytest.mark.skipif(not can_sample(), reason="not Linux on x86-64")
def test_the_line_that_takes_the_time_has_it_beside_it() -> None:
    kernel = compile_source(
        "@kernel\ndef heavy(x: f32[n], y: mut f32[n]):\n    i = tile.linear_id()\n    if i < n:\n"
        "        a = x[i] + 1.0\n        y[i] = tile.sin(tile.exp(tile.cos(a))) + tile.cos(tile.exp(a))\n"
    ).heavy
    x = np.linspace(0, 1, 2_000_000, dtype=np.float32)
    y = np.zeros_like(x)
    view = explore(kernel, profile=profile(kernel)(x, y))
    column = view.data.measured
    assert column is not None
    bars = [cell.bar if (cell := column.of_line(line)) is not None else 0.0 for line in range(len(view.data.source))]
    assert bars.index(max(bars)) == 5
    assert bars[5] > 0.6
    assert column.title.startswith("measured share of time")
    (pane,) = (number for number, pane in enumerate(view.data.panes) if pane.level == "asm")
    (samples,) = view.data.details[pane].columns
    texts = [line.text for line in view.data.panes[pane].lines]
    cells = {text: cell for line, text in enumerate(texts) if (cell := samples.of_line(line)) is not None}
    assert max(cell.bar for cell in cells.values()) == 1.0
    assert not any(text.endswith(":") for text in cells)


def test_functions_of_operators_are_shown_from_their_graph_to_machine_code() -> None:
    view = explore(attention, *QKV)
    model = view.data
    assert model.levels[:3] == ("graph", "schedule", "tile")
    assert [pane.stage for pane in model.stages("graph")] == ["capture", "graph-simplify"]
    assert model.source[0] == '@module("attention")'
    assert model.source[-1] == "    return op.matmul(A, V)"
    # A line of the source has counterparts at every level, and a node leads back to its line alone.
    softmax = line_of("A = op.softmax")
    found = model.counterparts(model.select_source(softmax))
    assert all(found[model.panes.index(model.stages(level)[-1])] for level in model.levels)
    graph = model.panes.index(model.stages("graph")[-1])
    texts = [model.panes[graph].lines[index].text for index in found[graph]]
    assert [text.split(" = ")[0].strip() for text in texts] == [
        "%g2[i]",
        "%g5[i, j]",
        "%g6[i, j]",
        "%g7[i]",
        "%A[i, j]",
    ]
    scores = next(n for n, line in enumerate(model.panes[graph].lines) if line.text.lstrip().startswith("%S["))
    assert model.source_counterparts(model.select_line(graph, scores)) == (line_of("S = op.matmul"),)
    assert view.text().startswith("attention for cpu: graph, schedule, tile after ")
    assert len(view.html()) < 200_000


def test_a_kernel_of_several_is_chosen() -> None:
    view = explore(classify, *ROWS, kernel=1, levels="schedule", target="cuda:sm_90a")
    assert view.title == "classify, kernel 1 softmax of 3 for cuda:sm_90a"
    assert view.data.levels[-2:] == ("ptx", "sass")
    sent: list[Any] = []
    view.answer({"type": "kernel", "kernel": 2}, sent.append)
    assert (sent[0]["data"]["kernel"], sent[0]["data"]["kernels"][2]) == (2, "kernel 2 sum")
    with pytest.raises(ValueError, match="knows no message"):
        view.answer({"type": "nothing"}, sent.append)
    with pytest.raises(NothingToShow, match="classify is 3 kernels, and 3 is none"):
        explore(classify, *ROWS, kernel=3)
    with pytest.raises(UnknownLevel, match="'sass' is no level of classify"):
        explore(classify, *ROWS, levels="sass")
    assert explore(classify, *ROWS, levels="graph", only=True).data.levels == ("graph",)


def test_passes_on_graphs_say_what_they_made_and_removed() -> None:
    model = explore(attention, *QKV).data
    made = {record: life for record, life in model.lives.items() if life.born == 1}
    removed = [record for record, life in model.lives.items() if life.last == 0]
    assert made
    assert removed
    assert all(str(model.made_by(record)) == str(model.panes[1]) for record in made)
    assert all(model.removed_by(record) is model.panes[1] for record in removed)
