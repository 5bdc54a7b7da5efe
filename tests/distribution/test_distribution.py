"""The wheel and the source distribution, built and installed as a user would install them, without the network."""

import ast
import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import tessera

ROOT: Final = Path(__file__).parents[2]
EXTENSION: Final = ROOT / "labextension" / "prebuilt"
PACKAGES: Final = ("tessera", "tessera_magics")
SHIPPED: Final = (".py", ".js", ".typed", ".txt")
"""Suffixes of what the packages are made of; the text is the licences of bundled scripts."""
FIRST_KERNEL: Final = """
import sys
from importlib import metadata

import numpy as np
import tessera
from tessera import kernel, launch

import tessera_magics

@kernel
def axpy(x, y, a: float):
    t = launch.thread_id()
    if t < x.shape[0]:
        y[t] = a * x[t] + y[t]

x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
axpy(x, y, 2.0)
assert np.array_equal(y, 2 * x + 1), y
print(tessera.__file__, tessera_magics.__file__, metadata.version("tessera"), sep="\\n")
"""


@dataclass(frozen=True)
class Built:
    """The two files of a release."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The source distribution, and the wheel made from it, with the backend that is installed."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in PACKAGES:  # a copy, since setuptools writes beside what it builds
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "labextension" / "prebuilt", tree / "labextension" / "prebuilt")
    (tree / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "test_tessera.py", tree / "tests")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=out)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return Built(sdist, wheel)


def source_files() -> set[str]:
    """Every file of the packages."""
    return {
        path.relative_to(ROOT).as_posix()
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.suffix in SHIPPED
    }


def test_the_wheel_holds_the_packages_and_nothing_else(built: Built):
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name and ".data/" not in name}
    assert names == source_files()
    assert {"tessera/py.typed", "tessera_magics/py.typed"} <= names
    assert {Path(name).suffix for name in names} == set(SHIPPED)


def test_the_wheel_holds_the_jupyterlab_extension(built: Built):
    """Where pip puts it under share/jupyter, and every file that the extension's own description names."""
    with zipfile.ZipFile(built.wheel) as wheel:
        data = {name.partition(".data/data/")[2]: name for name in wheel.namelist() if ".data/" in name}
        home = "share/jupyter/labextensions/tessera"
        described = json.loads(wheel.read(data[f"{home}/package.json"]))
        script = described["jupyterlab"]["_build"]["load"]
        assert set(data) == {f"{home}/package.json", f"{home}/install.json", f"{home}/{script}"}
        assert wheel.read(data[f"{home}/{script}"]) == (EXTENSION / script).read_bytes()
    assert described["name"] == "tessera"


def test_the_source_distribution_holds_what_the_wheel_is_built_from(built: Built):
    with tarfile.open(built.sdist) as sdist:
        names = {Path(*Path(name).parts[1:]).as_posix() for name in sdist.getnames() if not name.endswith("/")}
    assert source_files() <= names
    extension = {path.relative_to(ROOT).as_posix() for path in EXTENSION.rglob("*") if path.is_file()}
    assert extension <= names
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names
    assert [name for name in names if name.startswith("tests")] == []


def test_the_metadata_of_the_wheel(built: Built):
    with zipfile.ZipFile(built.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["Version"] == tessera.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert len(required) == len(project["dependencies"])
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])


def test_a_kernel_runs_from_the_installed_wheel(built: Built, tmp_path: Path):
    """Installed beside the dependencies of this environment, in front of the checkout."""
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(site)]
    subprocess.run([*install, str(built.wheel)], capture_output=True, text=True, check=True)
    script = tmp_path / "first.py"
    script.write_text(FIRST_KERNEL, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(site), "TESSERA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    package, magics, version = done.stdout.split()
    assert Path(package).is_relative_to(site)
    assert Path(magics).is_relative_to(site)
    assert version == tessera.__version__


def test_the_version_stands_in_one_place():
    """`__version__` is a literal that the build reads, and the newest release in the changelog."""
    module = ast.parse((ROOT / "tessera" / "__init__.py").read_text(encoding="utf-8"))
    (value,) = (
        node.value
        for node in module.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "__version__"
    )
    assert isinstance(value, ast.Constant)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"] == {"version": {"attr": "tessera.__version__"}}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[?(\d+\.\d+\.\d+)", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == value.value == tessera.__version__
