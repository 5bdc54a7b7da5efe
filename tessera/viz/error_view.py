"""A mistake as a person reads it: in colour for terminals and tracebacks, as HTML for notebooks."""

import linecache
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.errors.base import TesseraError, display_width, render
from tessera.core.errors.call_site import cell_label

_OWN: Final = Path(__file__).resolve().parents[2]
_OURS: Final = tuple(str(_OWN / name) for name in ("tessera/", "tessera_magics/"))
_RED, _BOLD, _DIM, _OFF = "\x1b[1;31m", "\x1b[1m", "\x1b[2m", "\x1b[0m"
_PRE: Final = "white-space:pre;overflow-x:auto;margin:4px 0;padding:0;font-size:12px;line-height:1.5"
_MARK: Final = "background-color:#ffd587;color:#111111"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One place of an error: `where` in words, the user's line, and the marked columns (0-based, end exclusive)."""

    title: str
    where: str
    number: int
    text: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ErrorView:
    """An error ready to be drawn.  `calls` says from which of the user's lines the kernel was reached."""

    headline: str
    message: str
    excerpts: tuple[Excerpt, ...]
    hint: str
    calls: tuple[str, ...]


Namer = Callable[[str], str]
"""What a file is called."""


def named(file: str) -> str:
    """Return `Cell In[3]` for the file name that IPython gave a cell, and any other name as it is."""
    return cell_label(file) or file


def error_view(error: TesseraError, namer: Namer = named) -> ErrorView:
    """Return what there is to show of `error`: the places, the remedy, and the user's own calls that led there."""
    places = [("", error.span), *((note.message, note.span) for note in error.notes)]
    excerpts = tuple(_excerpt(title, error.source, span, namer) for title, span in places if span != NOWHERE)
    headline = f"{error.code} {error.title}"
    return ErrorView(headline, error.message, excerpts, error.hint, tuple(_calls(error, namer)))


def error_lines(error: TesseraError, namer: Namer = named) -> list[str]:
    """Return the error in colour, as lines for IPython's traceback: the plain text and the calls that led there."""
    head, *rest = render(error).split("\n")
    code, _, message = head.partition(": ")
    lines = [f"{_RED}{code}{_OFF}: {_BOLD}{message}{_OFF}"]
    for line in rest:
        if re.fullmatch(r" +\| *\t*[ \t]*\^+", line):
            lines.append(f"{line[: line.index('^')]}{_RED}{line[line.index('^') :]}{_OFF}")
        elif line.startswith("  try: "):
            lines.append(f"  {_BOLD}try:{_OFF} {line.removeprefix('  try: ')}")
        elif line.startswith("  --> "):
            lines.append(f"{_DIM}{line}{_OFF}")
        else:
            lines.append(line)
    lines += [f"{_DIM}  called from {call}{_OFF}" for call in error_view(error, namer).calls]
    return lines


def error_html(error: TesseraError) -> str:
    """Return the error as HTML with inline styles only: it shows in notebooks that are not trusted, too."""
    view = error_view(error)
    parts = [f'<div style="margin:4px 0"><b>{escape(view.headline)}</b>: {escape(view.message)}</div>']
    for excerpt in view.excerpts:
        title = f"{escape(excerpt.title)} &ndash; " if excerpt.title else ""
        parts.append(f'<div style="font-size:12px">{title}{escape(excerpt.where)}, line {excerpt.number}</div>')
        if excerpt.text:
            parts.append(f'<pre style="{_PRE}"><code>{_marked(excerpt)}</code></pre>')
    if view.hint:
        parts.append(f'<div style="margin:4px 0"><b>try:</b> {escape(view.hint)}</div>')
    parts += [f'<div style="font-size:12px">called from {escape(call)}</div>' for call in view.calls]
    return "".join(parts)


def _excerpt(title: str, source: Source | None, span: Span, namer: Namer) -> Excerpt:
    if source is None or source.name != span.file:
        text = linecache.getline(span.file, span.line).rstrip("\n")
        where = namer(span.file)
    else:
        text = source.line(span.line)
        where = source.label or namer(source.name)
    stop = span.end_column if span.end_line == span.line else len(text) + 1
    return Excerpt(title, where, span.line, text, span.column - 1, max(stop - 1, span.column))


def _marked(excerpt: Excerpt) -> str:
    text = excerpt.text
    before, marked, after = text[: excerpt.start], text[excerpt.start : excerpt.stop], text[excerpt.stop :]
    number = f"{excerpt.number:>4} | "
    carets = " " * (len(number) + display_width(before)) + "^" * max(1, display_width(marked))
    return f'{number}{escape(before)}<span style="{_MARK}">{escape(marked)}</span>{escape(after)}\n{carets}'


def _calls(error: TesseraError, namer: Namer) -> Iterator[str]:
    """Return the user's own lines on the way to the error, outermost first, without those of installed packages."""
    for frame, number in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if name.startswith((*_OURS, "<frozen")) or "site-packages" in name:
            continue
        text = linecache.getline(name, number, frame.f_globals).strip()
        if text and not text.startswith(("get_ipython()", "%%")) and "/lib/python" not in name:
            yield f"{namer(name)}, line {number}: {text}"
