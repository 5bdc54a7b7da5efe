"""Every view in a real JupyterLab: as a cell's output and live, in the dark theme, saved, and without a kernel."""

import pytest
from playwright.sync_api import Locator, Page, expect

from support.lab import CURRENT, Lab, Watch

pytestmark = pytest.mark.browser

SETUP = """
import numpy as np, tessera
from tessera import autotune, viz
from tessera.viz.mesh.model import Mesh
module = tessera.compile_source('''
@kernel
def product(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i in tile.range(m, step=BM):
        for j in tile.range(n, step=16):
            C[i:i+BM, j:j+16] = tile.dot(A[i:i+BM, :], B[:, j:j+16])
''')
A, B, C = np.ones((40, 16), np.float32), np.ones((16, 24), np.float32), np.zeros((40, 24), np.float32)
k = module.product.variant(BM=16)
k(A, B, C)
p = tessera.profile(k)(A, B, C)
s = autotune.search(kernel=k, params={"BM": [8, 16]}, args=(A, B, C))
from tessera import graph, op
@graph.module("scores")
def scores(A, B):
    S = op.matmul(A, B)
    P = op.softmax(S)
    return P, op.sum(P, 0)
from tessera import dist
place = dist.Mesh(axes=["dp", "tp"], devices=range(8), shape=(2, 4))
X = dist.tensor((64, 32), dist.Block("dp"), place)
W = dist.tensor((32, 64), dist.Block((None, "tp")), place)
V = dist.tensor((64, 32), dist.Block("tp"), place)
@graph.module("layer")
def layer(x, w, v):
    return op.matmul(op.gelu(op.matmul(x, w)), v)
plans = dist.plan.search(dist.Transformer(layers=8, width=1024, heads=16, sequence=512, batch=64), 8)
"""
VIEWS = {
    "explorer": "viz.explore(k)",
    "diff": "viz.diff(k, module.product.variant(BM=8), args=(A, B, C))",
    "film": "viz.film(k)",
    "graph": "viz.dataflow(k)",
    "fusion": "viz.fusion(scores, A, B)",
    "memory": "viz.memory(scores, A, B)",
    "tiles": "viz.tiles(k, A, B, C)",
    "layout": "viz.layout(k.compile(A, B, C, target='cuda:sm_90a'))",
    "schedule": "viz.schedule(k, A, B, C)",
    "timeline": "viz.timeline(p)",
    "heatmap": "viz.heatmap(p)",
    "roofline": "viz.roofline(p)",
    "advice": "viz.explain(p)",
    "dashboard": "viz.dashboard(s)",
    "mesh": "viz.mesh_view(Mesh.of({'data': 2, 'model': 4}))",
    "devices": "viz.devices(layer, X, W, V)",
    "collectives": "viz.collectives(layer, X, W, V)",
    "parallel": "viz.parallel(plans)",
    "edit": "viz.edit(k, A, B, C)",
    "workbench": "viz.workbench(k, A, B, C)",
}
"""How each view is made, by the kind of its renderer."""
OUTPUT = ".jp-OutputArea-output.jp-RenderedHTMLCommon"
LIVE = ".jp-OutputArea-output:not(.jp-RenderedHTMLCommon)"


def shown(page: Page, cell: int, kind: str, form: str) -> Locator:
    """Scroll to a cell, which JupyterLab draws then, and return the view in its output, which is ready."""
    page.wait_for_function(f"{CURRENT}?.content?.widgets?.length > {cell}")
    page.evaluate(f"{CURRENT}.content.scrollToItem({cell})")
    page.evaluate(f"{CURRENT}.content.widgets[{cell}].node.scrollIntoView()")
    output = page.locator(f".jp-Cell[data-windowed-list-index='{cell}'] {form}")
    view = output.locator(f".tsr-view[data-kind={kind}][data-ready]").first
    expect(view).to_be_visible()
    return view


@pytest.mark.parametrize("group", [0, 1, 2])
def test_each_is_shown_and_comes_back(lab: Lab, page: Page, watch: Watch, group: int) -> None:
    kinds = list(VIEWS)[group::3]
    calls = [VIEWS[kind] for kind in kinds]
    lab.run_cells(page, f"views{group}", SETUP, *calls, *(f"{call}.widget()" for call in calls))
    for number, kind in enumerate(kinds, start=1):
        static = shown(page, number, kind, OUTPUT)
        live = shown(page, number + len(kinds), kind, LIVE)
        # The keyboard reaches both.
        for view in (static, live):
            stop = view.locator("button:enabled:visible, [tabindex='0']:visible").first
            if kind == "advice" and stop.count() == 0:
                # What a measurement says of no line in particular has nothing to press.
                expect(view.locator(".tsr-verdict")).not_to_be_empty()
                continue
            stop.focus()
            expect(stop).to_be_focused()
    lab.choose_theme(page, "Dark")
    for number, kind in enumerate(kinds, start=1):
        expect(shown(page, number, kind, OUTPUT)).to_contain_class("tsr-dark")
        expect(shown(page, number + len(kinds), kind, LIVE)).to_contain_class("tsr-dark")
    lab.choose_theme(page, "Light")
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function(f"!{CURRENT}.context.model.dirty")
    page.evaluate(f"{CURRENT}.sessionContext.shutdown()")
    assert watch.errors == []
    lab.open(page, f"views{group}.ipynb", f"views{group}-again")
    for number, kind in enumerate(kinds, start=1):
        shown(page, number, kind, OUTPUT)
    # Once the new kernel is there, JupyterLab says of each live view that the model of it ended with the old one.
    assert [error for error in watch.errors if "widget model not found" not in error] == []
    assert watch.requests == []
