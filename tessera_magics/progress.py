"""The progress of a search in a notebook: one display under the cell, kept up to date."""

from collections.abc import Callable
from html import escape
from typing import Any, Final

from tessera.tuning.progress import NOTEBOOK, Reporter, Status
from tessera.viz.tuning_view import tuning_html, tuning_text
from tessera_magics.ipython import display

_ROWS: Final = 8
"""Configurations shown while the search goes on."""
_BAR: Final = "display:inline-block;width:240px;height:10px;background-color:#8884;vertical-align:middle"
_DONE: Final = "display:block;height:10px;background-color:#56b4e9"


class Display:
    """One display of the notebook that shows a search."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, status: Status) -> None:
        """Show a state in place of the one before: a bar, a line, and the best configurations."""
        share = status.settled / max(1, len(status.tuning.trials))
        bar = f'<span style="{_BAR}"><span style="{_DONE};width:{round(240 * share)}px"></span></span>'
        head = f"<div>{bar} {escape(status.line)}</div>"
        self._update(status, head + tuning_html(status.tuning, _ROWS))

    def close(self, status: Status) -> None:
        """Leave one line: the outcome has its own display."""
        self._update(status, f"<div>{escape(status.last_line)}</div>")

    def _update(self, status: Status, html: str) -> None:
        bundle = {"text/plain": tuning_text(status.tuning), "text/html": html}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def show_progress(shell: Any) -> None:
    """Show searches in the notebook of a shell; a shell in a terminal has its line."""
    NOTEBOOK.opener = _opener(shell)


def hide_progress() -> None:
    """Take that back."""
    NOTEBOOK.opener = None


def _opener(shell: Any) -> Callable[[], Reporter | None]:
    return lambda: Display() if getattr(shell, "kernel", None) is not None else None
