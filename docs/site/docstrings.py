"""Read the project's docstrings as reStructuredText: code in single backticks, and lines that say what a name means.

grid: groups of the launch       ->  a list with one item for each name
Raises BadKernelOption for ...   ->  a paragraph of its own
"""

import itertools
import re
from typing import Final

from sphinx.application import Sphinx

ITEM: Final = re.compile(r"^(`?\*{0,2}[A-Za-z_][\w.]*`?(?:(?:, | and )`?\*{0,2}[A-Za-z_]\w*`?)*): (?=\S)(.*)$")
PARAGRAPH: Final = re.compile(r"^(Raises?|Returns?|Example:|Warns|Used as)\b")
SECTION: Final = re.compile(r"^(Args|Arguments|Attributes|Returns|Raises|Yields|Example|Examples|Source|Note|Notes):$")
CODE: Final = re.compile(r"(`+)(.+?)\1")


def inline(text: str) -> str:
    """Return a line with its code in double backticks, and what reStructuredText would read as markup escaped."""
    parts: list[str] = []
    last = 0
    for found in CODE.finditer(text):
        parts += [escaped(text[last : found.start()]), f"``{found[2].strip()}``"]
        last = found.end()
        if last < len(text) and text[last].isalnum():
            parts.append("\\ ")
    return "".join([*parts, escaped(text[last:])])


def escaped(text: str) -> str:
    """Return text in which `*`, `|` and trailing `_` stand for themselves."""
    return re.sub(r"(\*|\||_(?=\W|$))", r"\\\1", text)


def rst(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText."""
    result: list[str] = []
    in_item = in_section = in_code = False
    for line in lines:
        stripped = line.strip()
        if not stripped:
            in_item = False
            result.append("")
        elif SECTION.match(line):
            in_section, in_item = True, False
            result += ["", line]
        elif in_section and line.startswith(" "):
            result.append(inline(line))
        elif line.startswith("    ") and not in_item:
            result += [] if in_code else ["", "::", ""]
            result.append(line)
            in_code = True
            continue
        else:
            result += _sentence(line, stripped, in_item)
            in_item = bool(ITEM.match(line)) or (in_item and not PARAGRAPH.match(line))
            in_section = False
        in_code = in_code and not stripped
    return [line for before, line in itertools.pairwise(["", *result]) if before or line]


def _sentence(line: str, stripped: str, in_item: bool) -> list[str]:
    """Return a line of prose: the item of a list, what continues one, the begin of a paragraph, or its next line."""
    if item := ITEM.match(line):
        names = re.sub(r"`?(\*{0,2}[A-Za-z_][\w.]*)`?", lambda m: m[0] if m[1] == "and" else f"``{m[1]}``", item[1])
        return [*([] if in_item else [""]), f"* {names}: {inline(item[2])}"]
    if PARAGRAPH.match(line):
        return ["", inline(line)]
    return [f"  {inline(stripped)}" if in_item else inline(line)]


def to_rst(_app: Sphinx, _what: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    """Rewrite a docstring in place, as autodoc asks its listeners to."""
    lines[:] = rst(lines)
