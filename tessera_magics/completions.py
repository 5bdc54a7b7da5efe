"""Completions in `%%tessera` cells and `%tessera` lines: options, commands, and the names of the language."""

from collections.abc import Iterable, Mapping

from tessera_magics.language.names import Found, complete_body
from tessera_magics.line import kernel_names
from tessera_magics.options import complete_cell, complete_line


def completions(names: Mapping[str, object], text: str, number: int, line: str) -> Found | None:
    """Return what may stand at the end of `line`, line `number` of a cell's `text`; None in other cells.

    names: of the notebook
    """
    lines = text.split("\n")
    if line.lstrip().startswith("%tessera"):
        return _words(line, complete_line(line, kernel_names(names)))
    if not lines[0].startswith("%%tessera"):
        return None
    if number == 0:
        return _words(line, complete_cell(line))
    return complete_body("\n".join([*lines[1:number], line]), names)


def _words(line: str, words: Iterable[str]) -> Found:
    """Return completions of a magic's own line."""
    current = "" if line.endswith(" ") else line.rsplit(maxsplit=1)[-1]
    return Found(current, tuple((word, "param") for word in words), alone=True)
