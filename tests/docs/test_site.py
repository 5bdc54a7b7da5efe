"""The documentation site builds without a network and without warnings, its links lead somewhere, and it names everything."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest
from pygments.token import Keyword, Name

import tessera
from support.scripts import DOCS, load
from tessera.core.schedule.options import SCHEDULE
from tessera.core.settings import Settings
from tessera.frontend.language.namespace import LANGUAGE
from tessera.frontend.language.reference import REFERENCE

UNREACHABLE = "http://127.0.0.1:9"  # the discard port, where nothing listens


class Page(HTMLParser):
    """What a page of the site holds: anchors, links, and the files that it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon", "modulepreload"):
            self.loads.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built where the network cannot be reached; a warning ends the build."""
    folder = tmp_path_factory.mktemp("site") / "html"
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), UNREACHABLE)
    command = [sys.executable, str(DOCS / "site" / "build.py"), str(folder)]
    done = subprocess.run(command, env={**os.environ, **proxies}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_every_document_and_notebook_has_a_page(site: Path, pages: dict[Path, Page]):
    documents = [path for path in load("site/build.py").documents() if path.suffix in (".md", ".ipynb")]
    assert len(documents) > 10
    names = ["index" if path.name == "README.md" else path.with_suffix("").as_posix() for path in documents]
    assert [name for name in names if site / f"{name}.html" not in pages] == []


def test_every_internal_link_leads_somewhere(site: Path, pages: dict[Path, Page]):
    broken: list[str] = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            held = pages.get(target)
            missing = not target.exists() or (parts.fragment and held and unquote(parts.fragment) not in held.anchors)
            if missing:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_the_network(site: Path, pages: dict[Path, Page]):
    for path, page in pages.items():
        for loaded in page.loads:
            assert not urlsplit(loaded).netloc, f"{path.relative_to(site)} loads {loaded}"
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_the_reference_names_every_operation(pages: dict[Path, Page], site: Path):
    anchors = pages[site / "reference" / "language.html"].anchors
    assert [spelling for spelling in REFERENCE if spelling not in anchors] == []


def test_the_reference_names_every_public_name(pages: dict[Path, Page], site: Path):
    anchors = pages[site / "reference" / "python.html"].anchors
    names = set(dir(tessera)) - set(LANGUAGE) - {"__version__"}
    modules = {name for name in names if isinstance(getattr(tessera, name), ModuleType)}
    assert [name for name in names - modules if not {name, f"tessera.{name}"} & anchors] == []
    methods = {f"tessera.Kernel.{name}" for name in ("compile", "variant", "autotune", "inspect_ir", "on")}
    assert methods <= anchors
    assert len(modules) > 3
    for module in modules:
        held = pages[site / "reference" / f"{module}.html"].anchors
        assert {f"tessera.{module}.{name}" for name in getattr(tessera, module).__all__} <= held


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("docs/errors", [kind.code for kind in load("generate.py").catalogue()]),
        ("reference/schedule", list(SCHEDULE)),
        ("reference/settings", [f"TESSERA_{name.upper()}" for name in Settings.__dataclass_fields__]),
        ("reference/magics", ["%%tessera", "--show", "--sanitize", "%tessera doctor"]),
    ],
)
def test_the_tables_are_whole(site: Path, page: str, names: list[str]):
    text = re.sub(r"<[^>]+>", "", (site / f"{page}.html").read_text(encoding="utf-8"))
    assert names
    assert [name for name in names if name not in text] == []


def test_errors_can_be_linked_by_code(site: Path, pages: dict[Path, Page]):
    anchors = pages[site / "docs" / "errors.html"].anchors
    assert [kind.code for kind in load("generate.py").catalogue() if kind.code.lower() not in anchors] == []


def test_notebooks_show_their_outputs(site: Path):
    tour = (site / "notebooks" / "00_tour.html").read_text(encoding="utf-8")
    assert 'class="tsr-view" data-kind="explorer"' in tour
    assert "cell_output" in tour
    assert "<table" in (site / "notebooks" / "04_gemm_and_attention.html").read_text(encoding="utf-8")


def test_the_search_needs_no_server(site: Path):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    assert "warp_shuffle_down" in index


def test_every_page_stands_in_one_section():
    build = load("site/build.py")
    found = build.contents({"docs/language", "docs/news", "notebooks/00_tour", "reference/python", "CHANGELOG"})
    assert found == {
        "Notebooks": ["notebooks/00_tour"],
        "Language": ["docs/language"],
        "Reference": ["reference/python"],
        "Compiler": ["docs/news", "CHANGELOG"],
    }


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (["Return `x`, or *args* of a_."], ["Return ``x``, or \\*args\\* of a\\_."]),
        (["Do it.", "", "grid: groups", "x, y: arrays", "    of rows"],
         ["Do it.", "", "* ``grid``: groups", "* ``x``, ``y``: arrays", "  of rows"]),
        (["One.", "Raises BadStream: always."], ["One.", "", "Raises BadStream: always."]),
        (["So:", "", "    x = 1"], ["So:", "", "::", "", "    x = 1"]),
        (["Do.", "", "Args:", "    x: `y`"], ["Do.", "", "Args:", "    x: ``y``"]),
    ],
)  # fmt: skip
def test_docstrings_become_restructured_text(docstring: list[str], expected: list[str]):
    assert load("site/docstrings.py").rst(docstring) == expected


def test_the_lexer_knows_the_syntax():
    tokens = list(
        load("site/lexer.py").TesseraLexer().get_tokens("@kernel tile[(2,)]\ndef f(x: mut f32[n]):\n    pass\n")
    )
    assert (Name.Decorator, "@kernel") in tokens
    assert (Keyword, "tile") in tokens
    assert (Keyword, "mut") in tokens


def test_cells_of_notebooks_are_read_in_their_syntax():
    lexer = load("site/lexer.py").NotebookLexer()
    assert (Keyword, "mut") in list(lexer.get_tokens("%%tessera --time\ndef f(x: mut f32[n]): pass\n"))
    assert (Keyword, "mut") not in list(lexer.get_tokens("mut = 1\n"))


def test_plain_text_stays_plain():
    assert load("site/reference.py").prose("alloc[f32](x) of `a[0]`, *b*") == "alloc\\[f32\\](x) of `a[0]`, \\*b\\*"
