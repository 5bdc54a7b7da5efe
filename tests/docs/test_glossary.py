"""The glossary uses Tessera's words as the other documents and the code do."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER, MESHES = "Inside the compiler", "Meshes of devices"
COLUMNS = {COMPILER: 4, MESHES: 6}


def rows() -> list[tuple[str, list[str]]]:
    """Every row of every table, with the heading that it stands under."""
    found: list[tuple[str, list[str]]] = []
    heading = ""
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        heading = line[3:] if line.startswith("## ") else heading
        if line.startswith("| ") and not line.startswith("| Tessera |"):
            found.append((heading, [cell.strip() for cell in line.strip("|").split("|")]))
    return found


def words(term: str) -> str:
    """The part of a term that a text uses: `tile.sum(t, axis=0)` is `tile.sum`."""
    code = re.fullmatch(r"`(.+)`", term)
    return re.split(r"[(\[]", code[1])[0] if code else term


LANGUAGE = [words(cells[0]) for heading, cells in rows() if heading not in COLUMNS]
ON_MESHES = [words(cells[0]) for heading, cells in rows() if heading == MESHES]
INSIDE = [words(cells[0]) for heading, cells in rows() if heading == COMPILER]


def test_the_tables_are_found():
    assert len(LANGUAGE) > 30
    assert len(ON_MESHES) > 10
    assert len(INSIDE) > 10


def test_every_row_fills_its_table():
    for heading, cells in rows():
        assert len(cells) == COLUMNS.get(heading, 5), cells
        assert all(cells[:-1]), f"{cells[0]}: say – where a language has no such thing"


def test_a_term_has_one_row():
    terms = [cells[0] for _, cells in rows()]
    assert sorted(set(terms)) == sorted(terms)


@pytest.mark.parametrize("term", LANGUAGE)
def test_the_language_page_uses_the_term(term: str):
    assert term in (ROOT / "docs" / "language.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("term", ON_MESHES)
def test_the_pages_on_meshes_use_the_term(term: str):
    pages = [ROOT / "docs" / name for name in ("meshes.md", "collectives.md", "graphs.md", "compiler.md")]
    assert any(term in page.read_text(encoding="utf-8") for page in pages)


@pytest.mark.parametrize("term", INSIDE)
def test_the_compiler_uses_the_term(term: str):
    sources = [
        *(ROOT / "docs" / name for name in ("architecture.md", "compiler.md")),
        *(ROOT / "tessera").rglob("*.py"),
    ]
    pattern = re.compile(r"\b" + r"[\s_-]+".join(map(re.escape, term.split())), re.IGNORECASE)
    assert any(pattern.search(path.read_text(encoding="utf-8")) for path in sources)
