"""`--changed`: run only the tests of what a change touches, as the imports tell.

A test file is chosen when it changed, when it mirrors a changed module, when it imports one, or when it imports a module
that imports one.  Packages' `__init__` modules do not count as such modules in between, or all tests would be chosen
always.  What lies further away runs in `make test`.
"""

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("tessera", "tessera_magics", "tests", "benchmarks", "docs")
ALWAYS: Final = ("tests/test_architecture.py",)
FOLDERS: Final = {
    "frontend/": ("tests/viz/", "tests/browser/"),
    "tessera/viz/static/": ("tests/viz/", "tests/browser/"),
    "labextension/": ("tests/magics/test_labextension.py", "tests/browser/test_labextension.py"),
    "notebooks/": ("tests/notebooks/",),
    "docs/": ("tests/docs/",),
    "README.md": ("tests/docs/",),
    "Makefile": ("tests/distribution/test_repository.py", "tests/distribution/test_lock.py"),
    "pyproject.toml": ("tests/distribution/",),
    "requirements.lock": ("tests/distribution/",),
    ".ci/": ("tests/distribution/test_repository.py",),
    ".github/": ("tests/distribution/test_repository.py",),
}
"""Files that are no Python, and the tests that read them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--changed`."""
    parser.addoption(
        "--changed", nargs="?", const="main", metavar="REVISION", help="run the tests of what differs from a revision"
    )


def changed_files(revision: str) -> frozenset[str]:
    """Return the paths that differ from the revision that this branch left `revision` at, new files included."""

    def lines(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    (base,) = lines("merge-base", "HEAD", revision)
    return frozenset(lines("diff", "--name-only", base) + lines("ls-files", "--others", "--exclude-standard"))


def python_files() -> dict[str, str]:
    """Return the path of each module of the repository by its dotted name, as tests and modules import it."""
    modules: dict[str, str] = {}
    for top in SOURCES:
        for path in (ROOT / top).rglob("*.py"):
            file = path.relative_to(ROOT).as_posix()
            name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            modules[name] = modules[name.removeprefix("tests.")] = file
    return modules


def imported_names(text: str) -> frozenset[str]:
    """Return the dotted names that a module imports, anywhere in it; `from a import b` may mean `a` or `a.b`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return the files that each Python file of the repository imports."""
    modules = python_files()
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in set(modules.values())}
    return {
        file: frozenset(modules[name] for name in imported_names(text) if name in modules) - {file}
        for file, text in texts.items()
    }


def chosen_tests(changed: AbstractSet[str], graph: Mapping[str, AbstractSet[str]]) -> frozenset[str]:
    """Return the test files, and the prefixes of paths of test files, that a change of these files concerns."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for file, targets in graph.items():
        for target in targets:
            importers[target].add(file)

    def support(files: Iterable[str]) -> set[str]:
        """Add the helpers of tests that import these files, over any number of steps."""
        reached, new = set[str](), set(files)
        while new:
            reached |= new
            new = {by for file in new for by in importers[file] if by.startswith("tests/")} - reached
        return reached

    near = changed | {by for file in changed for by in importers[file] if not by.endswith("/__init__.py")}
    tests = {
        file for file in support(near) if file.startswith("tests/") and file.rpartition("/")[2].startswith("test_")
    }
    prefixes = {
        prefix for file in changed for start, found in FOLDERS.items() if file.startswith(start) for prefix in found
    }
    golden = {file.partition("golden/")[0] for file in changed if file.startswith("tests/") and "/golden/" in file}
    return frozenset(tests | prefixes | golden | {_mirrored(file) for file in changed} | set(ALWAYS)) - {""}


def _mirrored(file: str) -> str:
    """Return the test of a module: `tests/core/test_work.py` for `tessera/core/work.py`."""
    if not file.startswith(("tessera/", "tessera_magics/")) or not file.endswith(".py"):
        return ""
    folder, _, name = file.rpartition("/")
    top, _, inside = folder.partition("/")
    parts = ("tests", "" if top == "tessera" else "magics", inside, f"test_{name}")
    return "/".join(part for part in parts if part)


@cache
def _chosen(revision: str) -> tuple[str, ...]:
    return tuple(chosen_tests(changed_files(revision), imports()))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no other test file than those that were chosen."""
    revision = config.getoption("--changed")
    if revision is None or collection_path.is_dir() or not collection_path.is_relative_to(ROOT):
        return None
    return not collection_path.relative_to(ROOT).as_posix().startswith(_chosen(str(revision))) or None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Pass where a change concerns no test of the tier: `make test` goes on with the next one."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("--changed") is not None:
        session.exitstatus = pytest.ExitCode.OK
