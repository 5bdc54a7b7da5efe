"""The autotuning dashboard in a real JupyterLab: a search in the background, steered by clicks, saved and reopened."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from support.lab import CURRENT, Lab, Watch
from tessera.tuning.results import MEASURED, Trial, Tuning
from tessera.viz import dashboard

pytestmark = pytest.mark.browser

SETUP = """
import numpy as np, tessera
from tessera import autotune
from tessera.viz import dashboard
k = tessera.compile_source('''
@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP]
''').doubled.variant(STEP=64)
x = np.ones(5000, np.float32)
"""
START = "h = autotune.start(kernel=k, params={'STEP': [16 * i for i in range(1, 200)]}, args=(x, x.copy()), budget=600)"
STATE = ".tsr-tuning .tsr-state"


DECIDED = Tuning(
    "gemm", "cpu",
    (
        Trial({"BM": 16}, MEASURED, (0.9e-3,), "a", at=1.0),
        Trial({"BM": 32}, MEASURED, (2e-3,), "b", at=2.0, compared=(2e-3,) * 6),
        Trial({"BM": 64}, MEASURED, (2e-3,), "c", at=3.0, compared=(1e-3,) * 6),
        Trial({"BM": 128}, MEASURED, (2e-3,), "d", at=4.0, compared=(1.02e-3, 1.04e-3, 1.03e-3, 1.03e-3, 1.03e-3, 0.99e-3)),
    ),
    complete=True, default={"BM": 32},
)  # fmt: skip


HOVER = """
[...document.querySelectorAll('.tsr-chart')].map((node) => {
  const top = node.querySelector('.tsr-over'), tip = node.querySelector('.tsr-tip'), box = top.getBoundingClientRect();
  for (let y = 4; y < box.height; y += 4) for (let x = 4; x < box.width; x += 4) {
    top.dispatchEvent(new PointerEvent('pointermove', { clientX: box.x + x, clientY: box.y + y }));
    if (!tip.hidden) return tip.textContent;
  }
  return '';
})
"""
"""What the first mark of each chart tells, of all that the pointer comes across."""


def test_what_decided_is_shown(page: Page, tmp_path: Path, watch: Watch) -> None:
    page.goto(dashboard(DECIDED).save(tmp_path / "decided.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready] .tsr-trials [data-row]")
    finalists = page.get_by_role("listitem")
    expect(finalists).to_have_text([
        re.compile("★ BM=64.*1,000.0 µs"), re.compile(r"BM=128.*1\.030 × the best \(0\.990 to 1\.040\), wins 1 of 6"),
        re.compile(r"BM=32, the default.*2\.000 × the best \(2\.000 to 2\.000\), wins 0 of 6"),
    ])  # fmt: skip
    remarks = page.locator(".tsr-trials [data-row] td:last-child")
    assert remarks.all_inner_texts() == [
        "★ best, decided in 6 rounds", "1.030 × the best in 6 rounds", "default, 2.000 × the best in 6 rounds",
        "0.90 × the best, timed at another moment",
    ]  # fmt: skip
    finalists.nth(1).click()
    expect(page.locator(".tsr-foot").first).to_contain_text("BM=128: 1,030.0 µs")
    expect(finalists.nth(1)).to_have_class(re.compile("tsr-on"))
    page.locator("[data-sort=time]").click()
    assert page.locator(".tsr-trials [data-row]").first.get_attribute("data-row") == "0"

    # Whatever is under the pointer is told beside it, on each chart.
    assert [told.startswith(("BM=", "after trial ")) for told in page.evaluate(HOVER)] == [True, True, True]
    assert watch.errors == []


def run_cell(page: Page, index: int) -> None:
    page.evaluate(f"{CURRENT}.content.activeCellIndex = {index}")
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-cell')")


def state_is(page: Page, words: str) -> None:
    page.wait_for_function(
        "([where, words]) => document.querySelector(where)?.textContent.includes(words)", arg=[STATE, words]
    )


def choose_the_last_row(live: Locator) -> None:
    """Click on a row far down, and see that what lies below the table is below it."""
    rows = live.get_by_role("region", name="all trials")
    rows.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    last = live.locator("[data-row]").last
    expect(last).to_be_in_viewport(ratio=0.9)
    count = live.locator(".tsr-trials").get_attribute("aria-rowcount")
    assert count is not None
    expect(last).to_have_attribute("aria-rowindex", count)
    last.locator("td").first.click()
    expect(last).to_have_attribute("aria-selected", "true")
    expect(live.locator("[data-row][aria-selected=true]")).to_have_count(1)
    foot = live.locator(".tsr-foot").first
    expect(foot).to_contain_text(f"STEP={last.locator('td').first.inner_text()}")
    table, below = rows.bounding_box(), foot.bounding_box()
    assert table is not None
    assert below is not None
    assert table["y"] + table["height"] <= below["y"] + 1
    live.locator(".tsr-asks").wait_for()


def use_the_chosen_one(live: Locator, page: Page) -> None:
    """Write the chosen configuration into a cell below the dashboard's, and take the cell away again."""
    step = live.locator("[data-row][aria-selected=true] td").first.inner_text()
    live.locator("[data-do=use]").click()
    expect(live.locator(".tsr-foot").first).to_contain_text("inserted: ")
    content = f"{CURRENT}.content"
    assert page.evaluate(f"{content}.activeCell.model.sharedModel.source") == f"doubled = doubled.variant(STEP={step})"
    assert page.evaluate(f"{content}.activeCellIndex") == 3
    page.evaluate(f"{content}.model.sharedModel.deleteCell(3)")


def add_by_hand(live: Locator) -> None:
    """Submit a configuration by Enter: first one that is refused beside the field."""
    field, refused = live.locator(".tsr-add input"), live.locator(".tsr-refused")
    field.fill("STEP=banana")
    field.press("Enter")
    expect(refused).to_contain_text("is of another kind than its values in the search")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("STEP=4096")
    expect(refused).to_be_hidden()
    field.press("Enter")


def test_a_search_is_watched_and_steered(lab: Lab, page: Page, watch: Watch) -> None:
    lab.run_cells(page, "dashboard", SETUP, START, "dashboard(h)", "print('state', h.state, len(h.pins))")
    live = page.locator(".tsr-tuning").first
    page.wait_for_function(
        "[...document.querySelectorAll('[data-row] td')].some(cell => cell.textContent === 'measured')"
    )
    state_is(page, "running")

    # Ctrl-C in a cell does not touch it, and the dashboard answers afterwards.
    page.evaluate(f"void {CURRENT}.sessionContext.session.kernel.interrupt()")

    live.locator("[data-do=pause]").click()
    state_is(page, "paused")
    live.locator("[data-row]").first.click()
    live.locator(".tsr-detail table").wait_for()
    live.locator("[data-do=pin]").click()
    page.wait_for_function("document.querySelector('[data-row]').textContent.includes('pinned')")
    add_by_hand(live)
    page.wait_for_function("document.querySelector('.tsr-tuning .tsr-foot').textContent.includes('next: STEP=4096')")
    live.locator("[data-do=pause]").click()
    page.wait_for_function(
        """[...document.querySelector('.tsr-trials select').options].some(each => each.textContent === '4096')"""
    )
    run_cell(page, 3)
    page.wait_for_function("document.body.innerText.includes('state running 1')")

    live.locator("[data-do=stop]").click()
    state_is(page, "stopped")
    assert live.locator("[data-do=pause]").is_disabled()
    rows = live.get_by_role("region", name="all trials")
    rows.focus()
    rows.press("Home")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    choose_the_last_row(live)
    use_the_chosen_one(live, page)
    live.locator("[data-do=diff]").click()
    page.wait_for_selector(".tsr-detail [data-kind=diff][data-ready]")
    live.locator("[data-do=profile]").press("Enter")
    page.wait_for_function("document.querySelectorAll('.tsr-detail [data-kind=timeline][data-ready]').length === 2")

    # The static form below is of the search as it ended; it is what a notebook without a kernel shows.
    page.wait_for_function(
        f"[...{CURRENT}.content.model.cells].some(cell => cell.type === 'code' && JSON.stringify(cell.toJSON().outputs).includes('times the best</td>'))"
    )
    page.evaluate(f"{CURRENT}.context.save()")
    page.wait_for_function(f"!{CURRENT}.context.model.dirty")
    saved = json.loads((lab.root / "dashboard.ipynb").read_text())
    html = "".join("".join(output["data"].get("text/html", "")) for output in saved["cells"][2]["outputs"])
    assert "times the best</td>" in html
    assert 'data-kind="dashboard"' in html
    assert [error for error in watch.errors if "KeyboardInterrupt" not in error] == []
    assert watch.requests == []


def test_a_saved_search_is_seen_without_a_kernel(lab: Lab, page: Page, watch: Watch) -> None:
    stored = lab.root / "dashboard.ipynb"
    if not stored.is_file():
        lab.run_cells(page, "dashboard", SETUP, START, "h.stop()", "dashboard(h)")
        page.evaluate(f"{CURRENT}.context.save()")
    name = lab.add(stored, "reopened.ipynb", trusted=True)
    lab.open(page, name, "reopened")
    page.evaluate(f"void {CURRENT}.sessionContext.shutdown()")
    page.wait_for_selector(".jp-OutputArea details", state="attached")
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.wait_for_selector("[data-found][data-ready] .tsr-trials [data-row]")
    assert page.locator("[data-found] .tsr-state").first.inner_text() != ""
    expect(page.locator("[data-found] [data-do=pause]")).to_have_count(0)
    page.locator("[data-found] [data-sort=STEP]").first.click()
    expect(page.locator("[data-found] th[data-column=STEP]").first).to_have_attribute("aria-sort", "ascending")
