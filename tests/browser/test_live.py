"""Views in a real JupyterLab: static, live, after a reload of the page, and in a notebook opened without a kernel."""

import pytest
from playwright.sync_api import Page, expect

from support import notebook_files
from support.lab import CURRENT, Lab, Watch

pytestmark = pytest.mark.browser

LIVE = ".jp-OutputArea-output:not(.jp-RenderedHTMLCommon)"
SETUP = """
from tessera.core.base.dtypes import bf16
from tessera.viz import mesh_view
from tessera.viz.mesh.model import Mesh, sharded
mesh = Mesh.of({"data": 2, "model": 4})
view = mesh_view(sharded(mesh, (64, 96), ("data", "model"), bf16, "W"))
"""


def test_static_and_live_views_share_a_page(lab: Lab, page: Page, watch: Watch) -> None:
    frames: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: frames.append(len(data))))
    lab.run_cells(page, "live", SETUP, "view", "view.widget()", "view.widget()")
    page.wait_for_function("document.querySelectorAll('.tsr-mesh').length >= 3")
    first = page.locator(".tsr-mesh").first
    first.locator("[data-device='3']").click()
    expect(first.locator("[data-device='3']")).to_have_attribute("aria-selected", "true")
    # The scripts of all views come once, however many live views there are.
    assert len([size for size in frames if size > 100_000]) == 1
    assert watch.errors == []
    assert watch.requests == []


def save(page: Page) -> None:
    """Save the notebook on top and wait until it is on the disk."""
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function(f"!{CURRENT}.context.model.dirty")


def test_a_live_view_comes_back_with_the_page(lab: Lab, page: Page, watch: Watch) -> None:
    lab.run_cells(page, "reloaded", SETUP, "view.widget()")
    page.wait_for_selector(f"{LIVE} .tsr-mesh")
    save(page)
    page.reload()
    page.wait_for_selector(f"{LIVE} .tsr-mesh")
    page.click(f"{LIVE} [data-device='5']")
    expect(page.locator(f"{LIVE} [data-device='5']").first).to_have_attribute("aria-selected", "true")
    assert watch.requests == []


def test_a_saved_notebook_shows_its_views_without_a_kernel(lab: Lab, page: Page, watch: Watch) -> None:
    lab.run_cells(page, "saved", SETUP, "view", "view.widget()")
    save(page)
    page.evaluate(f"{CURRENT}.sessionContext.shutdown()")
    lab.open(page, "saved.ipynb", "saved-again")
    page.click("text=No Kernel", timeout=3_000) if page.locator(".jp-Dialog").count() else None
    static = page.locator(".jp-OutputArea-output.jp-RenderedHTMLCommon .tsr-mesh")
    static.first.locator("[data-device='2']").click()
    expect(static.first.locator("[data-device='2']")).to_have_attribute("aria-selected", "true")
    # What the live view showed is still there, folded.
    page.click("text=static form of this view")
    static.nth(1).locator("[data-device='4']").click()
    assert watch.requests == []


def test_an_untrusted_notebook_shows_the_plain_form(lab: Lab, page: Page, watch: Watch) -> None:
    lab.run_cells(page, "trusted", SETUP, "view")
    save(page)
    notebook = notebook_files.read(lab.root / "trusted.ipynb")
    notebook.cells[0].source += "\n# copied"  # a signature belongs to a content: this one is nobody's
    notebook_files.write(notebook, lab.root / "copied.ipynb")
    lab.open(page, "copied.ipynb", "copied")
    plain = page.locator(".jp-OutputArea-output td:has-text('[32:64, 48:72]')")
    plain.wait_for()
    expect(page.locator(".tsr-mesh")).to_have_count(0)
    assert watch.requests == []
