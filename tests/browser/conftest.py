"""Fixtures of the browser tests: Chromium, a page that keeps a picture of its end, and a JupyterLab for the session."""

import re
from collections.abc import Generator, Iterator

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect

from support.lab import REPOSITORY, Lab, Watch, running_browser, running_lab

PAINT_MS = 30_000
"""How long a page may take for a step: a loaded machine is no mistake."""
SCREENSHOTS = REPOSITORY / "build" / "screenshots"
expect.set_options(timeout=PAINT_MS)


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    with running_browser() as chromium:
        yield chromium


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def page(browser: Browser, watch: Watch, request: pytest.FixtureRequest) -> Iterator[Page]:
    """An empty page; what it shows at the end of the test is kept in build/screenshots."""
    context = browser.new_context(viewport={"width": 1360, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(PAINT_MS)
    watch.attach(page)
    yield page
    name = re.sub(r"[^\w.-]+", "_", request.node.nodeid.removeprefix("tests/browser/"))
    page.screenshot(path=SCREENSHOTS / f"{name}.png", animations="disabled")
    context.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as started:
        yield started
