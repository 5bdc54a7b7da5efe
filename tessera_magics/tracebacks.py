"""Errors in colour, with the user's own calls, while the extension is loaded."""

from typing import Any

from tessera.core.errors import TesseraError
from tessera.viz.error_view import error_lines


def paint_errors(shell: Any) -> None:
    """Have IPython show a `TesseraError` in colour, with the user's lines that led there."""

    def namer(name: str) -> str:
        named = shell.compile.format_code_name(name)
        return " ".join(named) if named else name

    def paint(error: TesseraError) -> list[str]:
        return error_lines(error, namer)

    TesseraError.paint = staticmethod(paint)


def plain_errors() -> None:
    """Back to plain text."""
    TesseraError.paint = None
