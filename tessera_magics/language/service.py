"""Answer an editor's requests about a `%%tessera` cell: plain data in, plain data out, and never an exception.

A request has `type` (diagnose, hover, complete or tokens), `text` (the whole cell, with the magic's line) and, but for
diagnose and tokens, `line` and `column` of the cursor.  Lines count from 0; columns count UTF-16 units, as editors do.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera_magics.language.check import Checked, Finding, check
from tessera_magics.language.complete import complete
from tessera_magics.language.hover import hover
from tessera_magics.language.tokens import words

Answer = dict[str, object]
MAGIC: Final = "%%tessera"
_LOG: Final = logging.getLogger("tessera.language")
_REMEMBERED: Final = 8


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell's text: the magic's line is the first, blank lines before it being left out."""

    lines: tuple[str, ...]
    skipped: int

    @property
    def head(self) -> str:
        return self.lines[0]

    @property
    def body(self) -> str:
        return "\n".join(self.lines[1:])

    def offset(self, line: int, column: int) -> int:
        """Return the offset into the body of a position in the cell."""
        number = max(0, min(line - self.skipped - 1, len(self.lines) - 2))
        before = sum(len(one) + 1 for one in self.lines[1 : number + 1])
        own = self.lines[number + 1] if len(self.lines) > 1 else ""
        return before + _characters(own, column)

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset into the body."""
        before = self.body[:offset]
        start = before.rfind("\n") + 1
        return before.count("\n") + 1 + self.skipped, _units(before[start:])

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Return line and column of a place whose line and column count from 1, in the body."""
        own = self.lines[line] if line < len(self.lines) else ""
        return line + self.skipped, _units(own[: column - 1])


def _characters(line: str, units: int) -> int:
    """Return how many characters the first `units` UTF-16 units of a line are."""
    for at, char in enumerate(line):
        if units <= 0:
            return at
        units -= 1 + (ord(char) > 0xFFFF)
    return len(line)


def _units(text: str) -> int:
    return len(text) + sum(ord(char) > 0xFFFF for char in text)


def _read(text: str) -> _Cell | None:
    lines = text.replace("\r\n", "\n").split("\n")
    skipped = next((at for at, line in enumerate(lines) if line.strip()), len(lines))
    if skipped == len(lines) or lines[skipped].split()[0] != MAGIC:
        return None
    return _Cell(tuple(lines[skipped:]), skipped)


@dataclass(slots=True)
class LanguageService:
    """Answers requests.

    names: gives the names of the user's notebook at the moment
    options: completes the magic's own line, which stands above the language
    """

    names: Callable[[], Mapping[str, object]]
    options: Callable[[str], Sequence[str]]
    _checked: OrderedDict[str, Checked] = field(default_factory=OrderedDict[str, Checked])

    def answer(self, request: Mapping[str, object]) -> Answer:
        """Return the answer to a request; `{"error": ...}` where there is none."""
        kinds: Mapping[str, Callable[[_Cell, int, int], Answer]] = {
            "diagnose": self._diagnose, "hover": self._hover, "complete": self._complete, "tokens": self._tokens,
        }  # fmt: skip
        kind, text = request.get("type"), request.get("text")
        if not isinstance(kind, str) or kind not in kinds or not isinstance(text, str):
            return {"error": f"a request is one of {', '.join(kinds)}, with the cell's text"}
        cell = _read(text)
        if cell is None:
            return {}
        line, column = (
            value if isinstance(value, int) else 0 for value in (request.get("line"), request.get("column"))
        )
        try:
            return kinds[kind](cell, line, column)
        except Exception as error:  # noqa: BLE001 - an editor asks at every key: what is wrong here must not stop it
            _LOG.debug("no answer to %s", kind, exc_info=True)
            return {"error": f"{type(error).__name__}: {error}"}

    def _check(self, body: str) -> Checked:
        """Check a body, once for all the requests about it; what runs in between may change what its names mean."""
        known = self._checked.get(body)
        if known is None:
            known = self._checked[body] = check(body, self.names())
            while len(self._checked) > _REMEMBERED:
                self._checked.popitem(last=False)
        return known

    def _diagnose(self, cell: _Cell, _line: int, _column: int) -> Answer:
        self._checked.pop(cell.body, None)
        checked = self._check(cell.body)
        return {"mistakes": [_plain(cell, one) for one in checked.findings], "complete": checked.complete}

    def _hover(self, cell: _Cell, line: int, column: int) -> Answer:
        if line <= cell.skipped:
            return {}
        own = self.names()
        found = hover(cell.body, cell.offset(line, column), self._check(cell.body), own)
        if found is None:
            return {}
        start, end = cell.position(found.start), cell.position(found.end)
        return {"start": start, "end": end, "code": found.code, "text": found.text}

    def _complete(self, cell: _Cell, line: int, column: int) -> Answer:
        if line <= cell.skipped:
            typed = cell.head[: _characters(cell.head, column)]
            word = "" if typed.endswith(" ") else typed.rsplit(maxsplit=1)[-1]
            offers = [{"text": text, "kind": "option", "detail": "", "summary": ""} for text in self.options(typed)]
            return {"start": (line, _units(typed) - _units(word)), "offers": offers, "alone": True}
        found = complete(cell.body, cell.offset(line, column), self.names())
        offers = [
            {"text": one.text, "kind": one.kind, "detail": one.detail, "summary": one.summary} for one in found.offers
        ]
        return {"start": cell.position(found.start), "offers": offers, "alone": found.alone}

    def _tokens(self, cell: _Cell, _line: int, _column: int) -> Answer:
        return {"words": [(*cell.position(word.start), word.end - word.start, word.kind) for word in words(cell.body)]}


def _plain(cell: _Cell, finding: Finding) -> dict[str, object]:
    span = finding.span
    return {
        "start": cell.place(span.line, span.column),
        "end": cell.place(span.end_line, span.end_column),
        "code": finding.code,
        "title": finding.title,
        "message": finding.message,
        "hint": finding.hint,
        "notes": list(finding.notes),
    }
