"""A clock inside of a page of JupyterLab: when messages arrive, when something is painted, how long answers take.

Paint is taken as the task behind the next frame's callbacks, which the browser runs once it has painted.  The answer to
a key or a click is what the browser's Event Timing says, up to the frame that is shown (INP); it tells multiples of
8 ms, and nothing below 16, which then counts as 16.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

from support import notebook_files
from support.lab import CURRENT, IDLE, RUN_MS, Lab

FLOOR_MS: Final = 16.0
"""The shortest answer that the browser tells of."""
LIVE: Final = ".jp-OutputArea-output:not(.jp-RenderedHTMLCommon)"
"""The outputs of live views."""
_SETTLE_MS: Final = 350
_PATIENCE_MS: Final = 90_000

_PROBE: Final = """
(() => {
  const probe = (globalThis.probe = { frames: null, painted: null, inputs: [], key: 0 });
  const Plain = globalThis.WebSocket;
  globalThis.WebSocket = class extends Plain {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", (event) => probe.frames?.push({ at: performance.now(), data: event.data }));
    }
  };
  const afterPaint = () => new Promise((done) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => done(performance.now());
    channel.port2.postMessage(0);
  }));
  probe.afterPaint = afterPaint;
  // Wait for `selector`, and for the paint behind its appearance.
  probe.arm = (selector) => {
    probe.frames = [];
    probe.painted = null;
    const watch = new MutationObserver(() => look());
    const look = () => {
      if (!document.querySelector(selector)) return;
      watch.disconnect();
      void afterPaint().then((at) => (probe.painted = at));
    };
    const attributeFilter = ["data-ready", "data-drawn", "class"];
    watch.observe(document, { subtree: true, childList: true, attributes: true, attributeFilter });
    look();
  };
  const text = (data) => (typeof data === "string" ? data : new TextDecoder().decode(data));
  // The first message that matches a pattern: when it came, its length.
  probe.arrived = (pattern) => {
    const sought = new RegExp(pattern);
    const found = probe.frames.find((frame) => sought.test(text(frame.data)));
    return found && { at: found.at, length: found.data.byteLength ?? found.data.length };
  };
  probe.matching = (pattern) => {
    const sought = new RegExp(pattern);
    return probe.frames.map((frame) => text(frame.data)).filter((each) => sought.test(each));
  };
  addEventListener("keydown", (event) => (probe.key = event.timeStamp), true);
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (entry.interactionId) probe.inputs.push(entry.duration);
  }).observe({ type: "event", durationThreshold: 16 });
})();
"""


@dataclass(frozen=True)
class Shown:
    """One showing of a cell's output, in ms: from its message's arrival, and from the cell's start, to the paint."""

    page: float
    whole: float
    length: int


def prepare(page: Page) -> None:
    """Install the clock; before the page is opened."""
    page.add_init_script(_PROBE)


class Cells:
    """A notebook with a cell that sets up and cells that are run again and again, one at a time."""

    def __init__(self, lab: Lab, page: Page, name: str, setup: str, *cells: str) -> None:
        self.page = page
        self._began = lab.root / f"{name}.began"
        texts = [f"import time, pathlib\n{setup}"]
        texts += [f"_ = pathlib.Path({self._began.name!r}).write_text(repr(time.time()))\n{cell}" for cell in cells]
        notebook_files.write(notebook_files.of_code(texts), lab.root / f"{name}.ipynb")
        lab.open(page, f"{name}.ipynb", name)
        page.wait_for_function(IDLE, timeout=RUN_MS)
        self.run(0)

    def run(self, cell: int) -> None:
        """Run a cell and wait for its end; what it raises is raised here."""
        before = self._count(cell)
        self._begin(cell)
        self.page.wait_for_function(
            f"{CURRENT}.content.widgets[{cell}].model.executionCount > {before} && {IDLE}", timeout=RUN_MS
        )
        failed: list[str] = self.page.evaluate(
            f"{CURRENT}.content.widgets[{cell}].model.sharedModel.outputs"
            ".filter(each => each.output_type === 'error').map(each => `${each.ename}: ${each.evalue}`)"
        )
        if failed:
            raise RuntimeError(f"a cell failed: {failed[0]}")

    def show(self, cell: int, selector: str, message: str) -> Shown:
        """Run a cell that shows a view, nothing being there before, and wait until `selector` is painted.

        message: a pattern of the message whose arrival counts
        """
        page = self.page
        page.evaluate(f"{CURRENT}.content.activeCellIndex = {cell}")
        page.evaluate("window.jupyterapp.commands.execute('notebook:clear-cell-output')")
        page.wait_for_function(f"!document.querySelector({selector!r})", timeout=_PATIENCE_MS)
        page.wait_for_timeout(_SETTLE_MS)
        page.evaluate("([selector]) => probe.arm(selector)", [selector])
        self._begin(cell)
        page.wait_for_function("probe.painted !== null", timeout=_PATIENCE_MS)
        page.wait_for_function(IDLE, timeout=RUN_MS)
        found: dict[str, Any] = page.evaluate(
            "([message]) => ({ ...probe.arrived(message), painted: probe.painted, origin: performance.timeOrigin })",
            [message],
        )
        if "at" not in found:
            raise RuntimeError(f"no message matched {message!r}")
        began = float(Path(self._began).read_text(encoding="utf-8")) * 1e3
        return Shown(found["painted"] - found["at"], found["origin"] + found["painted"] - began, found["length"])

    def printed(self, cell: int) -> str:
        """Return what a cell printed."""
        return str(
            self.page.evaluate(
                f"{CURRENT}.content.widgets[{cell}].model.sharedModel.outputs"
                ".filter(each => each.output_type === 'stream').map(each => [each.text].flat().join('')).join('')"
            )
        )

    def restart(self) -> None:
        """Start the kernel anew, and set it up."""
        page = self.page
        page.evaluate(f"{CURRENT}.sessionContext.session.kernel.restart()")
        page.wait_for_function(IDLE, timeout=RUN_MS)
        page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        self.run(0)

    def _count(self, cell: int) -> int:
        return int(self.page.evaluate(f"{CURRENT}.content.widgets[{cell}].model.executionCount ?? 0"))

    def _begin(self, cell: int) -> None:
        self.page.evaluate(f"{CURRENT}.content.activeCellIndex = {cell}")
        self.page.evaluate("void window.jupyterapp.commands.execute('notebook:run-cell')")


def answer_ms(page: Page) -> float:
    """Return how long the page took for the last key or click; ask once, after each."""
    page.wait_for_timeout(_SETTLE_MS)
    durations: list[float] = page.evaluate("probe.inputs.splice(0)")
    return max(durations, default=FLOOR_MS)
