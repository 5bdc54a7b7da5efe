"""Run the tests that send signals each in a process of its own, and try them again twice.

A signal that comes while Python collects garbage, or while a callback of a library runs, raises where nobody sees it:
such a test may fail although the code is right.  The summary says how often that happened.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType
from typing import Final

import pytest

TRIES: Final = 3
HELPERS: Final = frozenset({"ctrl_c_inside", "ctrl_c_reaches", "interrupted_everywhere", "setitimer", "send_signal"})
"""What tests send signals with."""
FILES: Final = ("tests/lowering/service/test_server.py::", "tests/runtime/launch/test_program_counters.py::")
"""Files whose tests watch processes or sample threads."""
CHILD: Final = "TEST_IN_ITS_OWN_PROCESS"
_TRIES: Final = "tries"


def sends_signals(item: pytest.Item) -> bool:
    """Whether a test, or a function inside of it, uses one of the helpers, or its file is listed."""
    if item.nodeid.startswith(FILES):
        return True
    code = getattr(getattr(item, "obj", None), "__code__", None)
    return isinstance(code, CodeType) and bool(HELPERS & names_in(code))


def names_in(code: CodeType) -> frozenset[str]:
    """Return the names that a function and those inside of it use."""
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return frozenset(code.co_names).union(*inner)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run such a test by another pytest, and report for it."""
    if CHILD in os.environ or not sends_signals(item) or item.config.getoption("usepdb"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    item.ihook.pytest_runtest_logreport(report=_run(item))
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # The fixtures that the test before kept for this one end here: no other hook asks for that.
    item.session._setupstate.teardown_exact(nextitem)  # pyright: ignore[reportPrivateUsage]
    return True


def without_plugins(config: pytest.Config) -> list[str]:
    """Return the options that leave plugins out of this run: `-p no:benchmark`."""
    plugins: list[str] = config.getoption("plugins") or []
    return [option for name in plugins if name.startswith("no:") for option in ("-p", name)]


def run_pytest(root: Path, environment: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the named tests in another process, without the options of this run, such as the file of its report."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", f"--rootdir={root}", *arguments]
    environment = {**environment, "PYTEST_ADDOPTS": ""}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def _run(item: pytest.Item) -> pytest.TestReport:
    tries, failed, output = 0, True, ""
    while failed and tries < TRIES:
        done = run_pytest(item.config.rootpath, {**os.environ, CHILD: "1"}, *without_plugins(item.config), item.nodeid)
        tries, failed, output = tries + 1, done.returncode != 0, done.stdout + done.stderr
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome="failed" if failed else "passed",
        longrepr=output if failed else None,
        when="call",
        user_properties=[(_TRIES, tries)],
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that were tried again."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    tries = {report.nodeid: count for report in reports for name, count in report.user_properties if name == _TRIES}
    again = {test: count for test, count in tries.items() if count > 1}
    if tries:
        terminalreporter.write_line(f"{len(tries)} tests in processes of their own, {len(again)} of them tried again")
    for test, count in sorted(again.items()):
        terminalreporter.write_line(f"tried {count} times: {test}", yellow=True)
