"""A real JupyterLab on the loopback interface and Debian's Chromium, which drives it: for browser tests and benchmarks."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.error import URLError

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from support import notebook_files

REPOSITORY: Final = Path(__file__).resolve().parents[2]
CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RUN_MS: Final = 240_000
"""How long the cells of a notebook may take."""
CURRENT: Final = "window.jupyterapp.shell.currentWidget"
"""The notebook on top, in the page's own words."""
IDLE: Final = f"{CURRENT}?.sessionContext?.session?.kernel?.status === 'idle'"
"""Whether the kernel of the notebook on top is there and has nothing to do."""
_ALL_RUN: Final = f"""[...{CURRENT}.content.model.cells].every(cell => cell.type !== 'code' || cell.executionCount) &&
    {IDLE}"""
_START_SECONDS: Final = 60
_LOCAL: Final = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:", "about:")

_CONFIG: Final = """
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

    errors: list[str] = field(default_factory=list[str])
    requests: list[str] = field(default_factory=list[str])

    def attach(self, page: Page) -> None:
        """Watch a page from now on."""
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self.console)
        page.on("request", lambda request: self.request(request.url))

    def console(self, message: ConsoleMessage) -> None:
        """Keep an error of the console."""
        if message.type == "error":
            self.errors.append(message.text)

    def request(self, url: str) -> None:
        """Keep a request that leaves the machine."""
        if not url.startswith(_LOCAL):
            self.requests.append(url)


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, the folder it serves, and the environment of its kernels."""

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

    def open(self, page: Page, name: str, workspace: str) -> None:
        """Open a notebook in a workspace of its own and wait until its cells are there."""
        page.goto(f"{self.url}/lab/workspaces/{workspace}/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell")

    def choose_theme(self, page: Page, name: str) -> None:
        """Choose the theme, Light or Dark, and wait until it is there.  It is kept for later pages of this JupyterLab."""
        page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{ theme: 'JupyterLab {name}' }})")
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(name == 'Light').lower()}'")

    def run_all(self, page: Page) -> None:
        """Run every cell of the notebook on top, and wait until the kernel is idle again."""
        page.wait_for_function(IDLE, timeout=RUN_MS)
        page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        page.wait_for_function(_ALL_RUN, timeout=RUN_MS)

    def run_cells(self, page: Page, name: str, *cells: str) -> None:
        """Write a notebook with `cells` of code, open it in a workspace of its own, and run it."""
        notebook_files.write(notebook_files.of_code(cells), self.root / f"{name}.ipynb")
        self.open(page, f"{name}.ipynb", name)
        self.run_all(page)


@contextmanager
def running_browser() -> Generator[Browser]:
    """Start headless Chromium; it ends with the block."""
    with sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def running_lab(home: Path) -> Generator[Lab]:
    """Start JupyterLab with everything it writes below `home`, and this checkout's extension; it ends with the block."""
    root = home / "notebooks"
    root.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    # What an installation puts into share/jupyter, from this checkout.
    (home / "data" / "labextensions").mkdir(parents=True)
    (home / "data" / "labextensions" / "tessera").symlink_to(REPOSITORY / "labextension" / "prebuilt")
    config = home / "config.py"
    config.write_text(_CONFIG.format(port=port, root=str(root), settings=str(home / "settings")))
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
    command = [sys.executable, "-m", "jupyterlab", f"--config={config}", "--no-browser"]
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, cwd=root, stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url, server, home / "server.log")
            yield Lab(url, root, environment)
        finally:
            server.terminate()
            try:
                server.wait(timeout=60)
            except subprocess.TimeoutExpired:  # it waits for kernels that do not end
                server.kill()
                server.wait()


def _wait_for(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
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
