"""`TesseraError`, the base of every mistake we report, and the one renderer that draws the caret.

The catalogue of mistakes is in `core/errors/catalog.py`: one class and one code a mistake.
"""

import unicodedata
from collections.abc import Callable, Sequence
from typing import ClassVar

from tessera.core.base.source import NOWHERE, Note, Source, Span


class TesseraError(Exception):
    """A mistake the user can mend: says what is wrong, where, and what to try.

    `code` is stable (`TSR-E012`); `hint` is the remedy; `notes` name further places.  `source` is attached where
    the text is known (see `with_source`); without it the message still names file, line and column.
    """

    code: ClassVar[str] = "TSR-E000"
    title: ClassVar[str] = "error"
    paint: ClassVar[Callable[["TesseraError"], list[str]] | None] = None
    """Renders errors in IPython, where a layer above knows better than plain text (a `staticmethod`)."""

    def __init__(self, message: str, span: Span = NOWHERE, hint: str = "", notes: Sequence[Note] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint
        self.notes = tuple(notes)
        self.source: Source | None = None

    def with_source(self, source: Source) -> "TesseraError":
        """Attach the user's text, once; the innermost caller knows best."""
        if self.source is None:
            self.source = source
        return self

    def __str__(self) -> str:
        return render(self)

    def __reduce__(self) -> tuple[object, ...]:
        state = {"source": self.source, **{k: v for k, v in self.__dict__.items() if k != "source"}}
        return (_rebuild, (type(self), self.message, state))

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the message, the user's line and the caret, and none of our frames."""
        paint = type(self).paint
        return render(self).splitlines() if paint is None else paint(self)


def _rebuild(kind: type[TesseraError], message: str, state: dict[str, object]) -> TesseraError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


def render(error: TesseraError) -> str:
    """Draw `error` as plain text: headline, user's line with a caret, notes, and the remedy."""
    parts = [f"{error.code} {error.title}: {error.message}"]
    parts += excerpt(error.source, error.span)
    for note in error.notes:
        parts.append(f"  note: {note.message}")
        parts += excerpt(error.source, note.span)
    if error.hint:
        parts.append(f"  try: {error.hint}")
    return "\n".join(parts)


def excerpt(source: Source | None, span: Span) -> list[str]:
    """Return the lines that show a place: its name, the user's line, and the caret; none where it is not known."""
    if span == NOWHERE:
        return []
    where = (source.label or source.name) if source is not None else span.file
    head = f"  --> {where}, line {span.line}, column {span.column}"
    text = source.line(span.line) if source is not None else ""
    if not text:
        return [head]
    end = span.end_column if span.end_line == span.line else len(text) + 1
    before, marked = text[: span.column - 1], text[span.column - 1 : end - 1]
    number = f"{span.line:>4} | "
    pad = "".join("\t" if c == "\t" else " " * display_width(c) for c in before)
    return [head, number + text, " " * 4 + " | " + pad + "^" * max(1, display_width(marked))]


def display_width(text: str) -> int:
    """Columns a terminal uses for `text`: wide East Asian characters take two, combining marks none."""
    width = 0
    for char in text:
        if unicodedata.combining(char):
            continue
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width
