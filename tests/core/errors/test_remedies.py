"""Remedies of errors name what exists: operators, functions of Tessera and of NumPy, error codes' own words."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np
import pytest

import tessera
from tessera import dist, graph, op, tile, viz
from tessera.ops.other_names import OTHER_NAMES

PACKAGE: Final = Path(tessera.__file__).parent
ROOMS: Final[dict[str, ModuleType]] = {
    "op": op, "tessera": tessera, "dist": dist, "graph": graph, "tile": tile, "viz": viz, "np": np, "numpy": np,
}  # fmt: skip
NAMED = re.compile(r"(?<![\w.`'/-])(" + "|".join(ROOMS) + r")\.((?:[a-zA-Z_]\w*\.)*[a-zA-Z_]\w*)")


def texts(node: ast.expr) -> Iterator[str]:
    """The strings of an expression; of an f-string what stands between the values, each of which is a blank."""
    for part in ast.walk(node):
        if isinstance(part, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "\0" for each in part.values)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def remedies() -> Iterator[tuple[str, str]]:
    """Every text that is given as `hint=` in the package, with the line where it is."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "hint=" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                for text in texts(node.value):
                    yield f"{path.relative_to(PACKAGE)}:{node.value.lineno}", text


def missing(text: str) -> list[str]:
    """Dotted names of a text that lead nowhere."""
    absent: list[str] = []
    for room, name in NAMED.findall(text.replace("\0", " ")):
        value: object = ROOMS[room]
        for part in name.split("."):
            if not hasattr(value, part) and isinstance(value, ModuleType):
                try:
                    importlib.import_module(f"{value.__name__}.{part}")
                except ImportError:
                    absent.append(f"{room}.{name}")
                    break
            value = getattr(value, part, None)
            if value is None:
                absent.append(f"{room}.{name}")
                break
    return absent


def test_every_remedy_names_what_exists():
    hints = list(remedies())
    assert len(hints) > 300
    wrong = [f"{where}: {name}" for where, text in hints for name in missing(text)]
    assert wrong == []


def test_what_is_written_instead_of_other_libraries_names_exists():
    assert {name: missing(text) for name, text in OTHER_NAMES.items() if missing(text)} == {}


@pytest.mark.parametrize("text", ["use op.softmaxx(x)", "call tessera.configur()", "see viz.nothing"])
def test_a_name_that_leads_nowhere_is_told(text: str):
    assert missing(text)
