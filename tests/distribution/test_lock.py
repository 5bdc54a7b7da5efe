"""`requirements.lock` pins what `pyproject.toml` asks for, and pip can check every file it installs."""

import re
import tomllib
from pathlib import Path
from typing import Final, cast

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS: Final = re.findall(
    r"^([\w.-]+)==(\S+)(?: ; (.*?))?(?: \\\n)((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    (ROOT / "requirements.lock").read_text(encoding="utf-8"),
    re.MULTILINE,
)
PYTHONS: Final = ("3.11", "3.12", "3.13")


def asked(extra: str | None = None) -> list[Requirement]:
    """What the package, or one extra of it, requires, through the extras that name other extras."""
    lines = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    found = [Requirement(line) for line in lines]
    own = [inner for requirement in found if requirement.name == PROJECT["name"] for inner in requirement.extras]
    return [r for r in found if r.name != PROJECT["name"]] + [r for inner in own for r in asked(inner)]


def pins(python: str) -> dict[str, Version]:
    """The versions that the lock installs on Linux with `python`."""
    environment = cast("dict[str, str]", default_environment())
    machine = {**environment, "python_version": python, "python_full_version": f"{python}.9"}
    return {
        canonicalize_name(name): Version(version)
        for name, version, marker, _ in PINS
        if not marker or Requirement(f"{name}; {marker}").marker.evaluate(machine)
    }


def test_every_line_is_a_pin_with_hashes():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert len(PINS) == len([line for line in lines if line and not line.startswith(("#", " "))])


def test_the_lock_is_within_the_ranges():
    wanted = [*asked(), *asked("dev")]
    assert {"numpy", "torch-mlir", "nvidia-cuda-nvcc", "ipython", "pytest"} <= {r.name for r in wanted}
    for python in PYTHONS:
        pinned = pins(python)
        assert [str(r) for r in wanted if not r.specifier.contains(pinned[canonicalize_name(r.name)])] == []


def test_one_numpy_for_every_python():
    """Results are compared bit by bit, so no Python is tested with another NumPy, LLVM or MLIR."""
    for name in ("numpy", "ml-dtypes", "llvmlite", "torch-mlir"):
        assert len({pins(python)[name] for python in PYTHONS}) == 1


def test_run_time_dependencies_are_ranges():
    """But for MLIR's snapshot of a day, each has a lowest and a first version that is not allowed."""
    runtime = {r.name: r for extra in (None, "notebook", "cuda", "cuda12", "cuda13") for r in asked(extra)}
    exact = {name for name, r in runtime.items() if {s.operator for s in r.specifier} == {"=="}}
    assert exact == {"torch-mlir"}
    ranges = [r for name, r in runtime.items() if name not in exact]
    assert [str(r) for r in ranges if {s.operator for s in r.specifier} != {">=", "<"}] == []
