"""What long work shows, and where: one line of a terminal or one display, of the outermost piece of work."""

import io
import threading

import pytest

from tessera.core import progress
from tessera.core.progress import NOTEBOOK, State, Steps, TerminalLine, working
from tessera.core.settings import overridden


class Recorded:
    """Keeps the lines that it is shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shares: list[float] = []

    def show(self, status: State) -> None:
        self.lines.append(status.line)
        self.shares.append(status.share)

    def close(self, status: State) -> None:
        self.lines.append(f"[{status.last_line}]")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A notebook, in which all work is long."""
    found = Recorded()
    monkeypatch.setattr(progress, "_LONG", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    monkeypatch.setattr(NOTEBOOK, "opener", lambda: found)
    return found


def test_steps_are_shown_and_leave_nothing(shown: Recorded):
    with working("film of k", 4) as task:
        for number, name in enumerate(("one", "two")):
            task.step(number, name)
    assert shown.lines == ["film of k: 0 of 4; one", "film of k: 1 of 4; two", "[]"]
    assert shown.shares == [0.0, 0.25]


def test_work_inside_of_work_is_told_in_its_line(shown: Recorded):
    with working("workbench of k", 8) as bench:
        bench.step(2, "profile")
        with working("profiling k", 10) as inner:
            inner.step(3)
            with working("compiling k", 2) as innermost:
                innermost.step(1)
        bench.step(3)
    assert shown.lines == [
        "workbench of k: 2 of 8; profile",
        "workbench of k: 2 of 8; profile: profiling k: 3 of 10",
        "workbench of k: 2 of 8; profile: compiling k: 1 of 2",
        "workbench of k: 3 of 8",
        "[]",
    ]
    assert shown.shares == [0.25, 0.25, 0.25, 0.375]


@pytest.mark.parametrize(("error", "word"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")])
def test_work_that_does_not_end_says_how_far_it_came(shown: Recorded, error: type[BaseException], word: str):
    def work() -> None:
        with working("film of k", 4) as task:
            task.step(2, "one")
            raise error

    with pytest.raises(error):
        work()
    assert shown.lines == ["film of k: 2 of 4; one", f"[film of k {word} after 2 of 4]"]
    with working("film of k", 1) as task:  # the next one is no part of it
        task.step(0)
    assert shown.lines[2:] == ["film of k: 0 of 1", "[]"]


def test_short_work_other_threads_and_the_setting_show_nothing(shown: Recorded, monkeypatch: pytest.MonkeyPatch):
    def work() -> None:
        with working("film of k", 4) as task:
            task.step(1)

    other = threading.Thread(target=work)
    other.start()
    other.join()
    with overridden(progress=False):
        work()
    monkeypatch.setattr(progress, "_LONG", 1000.0)
    work()
    assert shown.lines == []


def test_a_terminal_has_one_line_and_a_file_has_none(monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(NOTEBOOK, "opener", None)
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    assert isinstance(progress.reporter(), TerminalLine)
    monkeypatch.setattr(progress.sys, "stderr", file)
    assert progress.reporter() is None
    line = TerminalLine(terminal)
    line.show(Steps("film of k", 1, 4, "two"))
    line.close(Steps("film of k", 4, 4))
    assert terminal.getvalue() == "\r\x1b[Kfilm of k: 1 of 4; two\r\x1b[K"


def test_the_share_of_no_steps():
    assert Steps("k", 0, 0).share == 0.0
    assert Steps("k", 9, 8).share == 1.0
