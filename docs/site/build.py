"""Build the documentation site: `python docs/site/build.py [FOLDER]` (or `make site`), without a network.

The pages are the documents and notebooks of the repository, laid out as they are there so that their links hold, and
a reference generated from the public names.  Sphinx renders them; every warning is an error.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sphinx.cmd.build import build_main

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE)]

import reference  # noqa: E402 - needs the path

OUTPUT: Final = ROOT / "build" / "site"
HOME: Final = "README.md"
DOCUMENTS: Final = (
    HOME, "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/*.md", "docs/images/*", "notebooks/*.ipynb",
)  # fmt: skip
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Notebooks": ("notebooks/*",),
    "Language": (
        "docs/language",
        "docs/graphs",
        "docs/meshes",
        "docs/collectives",
        "docs/glossary",
        "docs/errors",
    ),
    "Reference": ("reference/language", "reference/python", "reference/*"),
    "Compiler": ("docs/architecture", "docs/compiler", "docs/*", "CONTRIBUTING", "CHANGELOG"),
}
"""What the bar at the top of the site names, and the pages under each; the last pattern takes what is left."""


def write(path: Path, text: str) -> None:
    """Write a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def documents() -> list[Path]:
    """Return the files of the repository that the site shows, relative to its root."""
    return [path.relative_to(ROOT) for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern))]


def contents(pages: set[str]) -> dict[str, list[str]]:
    """Return the pages under each section, every page once."""
    left = set(pages)
    found: dict[str, list[str]] = {}
    for section, patterns in SECTIONS.items():
        chosen = [page for pattern in patterns for page in sorted(left) if Path(page).match(pattern)]
        found[section] = list(dict.fromkeys(chosen))
        left -= set(chosen)
    return found


def toctree(pages: list[str]) -> str:
    """Return the directive that puts pages under the page it stands on."""
    return "```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def assemble(source: Path) -> None:
    """Lay the pages out in the empty folder `source`; the README is the home page."""
    pages: set[str] = set()
    for path in documents():
        target = source / ("index.md" if path.as_posix() == HOME else path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)
        if path.suffix in (".md", ".ipynb"):
            pages.add(path.with_suffix("").as_posix())
    for name, text in reference.pages().items():
        write(source / "reference" / f"{name}.md", text)
        pages.add(f"reference/{name}")
    sections = contents(pages - {Path(HOME).stem})
    for section, held in sections.items():
        links = "".join(f"* [](/{page})\n" for page in held)
        write(source / f"{section.lower()}.md", f"# {section}\n\n{links}\n{toctree(held)}")
    home = (ROOT / HOME).read_text(encoding="utf-8")
    write(source / "index.md", f"{home}\n{toctree([section.lower() for section in sections])}")


def build(output: Path) -> int:
    """Render the site into `output` and return Sphinx's exit status."""
    work = output.parent / f"{output.name}-work"
    shutil.rmtree(work, ignore_errors=True)  # Sphinx takes an entry that moved to another page for a second one
    if (output / ".buildinfo").exists():  # a site that Sphinx made, not somewhere else by mistake
        shutil.rmtree(output)
    assemble(work / "source")
    arguments = ["-b", "html", "--fail-on-warning", "--keep-going", "-q", "-c", str(HERE)]
    return build_main([*arguments, "-d", str(work / "doctrees"), str(work / "source"), str(output)])


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else OUTPUT
    status = build(folder)
    if status == 0:
        sys.stdout.write(f"The site is ready: {(folder / 'index.html').as_uri()}\n")
    sys.exit(status)
