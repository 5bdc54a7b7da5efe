"""The progress of long work in a notebook: one display under the cell, kept up to date."""

from collections.abc import Callable
from html import escape
from typing import Final

from tessera.core.progress import NOTEBOOK, Reporter, State
from tessera.tuning.progress import Status
from tessera.viz.tuning.table import tuning_html, tuning_text
from tessera_magics.ipython import DisplayHandle, Shell, display

_ROWS: Final = 8
"""Configurations shown while the search goes on."""
_BAR: Final = "display:inline-block;width:240px;height:10px;background-color:#8884;vertical-align:middle"
_DONE: Final = "display:block;height:10px;background-color:#56b4e9"


class Display:
    """One display of the notebook that shows a piece of work: a bar and a line, of a search the best configurations."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None

    def show(self, status: State) -> None:
        """Show a state in place of the one before."""
        bar = f'<span style="{_BAR}"><span style="{_DONE};width:{round(240 * status.share)}px"></span></span>'
        head = f"<div>{bar} {escape(status.line)}</div>"
        if isinstance(status, Status):
            self._update(tuning_text(status.tuning), head + tuning_html(status.tuning, _ROWS))
        else:
            self._update(status.line, head)

    def close(self, status: State) -> None:
        """Leave one line, or nothing: the outcome has its own display."""
        text = tuning_text(status.tuning) if isinstance(status, Status) else status.last_line
        self._update(text, f"<div>{escape(status.last_line)}</div>" if status.last_line else "")

    def _update(self, text: str, html: str) -> None:
        bundle = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def show_progress(shell: Shell) -> None:
    """Show long work in the notebook of a shell; a shell in a terminal has its line."""
    NOTEBOOK.opener = _opener(shell)


def hide_progress() -> None:
    """Take that back."""
    NOTEBOOK.opener = None


def _opener(shell: Shell) -> Callable[[], Reporter | None]:
    def opened() -> Reporter | None:
        kernel = getattr(shell, "kernel", None)
        # Programs that execute notebooks (nbconvert, nbval) can be asked nothing, and keep what only passes by.
        watched = kernel is not None and getattr(kernel, "_allow_stdin", True)
        return Display() if watched else None

    return opened
