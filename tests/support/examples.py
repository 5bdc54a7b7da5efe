"""The code blocks of a page of documentation, and how they are run.

A section's blocks share one namespace, in which `np` is NumPy and `tessera` is imported:

    ```tessera        a %%tessera cell: kernels and host code
    ```python         ordinary Python, as in an ordinary cell
    ```tessera error  a cell that is refused; the ```text block after it is the message, letter for letter
"""

import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import tessera
from tessera.api.source_module import run_cell
from tessera.core.errors.base import TesseraError

_FENCE: Final = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """One block: what kind, its text, the number of its first line, and the heading above it."""

    kind: str
    text: str
    line: int
    heading: str


def examples(page: Path) -> Iterator[Example]:
    """Every fenced block of `page`, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        headings = _HEADING.findall(_FENCE.sub("", text[: match.start()]))
        line = text.count("\n", 0, match.start()) + 2
        yield Example(match["kind"].strip(), match["text"], line, headings[-1] if headings else "")


def sections(page: Path) -> dict[str, list[Example]]:
    """The blocks of `page` by heading; a heading's blocks are run together."""
    found: dict[str, list[Example]] = {}
    for example in examples(page):
        found.setdefault(example.heading, []).append(example)
    return found


def run_section(page: Path, blocks: list[Example]) -> None:
    """Run blocks in one namespace; a message that is not as printed raises AssertionError."""
    namespace: dict[str, Any] = {"np": np, "tessera": tessera, "__name__": page.stem}
    message = ""
    for block in blocks:
        name = f"<{page.name}, line {block.line}>"
        match block.kind:
            case "tessera":
                run_cell(block.text, namespace, name=name)
            case "python":
                lines = block.text.splitlines(keepends=True)
                linecache.cache[name] = (len(block.text), None, lines, name)
                exec(compile(block.text, name, "exec"), namespace)
            case "tessera error":
                message = _message(block, namespace, name)
            case "text" if message:
                assert message == block.text.rstrip("\n"), f"{name} says:\n{message}"
                message = ""
            case _:
                assert block.kind in ("text", "bash", ""), f"{name}: unknown kind of block {block.kind!r}"


def _message(block: Example, namespace: dict[str, Any], name: str) -> str:
    try:
        run_cell(block.text, namespace, name=name, label="cell")
    except TesseraError as error:
        return str(error)
    raise AssertionError(f"{name} was not refused")
