"""A real JupyterLab on the loopback interface and Debian's Chromium, for what only a browser can show."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 60

CONFIG = """
from jupyterlab.galata import configure_jupyter_server

configure_jupyter_server(c)
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = {port}
c.ServerApp.port_retries = 0
c.ServerApp.root_dir = {root!r}
c.ServerApp.allow_root = True
c.LabApp.user_settings_dir = {settings!r}
"""


@dataclass
class Watch:
    """What a page did that it should not: errors in its console, requests that leave the machine."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def attach(self, page: "playwright.Page") -> None:
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("request", lambda request: self.request(request.url))

    def request(self, url: str) -> None:
        local = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:", "about:")
        if not url.startswith(local):
            self.requests.append(url)


@pytest.fixture(scope="session")
def browser() -> Generator["playwright.Browser"]:
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def page(browser: "playwright.Browser", watch: Watch) -> Iterator["playwright.Page"]:
    context = browser.new_context(viewport={"width": 1360, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(30_000)
    watch.attach(page)
    yield page
    context.close()


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, the folder it serves, and its settings folder."""

    url: str
    root: Path
    environment: dict[str, str]

    def add(self, notebook: Path, name: str, *, trusted: bool = False) -> str:
        """Copy `notebook` under the served folder as `name`, signed when `trusted`; return the name."""
        shutil.copy(notebook, self.root / name)
        if trusted:
            command = [sys.executable, "-m", "jupyter", "trust", str(self.root / name)]
            subprocess.run(command, env=self.environment, check=True, capture_output=True)
        return name

    def open(self, page: "playwright.Page", name: str, workspace: str) -> None:
        """Open a notebook in a workspace of its own and wait until its cells are there."""
        page.goto(f"{self.url}/lab/workspaces/{workspace}/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    home = tmp_path_factory.mktemp("lab")
    root = home / "notebooks"
    root.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    config = home / "config.py"
    config.write_text(CONFIG.format(port=port, root=str(root), settings=str(home / "settings")))
    environment = {
        **os.environ,
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home / "jupyter"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "TESSERA_CACHE_DIR": str(home / "cache"),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH")))),
    }
    log = (home / "server.log").open("w")
    command = [sys.executable, "-m", "jupyterlab", f"--config={config}", "--no-browser"]
    server = subprocess.Popen(command, env=environment, cwd=root, stdout=log, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, server, home / "server.log")
        yield Lab(url, root, environment)
    finally:
        server.terminate()
        server.wait(timeout=20)
        log.close()


def _wait_for(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended:\n{log.read_text()[-2000:]}")
        try:
            urllib.request.urlopen(f"{url}/api", timeout=2).close()
        except (URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"JupyterLab did not answer:\n{log.read_text()[-2000:]}")
