"""Write the generated parts of the documentation: `python docs/generate.py` (or `make docs`).

`modules.md` lists every file, with the first lines of the docstrings; `errors.md` lists every
mistake of the catalogue; `labextension/src/names.json` holds the names of the language.  Tests compare them with what
this file would write.
"""

import ast
import json
import re
from pathlib import Path
from typing import Final

from tessera.core.errors import catalog
from tessera.core.errors.base import TesseraError
from tessera_magics.language.tokens import table

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
PACKAGES: Final = ("tessera", "tessera_magics")
ROOMS: Final = (
    "core", "frontend", "lowering", "runtime", "performance", "dist", "session", "kernels", "profiling", "tuning",
    "api", "ops", "viz",
)  # fmt: skip
MAP_LINK: Final = "[architecture.md](architecture.md) is the map."
OTHER_FILES: Final = {
    "README.md": "What Tessera is, and the two commands.",
    "CONTRIBUTING.md": "How to change it: commands, rules, where things go.",
    "CHANGELOG.md": "What changed for users, newest first.",
    "LICENSE": "Apache-2.0.",
    "Makefile": "The commands: `make help`.",
    "pyproject.toml": "Dependencies with their reasons; the rules of linter, type checker, tests and imports.",
    "MANIFEST.in": "What the source distribution leaves out.",
    "requirements.lock": "Every package of the environment, pinned with its hashes (generated: `make lock`).",
    "SECURITY.md": "What counts as a vulnerability, and how to report one.",
    "CITATION.cff": "How to cite Tessera.",
    ".pre-commit-config.yaml": "Checks before each commit, with the tools of `.venv`.",
    ".github": "The workflow of GitHub, which runs `.ci/run`; forms for issues and pull requests.",
    ".ci/run": "What CI runs: Chromium where it can be had, then `make test`.",
    "docs/architecture.md": "The map: rooms, the path of a cell, the path of a launch, where to find what.",
    "docs/compiler.md": "What each level holds and promises, from a Program to a launch.",
    "docs/modules.md": "This page (generated).",
    "docs/language.md": "The reference of the language; its examples run in the tests.",
    "docs/testing.md": "The tiers of the tests, and where a new one goes.",
    "docs/collectives.md": "Reductions and exchanges over the devices of a mesh: promises, trees, engines.",
    "docs/graphs.md": "Operators on whole arrays, graphs of them, and derivatives; its examples run in the tests.",
    "docs/meshes.md": "Meshes, tensors in shards, layouts and index launches; its examples run in the tests.",
    "docs/errors.md": "Every mistake Tessera reports, with an example (generated).",
    "notebooks/template/offline": "The look of the exported tour, without scripts from the network.",
}
GROUPS: Final = {
    "E0": "The text", "E1": "Names and types", "E2": "Shapes and memory", "E3": "Control flow", "E4": "Launches",
    "E5": "Found by the sanitizer", "E6": "Meshes", "E7": "GPUs", "E8": "Graphs of operators",
    "E9": "The compiler and its settings",
}  # fmt: skip


def summary(path: Path) -> str:
    """Return the first paragraph of a Python file's docstring, or the comment that heads another file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        match = re.match(r"\s*(?:/\*+|//|<!--|\{#-?)\s*(.+?)\s*(?:\*/|-->|-?#\}|$)", text, re.MULTILINE)
        return match[1] if match else ""
    docstring = ast.get_docstring(ast.parse(text)) or ""
    return docstring.split("\n\n", maxsplit=1)[0].replace("\n", " ")


def title(notebook: Path) -> str:
    """Return the heading that a notebook begins with."""
    first = "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"])
    return first.splitlines()[0].lstrip("# ") if first else ""


def source_files() -> list[Path]:
    """Every file of the packages that a person wrote, in reading order: nouns before verbs."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*")]
    kept = [path for path in files if path.suffix in (".py", ".css", ".js") and path.stat().st_size > 0]
    order = {name: rank for rank, name in enumerate(ROOMS)}

    def rank(path: Path) -> tuple[object, ...]:
        package, *inside = path.relative_to(ROOT).parts
        inner = order.get(inside[0], len(order)) if len(inside) > 1 else len(order)
        return package, inner, path.parent.as_posix(), path.name

    return sorted(kept, key=rank)


def file_map() -> str:
    """Return the map of every file as Markdown."""
    rows: dict[str, list[str]] = {}
    for path in source_files():
        folder = path.parent.relative_to(ROOT).as_posix()
        rows.setdefault(folder, []).append(f"| `{path.name}` | {summary(path)} |")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        rows.setdefault("notebooks", []).append(f"| `{path.name}` | {title(path)} |")
    for path in [*sorted((ROOT / "benchmarks").glob("*.py")), *sorted(DOCS.rglob("*.py"))]:
        rows.setdefault(path.parent.relative_to(ROOT).as_posix(), []).append(f"| `{path.name}` | {summary(path)} |")
    tables = [
        f"**{folder}**\n\n| file | what it is |\n|---|---|\n" + "\n".join(lines) for folder, lines in rows.items()
    ]
    others = "\n".join(f"| `{name}` | {what} |" for name, what in OTHER_FILES.items())
    tests = "Tests mirror the packages, file for file: `tests/core/test_layouts.py` tests `tessera/core/layouts.py`."
    return "\n\n".join([*tables, f"**root**\n\n| file | what it is |\n|---|---|\n{others}", tests]) + "\n"


def catalogue() -> list[type[TesseraError]]:
    """Every mistake, by code."""
    found = [kind for kind in vars(catalog).values() if isinstance(kind, type) and issubclass(kind, TesseraError)]
    return sorted((kind for kind in found if kind is not TesseraError), key=lambda kind: kind.code)


def error_pages() -> str:
    """Return the catalogue of mistakes as Markdown."""
    parts = [
        "# Every mistake Tessera reports",
        "Each has a code that never changes.  A message shows the line of your own cell with a caret, and what to try.",
    ]
    group = ""
    for kind in catalogue():
        if kind.code[4:6] != group:
            group = kind.code[4:6]
            parts.append(f"## {GROUPS[group]}")
        text, _, example = (kind.__doc__ or "").strip().partition("Example: ")
        text = " ".join(text.split())
        body = f'<a id="{kind.code.lower()}"></a>**{kind.code}** `{kind.__name__}`: {kind.title}  \n{text}'
        parts.append(body + (f"  \nExample: {' '.join(example.split())}" if example else ""))
    return "\n\n".join(parts) + "\n"


def module_page() -> str:
    """Return `modules.md`."""
    return f"# Every module\n\nWhat each file is, folder by folder. {MAP_LINK}\n\n{file_map()}"


def main() -> None:
    """Write all of them."""
    (DOCS / "modules.md").write_text(module_page(), encoding="utf-8")
    (DOCS / "errors.md").write_text(error_pages(), encoding="utf-8")
    (ROOT / "labextension" / "src" / "names.json").write_text(json.dumps(table(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
