"""What every test shares: a cache of its own, and skips that say what is missing."""

import gc
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import junkdrawer

from support.targets import missing_gpu, missing_gpus

pytest_plugins = ["support.own_process", "support.tiers", "support.changed"]

# Compiled kernels go to a directory of this test run, never to the user's own.  It is set before any test module is
# imported, since settings are read once; `_cache` removes it at exit.  The workers of pytest-xdist inherit it from the
# process that starts them: what one of them has compiled, the others find.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="tessera-tests-")
    os.environ["TESSERA_CACHE_DIR"] = _cache.name
    # Tests look at plans and code, which must not depend on the lengths that tests before them called a kernel with.
    os.environ["TESSERA_EXACT_EXTENTS"] = "65536"

# A shell starts its background jobs with SIGINT ignored, and Python then leaves it so: tests that send one would wait for
# a KeyboardInterrupt that never comes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hypothesis measures collections of garbage in a callback, where exceptions are lost: a Ctrl-C that comes during one would
# vanish.  It installs the callback once; this says that it has.
junkdrawer._gc_initialized = True  # pyright: ignore[reportPrivateUsage]

ROOT = Path(__file__).resolve().parent.parent
BEFORE = frozenset(ROOT.iterdir())
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def _missing_browser() -> str:
    """Why tests that need a browser cannot run, or an empty string."""
    return "" if any(map(shutil.which, CHROMIUM)) else "no Chromium: apt-get install chromium"


def _missing_jax() -> str:
    """Why tests beside JAX cannot run, or an empty string."""
    return "" if importlib.util.find_spec("jax") else "no JAX: pip install tessera[jax]"


MISSING = {"gpu": missing_gpu, "gpus": missing_gpus, "browser": _missing_browser, "jax": _missing_jax}


def _left_behind() -> list[str]:
    """What the tests have put into the repository's own folder, but for the caches of tools and for `build`.

    Screenshots of browser tests go to `build`, as everything does that is made of the repository.

    Git may do so meanwhile, too: what it knows is none of theirs.
    """
    names = (path.name for path in ROOT.iterdir() if path not in BEFORE)
    new = sorted(name for name in names if name != "build" and not name.startswith((".", "_")))
    if not new or shutil.which("git") is None:
        return new
    known = subprocess.run(["git", "ls-files", "--", *new], cwd=ROOT, capture_output=True, text=True, check=False)
    return sorted({*new} - {path.partition("/")[0] for path in known.stdout.splitlines()})


def pytest_collection_finish() -> None:
    """Keep the collector from what collection made, a million objects that no test lets go: each pass took a second."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that leaves something in the repository, such as a cache in a relative folder."""
    if "PYTEST_XDIST_WORKER" not in os.environ and _left_behind():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was left."""
    for name in _left_behind():
        terminalreporter.write_line(f"ERROR: the run left {name!r} in the repository", red=True)


def pytest_runtest_teardown() -> None:
    """Let go of the last exception that a test has kept, as IPython does, with all that its frames hold."""
    sys.__dict__.pop("last_value", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--accept` rewrites the golden texts beside the tests with what the code makes now."""
    parser.addoption("--accept", action="store_true", help="accept what the code makes as the new golden texts")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests whose hardware or browser is not here, each saying what it lacks."""
    for marker, missing in MISSING.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        reason = missing() if marked else ""
        if reason:
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium; tests that use it carry the marker `browser`."""
    return next(path for path in map(shutil.which, CHROMIUM) if path)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Assert that a text is the golden one of that name, in the folder `golden` beside the test; see `--accept`."""
    folder = request.path.parent / "golden"

    def check(name: str, produced: str) -> None:
        if request.config.getoption("--accept"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(produced, encoding="utf-8")
        assert produced == (folder / name).read_text(encoding="utf-8")

    return check
