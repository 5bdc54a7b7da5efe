"""How long work shows how far it is: a display of a notebook, or one line of a terminal, that is kept up to date.

Where neither is there, as in a script whose errors go to a file, nothing is shown.  The setting `progress` switches it
off.  What takes less than a second shows nothing.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

from tessera.core.settings import current

PAUSE: Final = 0.1
"""Seconds between two states that are shown, at least: showing one takes time from the work."""
_LONG: Final = 1.0
"""Seconds after which work is long."""


class State(Protocol):
    """How far some work is."""

    @property
    def line(self) -> str:
        """The state in one line."""
        ...

    @property
    def last_line(self) -> str:
        """The line that is left standing when the work has ended; "": none."""
        ...

    @property
    def share(self) -> float:
        """The share that is done, from 0 to 1."""
        ...


class Reporter(Protocol):
    """Shows the state of one piece of work."""

    def show(self, status: State) -> None:
        """Show a state in place of the one before."""
        ...

    def close(self, status: State) -> None:
        """Show the last one."""
        ...


class TerminalLine:
    """The last line of a terminal, written again and again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, status: State) -> None:
        """Write the line over the one before; what the terminal's width has no room for is cut off."""
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r\x1b[K{status.line[:width]}")

    def close(self, status: State) -> None:
        """Leave the last line standing, or nothing."""
        last = status.last_line
        self._write(f"\r\x1b[K{last}\n" if last else "\r\x1b[K")

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "ascii"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self._stream.flush()


@dataclass(slots=True)
class Notebook:
    """The opener of displays in a notebook: set from above, it gives None outside of notebooks."""

    opener: Callable[[], Reporter | None] | None = None


NOTEBOOK: Final = Notebook()
"""The notebook of this process."""


def reporter() -> Reporter | None:
    """Return what shows progress here: a display of the notebook, the terminal's line, or nothing."""
    found = NOTEBOOK.opener() if NOTEBOOK.opener is not None else None
    if found is not None:
        return found
    stream = sys.stderr
    return TerminalLine(stream) if stream is not None and stream.isatty() else None  # pyright: ignore[reportUnnecessaryComparison] - under pythonw there is none


@dataclass(frozen=True, slots=True)
class Steps:
    """How far work in steps is: `done` of `total`, and what it is doing; ended: how, in words, "" while it goes on."""

    title: str
    done: int
    total: int
    phase: str = ""
    ended: str = ""

    @property
    def line(self) -> str:
        """The state in one line."""
        doing = f"; {self.phase}" if self.phase else ""
        return f"{self.title}: {self.done:,} of {self.total:,}{doing}"

    @property
    def last_line(self) -> str:
        """The last line: nothing for work that was done, which shows its result."""
        return f"{self.title} {self.ended} after {self.done:,} of {self.total:,}" if self.ended else ""

    @property
    def share(self) -> float:
        """The share that is done."""
        return min(1.0, self.done / self.total) if self.total else 0.0


class Task:
    """Work in steps that tells how far it is.  What is begun inside of it is told as part of its step."""

    def __init__(self, title: str, total: int, around: "Task | None" = None, *, heard: bool = True) -> None:
        self._state = Steps(title, 0, total)
        self._around, self._heard = around, heard
        self._reporter: Reporter | None = None
        self._next = time.monotonic() + _LONG

    def step(self, done: int, phase: str = "") -> None:
        """Tell that `done` steps are done, and what the next one is; where nothing is shown, that is cheap."""
        if not self._heard:
            return
        self._state = Steps(self._state.title, done, self._state.total, phase)
        if self._around is None:
            self._show(self._state)
        else:
            self._around._inside(self._state.line)

    def close(self, ended: str) -> None:
        """Show the end, if anything was shown."""
        if self._reporter is not None:
            state = self._state
            self._reporter.close(Steps(state.title, state.done, state.total, ended=ended))

    def _inside(self, line: str) -> None:
        state = self._state
        if self._around is None:
            phase = f"{state.phase}: {line}" if state.phase else line
            self._show(Steps(state.title, state.done, state.total, phase))
        else:
            self._around._inside(line)

    def _show(self, state: Steps) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        if self._reporter is None:
            self._reporter = reporter()
            self._heard = self._reporter is not None
        if self._reporter is not None:
            self._reporter.show(state)
        self._next = now + PAUSE


@dataclass(slots=True)
class _Main:
    """The task that the main thread is in: others have no cell or line to show theirs in."""

    task: Task | None = None


_MAIN: Final = _Main()


@contextmanager
def working(title: str, total: int) -> Generator[Task]:
    """Show how far the work inside the `with` is, where it takes long.

    total: the steps that it has; tell each by `task.step(done, phase)`
    """
    if threading.current_thread() is not threading.main_thread() or not current().progress:
        yield Task(title, total, heard=False)
        return
    around = _MAIN.task
    task = _MAIN.task = Task(title, total, around)
    ended = "interrupted"
    try:
        yield task
        ended = ""
    except Exception:
        ended = "failed"
        raise
    finally:
        _MAIN.task = around
        task.close(ended)
