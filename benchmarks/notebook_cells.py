"""Cells as people use them: sizes of what they show, mistakes while typing, the first moments of a kernel process."""

import gzip
from collections.abc import Iterator
from typing import Final

from playwright.sync_api import Page

from notebook_figures import Figure
from notebook_models import SMALL
from notebook_page import LIVE, Cells
from notebook_views import IMPORTS, STATIC, Bench, samples
from support import notebook_files
from support.lab import CURRENT, IDLE, RUN_MS
from tessera import viz

SCRIPT_KB: Final = 450.0
PACKED_KB: Final = 150.0
OUTPUT_KB: Final = 100.0
WORKBENCH_KB: Final = 300.0
"""Of what holds several views."""
UNDERLINE_MS: Final = 300.0
COMPLETION_MS: Final = 150.0
LOAD_MS: Final = 300.0
_HUB: Final = "__tessera_v1\\.complete = true"
"""What only the message with the scripts of all views says."""
_EDITED: Final = """%%tessera --target cpu
@kernel
def attention(q: f32[heads, s, d], k: f32[heads, s, d], v: f32[heads, s, d], out: mut f32[heads, s, d]):
    for h in tile.range(heads):
        for i in tile.range(s, step=128):
            block = q[h, i : i + 128, :] * 0.125
            largest = tile.full((128, 1), -1e30)
            total = tile.zeros((128, 1))
            acc = tile.zeros((128, d))
            for j in range(0, s, 128):
                scores = tile.dot(block, k[h, j : j + 128, :].T)
                bound = tile.maximum(largest, tile.max(scores, axis=1, keepdims=True))
                weights = tile.exp(scores - bound)
                shrink = tile.exp(largest - bound)
                total = total * shrink + tile.sum(weights, axis=1, keepdims=True)
                acc = acc * shrink
                acc += tile.dot(weights, v[h, j : j + 128, :])
                largest = bound
            out[h, i : i + 128, :] = acc / total
"""
_SHORT: Final = """%%tessera --target cpu
@kernel
def scale(x: f32[n], y: mut f32[n], alpha: f32):
    i = tile.linear_id()
    if i < n:
        y[i] = alpha * x[i]
"""
_LOADED: Final = """began = time.perf_counter()
get_ipython().run_line_magic("load_ext", "tessera_magics")
print(time.perf_counter() - began)"""
_CALLED: Final = f"""import tessera
k = tessera.compile_source('''{SMALL}''').product.variant(BM=16)
a, b, c = (numpy.ones(shape, numpy.float32) for shape in ((40, 16), (16, 24), (40, 24)))
k(a, b, c)"""


def sizes(bench: Bench) -> Iterator[Figure]:
    """Yield sizes of outputs and scripts in bytes on their way, and how many requests leave the machine."""
    page = bench.new_page()
    names = viz.__all__
    cells = [f"views[{name!r}]" for name in names]
    cells.append("for name in ('explore', 'timeline', 'heatmap'): display(views[name].widget())")
    notebook = Cells(bench.lab, page, "sizes", f"{IMPORTS}views = models.small_views()", *cells)
    for cell, name in enumerate(names, 1):
        notebook.run(cell)
        size = int(
            page.evaluate(
                f"new TextEncoder().encode([{CURRENT}.content.widgets[{cell}].model.sharedModel.outputs[0]"
                ".data['text/html']].flat().join('')).length"
            )
        )
        limit = WORKBENCH_KB if name == "workbench" else OUTPUT_KB
        yield Figure(f"static output of a kernel of five lines: {name}", "kB", (size / 1e3,), limit)
    page.evaluate("probe.arm('.tsr-never')")
    notebook.run(len(cells))
    page.wait_for_function(f"document.querySelectorAll('{LIVE} .tsr-view[data-ready]').length === 3")
    messages: list[str] = page.evaluate(f"probe.matching({_HUB!r})")
    yield Figure("live views: messages with the scripts, three views", "count", (float(len(messages)),), 1.0)
    text = messages[0].encode()
    yield Figure("live views: the scripts of all views", "kB", (len(text) / 1e3,), SCRIPT_KB)
    yield Figure("live views: the scripts of all views, gzip", "kB", (len(gzip.compress(text)) / 1e3,), PACKED_KB)
    requests = float(len(bench.watch.requests))
    yield Figure("requests that leave the machine, every view", "count", (requests,), 0.0)
    page.context.close()


def editor(bench: Bench) -> Iterator[Figure]:
    """Yield how long it takes from the last key to the underline of a mistake, and to the list of completions."""
    for name, text, line in (
        ("6 lines", _SHORT, "        y[i] = alpha"),
        ("19 lines", _EDITED, "            acc = acc * total"),
    ):
        page = bench.new_page()
        _open_editor(bench, page, f"editor-{len(text)}", text)
        page.keyboard.type(line)
        taken = samples(bench, lambda page=page: underlined(page))
        yield Figure(f"a mistake in a cell of {name}: last key to underline", "ms", taken, UNDERLINE_MS)
        page.keyboard.type(" + tile.")
        taken = samples(bench, lambda page=page: completed(page))
        yield Figure(f"completion in a cell of {name}: key to the list", "ms", taken, COMPLETION_MS)
        page.context.close()


def _open_editor(bench: Bench, page: Page, name: str, text: str) -> None:
    """Open a notebook in whose kernel the extension is loaded, the cursor at the end of a cell of Tessera."""
    notebook_files.write(notebook_files.of_code(("%load_ext tessera_magics", text)), bench.lab.root / f"{name}.ipynb")
    bench.lab.open(page, f"{name}.ipynb", name)
    page.wait_for_function(IDLE, timeout=RUN_MS)
    loading, cell = page.locator(".jp-CodeCell .cm-content").all()
    loading.click()
    page.keyboard.press("Control+Enter")
    page.wait_for_function(f"{CURRENT}.content.widgets[0].model.executionCount === 1 && {IDLE}", timeout=RUN_MS)
    cell.locator(".tsr-cell-parameter").first.wait_for()
    cell.click()
    page.keyboard.press("Control+End")


def underlined(page: Page) -> float:
    """Make a mistake with one key, and take it back; return the ms from the key to the painted underline."""
    mistake = ".tsr-cell-mistake"
    page.wait_for_function(f"!document.querySelector('{mistake}')")
    page.wait_for_timeout(500)
    taken = _until_painted(page, "x", mistake)
    page.keyboard.press("Backspace")
    return taken


def completed(page: Page) -> float:
    """Ask for completions; return the ms from the key to the painted list."""
    taken = _until_painted(page, "Tab", ".jp-Completer:not(.lm-mod-hidden) .jp-Completer-match")
    page.keyboard.press("Escape")
    page.wait_for_function("!document.querySelector('.jp-Completer:not(.lm-mod-hidden) .jp-Completer-match')")
    return taken


def _until_painted(page: Page, key: str, selector: str) -> float:
    page.evaluate("([selector]) => probe.arm(selector)", [selector])
    page.keyboard.press(key)
    page.wait_for_function("probe.painted !== null")
    return float(page.evaluate("probe.painted - probe.key"))


def live(bench: Bench) -> Iterator[Figure]:
    """Yield the times of a new kernel process: loading the extension beside NumPy, and the first view."""
    page = bench.new_page()
    cells = Cells(bench.lab, page, "live", "import numpy", _LOADED, _CALLED, "tessera.viz.explore(k)")
    loads: list[float] = []
    first: list[float] = []
    again: list[float] = []
    selector = ".tsr-view[data-kind=explorer][data-ready] [role=option]"
    for _ in range(bench.repetitions):
        cells.restart()
        cells.run(1)
        loads.append(float(cells.printed(1)) * 1e3)
        cells.run(2)
        first.append(cells.show(3, selector, STATIC % "explorer").whole)
        again.append(cells.show(3, selector, STATIC % "explorer").whole)
    yield Figure("%load_ext tessera_magics, NumPy being imported", "ms", tuple(loads), LOAD_MS)
    yield Figure("the first explore() of a process: the cell's start to paint", "ms", tuple(first))
    yield Figure("a later explore(): the cell's start to paint", "ms", tuple(again))
    page.context.close()
