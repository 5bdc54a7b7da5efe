"""`tests/support/own_process.py`: which tests run in a process of their own, and what becomes of their failures."""

import os
from pathlib import Path

import pytest

from support import own_process
from support.interrupts import ctrl_c_inside, interrupted_everywhere

PLUGIN = "support.own_process"
TEXT = """
from pathlib import Path

def setitimer():
    '''Stands for what sends a signal.'''

import pytest

@pytest.fixture(scope="module")
def kept():
    yield Path("ended").write_text("yes")

def test_before(kept):
    pass

def test_that_passes_the_second_time():
    setitimer()
    runs = Path("runs")
    runs.write_text(runs.read_text() + "." if runs.exists() else ".")
    assert len(runs.read_text()) == 2

def test_that_fails():
    setitimer()
    assert False, "again"
"""


def _sends() -> None:
    def deeper() -> None:
        with ctrl_c_inside(_sends):
            interrupted_everywhere(_sends, lambda _: None)

    deeper()


def test_what_sends_signals(request: pytest.FixtureRequest) -> None:
    assert not own_process.sends_signals(request.node)
    assert own_process.HELPERS & own_process.names_in(_sends.__code__) == {"ctrl_c_inside", "interrupted_everywhere"}


def test_it_is_tried_again_and_the_summary_says_so(tmp_path: Path) -> None:
    (tmp_path / "test_signals.py").write_text(TEXT)
    # What a fixture of the first file holds has ended when the second one begins, though a test in a process was between.
    (tmp_path / "test_then.py").write_text(
        "from pathlib import Path\n\ndef test_it():\n    assert Path('ended').exists()\n"
    )
    (tmp_path / "test_then_again.py").write_text("def test_it():\n    pass\n")
    (tmp_path / "conftest.py").write_text(f"pytest_plugins = [{PLUGIN!r}]\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(own_process.__file__).parents[1]}\n")
    environment = {name: value for name, value in os.environ.items() if name != own_process.CHILD}
    done = own_process.run_pytest(tmp_path, environment, ".")
    assert "1 failed, 4 passed" in done.stdout
    assert "2 tests in processes of their own, 2 of them tried again" in done.stdout
    assert "tried 2 times: test_signals.py::test_that_passes_the_second_time" in done.stdout
    assert "tried 3 times: test_signals.py::test_that_fails" in done.stdout
    assert "AssertionError: again" in done.stdout
