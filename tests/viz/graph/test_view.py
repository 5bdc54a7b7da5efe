"""The graph view: steps, payload, texts, the plain form."""

from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest

from tessera import kernel, mut, tensor, tile
from tessera.core.errors.catalog import UnknownLevel
from tessera.session.compiled import Compiled
from tessera.viz import dataflow, graph_view
from tessera.viz.graph import model
from tessera.viz.graph.decisions import Decisions
from tessera.viz.graph.model import Edge, Graph, Node, Region
from tessera.viz.graph.view import MOST_OPEN, closed_at_first, outline, steps_of
from tests.viz.graph.conftest import Observed


@kernel
def halves(x: tensor, y: mut[tensor]):
    for r in tile.range(x.shape[0], step=8):
        y[r : r + 8] = x[r : r + 8] * 0.5


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    x = np.zeros(64, np.float32)
    return halves.compile(x, x.copy(), target="cpu")


def test_a_dataflow_view_has_every_pass_of_the_level(compiled: Compiled):
    view = dataflow(compiled)
    passes = [stage.name for stage in compiled.stages if stage.level == "tile" and stage.name]
    assert [step.name for step in view.data.steps] == passes
    assert view.shown.name == passes[-1]
    assert dataflow(compiled, stage="to-tile").shown.name == "to-tile"
    assert view.text() == (
        "halves: dataflow, tile of cpu: 5 operations, 4 folded, 9 edges, 1 region, 11 steps, shown: tile-place-values"
    )
    assert repr(view) == view.text()


def test_levels_and_stages_that_are_not_there(compiled: Compiled):
    with pytest.raises(UnknownLevel, match="'ptx' is no level of halves"):
        dataflow(compiled, level="ptx")
    with pytest.raises(UnknownLevel, match="'tile' has no stage 'nothing'"):
        dataflow(compiled, stage="nothing")


def test_the_plain_form_is_an_outline(compiled: Compiled):
    lines = outline(dataflow(compiled).shown.graph)
    assert lines[0] == "kernel halves"
    assert any(line.strip().startswith("load") and "<- x" in line for line in lines), lines
    assert lines[-1].startswith("folded: ")
    plain = dataflow(compiled).plain_html()
    assert not any(f"<{name}" in plain for name in ("script", "style", "svg", "iframe"))


def test_a_static_page_is_small(compiled: Compiled):
    assert len(dataflow(compiled).html()) < 100_000


def test_the_payload_holds_each_node_once(product: Observed):
    stages = [(stage.name, stage.records) for stage in product.stages if stage.level == "tile" and stage.name]
    steps = steps_of(stages, Decisions(product.buffers))
    payload = graph_view(model.GraphModel("product", steps, len(steps) - 1)).payload()
    assert isinstance(payload, dict)
    nodes, shown = payload["nodes"], payload["steps"]
    assert isinstance(nodes, list)
    assert isinstance(shown, list)
    assert len({str(node) for node in nodes}) == len(nodes)
    assert len(nodes) < 5 * len(steps[-1].graph.nodes)
    for step, data in zip(steps, shown, strict=True):
        assert isinstance(data, dict)
        found = data["nodes"]
        assert isinstance(found, list)
        assert [nodes[int(str(i))]["id"] for i in found] == [node.id for node in step.graph.nodes]  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]


def test_passes_say_what_they_changed(product: Observed):
    stages = [(stage.name, stage.records) for stage in product.stages if stage.level == "tile" and stage.name]
    steps = {step.name: step for step in steps_of(stages, Decisions(product.buffers))}
    changed = steps["cuda-select-mma"].changes
    assert [(change.kind, change.fields) for change in changed if change.id != "kernel"] == [
        ("changed", ("attributes",))
    ]
    assert any(change.kind == "removed" for change in steps["tile-distribute-ranges"].changes)


def test_large_graphs_open_with_closed_regions():
    regions = [Region("top", "kernel"), *(Region(f"r{i}", f"for {i}", "top") for i in range(4))]
    nodes = [Node(f"n{i}", "op", region=f"r{i % 4}" if i >= 100 else "top") for i in range(2000)]
    graph = Graph(tuple(nodes), (), tuple(regions))
    closed = closed_at_first(graph)
    seen = sum(node.region not in closed for node in nodes)
    assert 0 < len(closed) < 4
    assert seen <= MOST_OPEN + 475
    assert closed_at_first(Graph(tuple(nodes[:50]), (), tuple(regions))) == ()


def test_any_graph_is_shown():
    graph = Graph((Node("a", "gemm", "operator"), Node("b", "softmax")), (Edge("a", "b", label="scores"),))
    view = graph_view(graph, title="two operators")
    assert view.text() == "two operators: 2 operations, 1 edge, 0 regions"
    assert outline(graph) == ["gemm operator", "softmax <- gemm"]


def test_without_dot_the_page_lays_out_what_is_not_too_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tessera.viz.graph.dot.is_installed", lambda: False)
    names = [f"n{number}" for number in range(400)]
    large = Graph(
        (*(Node(name, name) for name in names), *(Node(name, name, region="r") for name in "ab")),
        (*(Edge(a, b) for a, b in pairwise(names)), Edge("a", "b")),
        (Region("r", "region"),),
    )
    layout = cast("dict[str, Any]", graph_view(large).payload())["layout"]
    assert layout["engine"] == "layered"
    outer, inner = layout["variants"]["main"][""][0], layout["variants"]["main"]["r"][0]
    assert outer["links"] == []
    assert inner["links"] == [["a", "b"]]
    assert inner["extent"][1] > 0
