"""Writing a `%%tessera` cell in a real JupyterLab: colours, underlined mistakes, hover, completion, and no other cell."""

import pytest
from playwright.sync_api import Locator, Page, expect

from support import notebook_files
from support.lab import CURRENT, RUN_MS, Lab, Watch

pytestmark = pytest.mark.browser

LOAD = "%load_ext tessera_magics"
KERNEL = """%%tessera --target cpu
# scale the rows, 8_KiB of it
@kernel tile[(128,)] shared(8_KiB)
def scale(x: f32[n], y: mut f32[n], alpha: f32):
    i = tile.linear_id()
    if i < n:
        y[i] = alpha * x[i]
"""
PYTHON = "def mut(tile, f32):\n    return tile.softmax(f32, missing)"
INDENT = 8 * " "


def opened(lab: Lab, page: Page, name: str, *cells: str) -> list[Locator]:
    """Open a notebook with these cells, Tessera's extension being loaded in its kernel."""
    notebook_files.write(notebook_files.of_code((LOAD, *cells)), lab.root / f"{name}.ipynb")
    lab.open(page, f"{name}.ipynb", name)
    page.wait_for_function(f"{CURRENT}?.sessionContext?.session?.kernel?.status === 'idle'", timeout=RUN_MS)
    page.locator(".jp-Cell .cm-content").first.click()
    page.keyboard.press("Control+Enter")
    page.wait_for_function(f"{CURRENT}.content.widgets[0].model.executionCount === 1", timeout=RUN_MS)
    return editors(page, 1 + len(cells))


def editors(page: Page, number: int) -> list[Locator]:
    """Return the editors of the cells, which JupyterLab shows one after the other."""
    shown = page.locator(".jp-CodeCell .cm-content")
    expect(shown).to_have_count(number)
    return shown.all()


def words(cell: Locator, kind: str) -> list[str]:
    """The words of a cell that have a colour of their own."""
    return cell.locator(f".tsr-cell-{kind}").all_inner_texts()


def colour(cell: Locator, kind: str) -> str:
    return cell.locator(f".tsr-cell-{kind}").first.evaluate("node => getComputedStyle(node).color")


def type_at_end(page: Page, cell: Locator, text: str) -> None:
    cell.click()
    page.keyboard.press("Control+End")
    page.keyboard.type(text)


def test_a_cell_has_its_colours_and_other_cells_are_left_alone(lab: Lab, page: Page, watch: Watch) -> None:
    _, kernel, python = opened(lab, page, "colours", KERNEL, PYTHON)
    expect(kernel.locator(".tsr-cell-extent")).to_have_count(3)
    assert words(kernel, "magic") == ["%%tessera"]
    assert "".join(words(kernel, "option")) == "--target"  # Python's own colours part it
    assert words(kernel, "value") == ["cpu"]
    assert words(kernel, "clause") == ["tile", "shared"]
    assert "".join(words(kernel, "unit")) == "8_KiB"
    assert words(kernel, "modifier") == ["mut"]
    assert words(kernel, "type") == ["f32", "f32", "f32"]
    assert words(kernel, "operation") == ["linear_id"]
    assert words(kernel, "extent") == ["n", "n", "n"]
    assert words(kernel, "parameter") == ["x", "y", "alpha", "y", "alpha", "x"]
    expect(python.locator("[class*=tsr-]")).to_have_count(0)
    lab.choose_theme(page, "Light")
    light = [colour(kernel, kind) for kind in ("type", "modifier", "extent")]
    assert len(set(light)) == 3
    lab.choose_theme(page, "Dark")
    assert all(
        a != b for a, b in zip(light, [colour(kernel, kind) for kind in ("type", "modifier", "extent")], strict=True)
    )
    lab.choose_theme(page, "Light")
    assert watch.errors == []
    assert watch.requests == []


def test_a_mistake_is_underlined_while_typing_and_says_what_to_try(lab: Lab, page: Page, watch: Watch) -> None:
    _, kernel, python = opened(lab, page, "mistakes", KERNEL, PYTHON)
    expect(kernel.locator(".tsr-cell-parameter")).to_have_count(6)
    expect(kernel.locator(".tsr-cell-mistake")).to_have_count(0)
    type_at_end(page, kernel, INDENT + "y[i] = tile.sotmax(x) + alpah")
    wrong = kernel.locator(".tsr-cell-mistake")
    expect(wrong).to_have_text("tile.sotmax")
    expect(wrong).to_have_attribute("data-code", "TSR-E102")
    wrong.hover()
    tip = page.locator(".tsr-cell-tip")
    expect(tip).to_contain_text("tile has no 'sotmax'")
    expect(tip).to_contain_text("did you mean 'softmax'?")
    page.mouse.move(5, 5)
    expect(tip).to_have_count(0)
    # The same from the keyboard, and gone with the next key.
    kernel.click()
    page.keyboard.press("F8")
    expect(page.locator(".tsr-cell-tip[role=status]")).to_contain_text("TSR-E102")
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    page.keyboard.press("Control+End")
    for _ in range(len("y[i] = tile.sotmax(x) + alpah")):
        page.keyboard.press("Backspace")
    expect(wrong).to_have_count(0)
    expect(python.locator("[class*=tsr-]")).to_have_count(0)
    assert watch.errors == []


def test_hover_shows_types_and_documentation(lab: Lab, page: Page, watch: Watch) -> None:
    _, kernel, _ = opened(lab, page, "hover", KERNEL, PYTHON)
    expect(kernel.locator(".tsr-cell-parameter")).to_have_count(6)
    tip = page.locator(".tsr-cell-tip")
    kernel.locator(".tsr-cell-parameter", has_text="y").last.hover()
    expect(tip).to_contain_text("y: mut f32[n]")
    kernel.locator(".tsr-cell-operation").hover()
    expect(tip).to_contain_text("tile.linear_id(axis=None)")
    expect(tip).to_contain_text("Index of the lane within its group.")
    kernel.locator(".tsr-cell-extent").last.hover()
    expect(tip).to_contain_text("The extent of axis 0 of x and axis 0 of y.")
    assert watch.errors == []


def test_completion_offers_names_of_the_language(lab: Lab, page: Page, watch: Watch) -> None:
    _, kernel, _ = opened(lab, page, "complete", KERNEL, PYTHON)
    expect(kernel.locator(".tsr-cell-parameter")).to_have_count(6)
    type_at_end(page, kernel, INDENT + "y[i] = tile.so")
    page.keyboard.press("Tab")
    offers = page.locator(".jp-Completer .jp-Completer-match")
    expect(offers).to_have_text(["softmax"])
    page.keyboard.press("Enter")
    expect(kernel).to_contain_text("y[i] = tile.softmax")
    page.keyboard.type("(x) + tile.r")
    page.keyboard.press("Tab")
    expect(offers.first).to_have_text("range")
    assert {"range", "relu", "reshape", "rsqrt"} <= set(offers.all_inner_texts())
    assert len(offers.all_inner_texts()) == len(set(offers.all_inner_texts()))
    assert watch.errors == []


def test_without_the_service_there_are_colours_and_no_errors(lab: Lab, page: Page, watch: Watch) -> None:
    notebook_files.write(notebook_files.of_code((KERNEL, LOAD)), lab.root / "unloaded.ipynb")
    lab.open(page, "unloaded.ipynb", "unloaded")
    kernel, load = editors(page, 2)
    expect(kernel.locator(".tsr-cell-type")).to_have_count(3)
    page.wait_for_function(f"{CURRENT}?.sessionContext?.session?.kernel?.status === 'idle'", timeout=RUN_MS)
    type_at_end(page, kernel, INDENT + "y[i] = alpah")
    expect(kernel.locator(".tsr-cell-mistake")).to_have_count(0)
    # Loading the extension later is enough.
    load.click()
    page.keyboard.press("Control+Enter")
    expect(kernel.locator(".tsr-cell-mistake")).to_have_text("alpah")
    assert watch.errors == []


def test_a_busy_kernel_answers_later_and_a_new_one_again(lab: Lab, page: Page, watch: Watch) -> None:
    _, kernel, busy = opened(lab, page, "busy", KERNEL, "import time; time.sleep(600)")
    expect(kernel.locator(".tsr-cell-parameter")).to_have_count(6)
    busy.click()
    page.keyboard.press("Control+Enter")
    page.wait_for_function(f"{CURRENT}.sessionContext.session.kernel.status === 'busy'")
    type_at_end(page, kernel, f"{INDENT}y[i] = alpah")
    expect(kernel.locator(".tsr-cell-parameter")).to_have_count(6)  # colours need no answer
    page.evaluate(f"{CURRENT}.sessionContext.session.kernel.interrupt()")
    wrong = kernel.locator(".tsr-cell-mistake")
    expect(wrong).to_have_text("alpah")
    page.evaluate(f"{CURRENT}.sessionContext.session.kernel.restart()")
    page.wait_for_function(f"{CURRENT}.sessionContext.session.kernel.status === 'idle'", timeout=RUN_MS)
    page.locator(".jp-Cell .cm-content").first.click()
    page.keyboard.press("Control+Enter")
    page.wait_for_function(f"{CURRENT}.content.widgets[0].model.executionCount === 1", timeout=RUN_MS)
    type_at_end(page, kernel, "a")
    expect(wrong).to_have_text("alpaha")
    assert watch.errors == []
