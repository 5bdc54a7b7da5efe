"""Errors in colour, with the user's own calls, while the extension is loaded."""

from tessera.core.errors.base import TesseraError
from tessera.viz.error_view import error_lines


def paint_errors() -> None:
    """Have IPython show a `TesseraError` in colour, with the user's lines that led there."""
    TesseraError.paint = staticmethod(error_lines)


def plain_errors() -> None:
    """Show errors as plain text again."""
    TesseraError.paint = None
