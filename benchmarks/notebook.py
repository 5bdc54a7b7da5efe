"""The notebook side against its targets, in a real JupyterLab: `python benchmarks/notebook.py [--part PART ...]`.

models:  large views from a message to the paint, and from a key to the paint
sizes:   scripts, outputs, and requests that leave the machine
mapped:  the share of machine instructions that are linked to a line or marked as the compiler's own
capture: what recording every level costs a compilation
editor:  from the last key to the underline of a mistake, and to the list of completions
live:    `%load_ext tessera_magics`, and the first view of a process

Every figure is the median of several repetitions.  What is measured is written to `results/notebook.json`; parts that
were not asked for stay there as they are.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from playwright.sync_api import Browser, Page  # noqa: E402

import notebook_page  # noqa: E402
from notebook_cells import editor, live, sizes  # noqa: E402
from notebook_compiler import capture, mapped  # noqa: E402
from notebook_figures import Figure, keep, part_document  # noqa: E402
from notebook_views import Bench, large_views  # noqa: E402
from support.lab import Watch, running_browser, running_lab  # noqa: E402

PARTS: Final[Mapping[str, Callable[[Bench], Iterator[Figure]]]] = {
    "models": large_views,
    "sizes": sizes,
    "mapped": lambda _: mapped(),
    "capture": lambda bench: capture(bench.repetitions),
    "editor": editor,
    "live": live,
}
PAGE_MS: Final = 90_000


def new_page(browser: Browser, watch: Watch) -> Page:
    """Open an empty page that is watched and has the clock."""
    page = browser.new_context(viewport={"width": 1600, "height": 1000}).new_page()
    page.set_default_timeout(PAGE_MS)
    watch.attach(page)
    notebook_page.prepare(page)
    return page


def measure(names: list[str], repetitions: int, out: Path) -> None:
    """Measure parts; print each figure as it comes, and keep each part when it is done."""
    with tempfile.TemporaryDirectory() as home, running_lab(Path(home)) as lab, running_browser() as browser:
        watch = Watch()
        bench = Bench(lab, watch, lambda: new_page(browser, watch), repetitions)
        for name in names:
            load = os.getloadavg()
            figures: list[Figure] = []
            for figure in PARTS[name](bench):
                figures.append(figure)
                print(figure.row, flush=True)
            keep(out, {name: part_document(figures, load, browser.version)})
        for error in watch.errors:
            print(f"the page's console: {error}", file=sys.stderr)


def main() -> None:
    """Measure what is asked for and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="measure this part alone; may be repeated")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "notebook.json")
    options = parser.parse_args()
    measure(options.part or list(PARTS), options.repetitions, options.out)


if __name__ == "__main__":
    main()
