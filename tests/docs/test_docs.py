"""Every example of the documentation runs on both CPU targets, and the generated pages are up to date."""

from pathlib import Path

import pytest

import tessera
from support.examples import Example, run_section, sections
from support.scripts import load
from tessera.core.settings import overridden
from tessera.frontend.language.namespace import LANGUAGE, Namespace

ROOT = Path(__file__).parents[2]
LANGUAGE_PAGE = ROOT / "docs" / "language.md"
PAGES = [
    ROOT / "README.md",
    LANGUAGE_PAGE,
    *(ROOT / "docs" / f"{name}.md" for name in ("graphs", "meshes", "collectives")),
]
SECTIONS = [
    pytest.param(page, blocks, id=f"{page.stem}: {heading}")
    for page in PAGES
    for heading, blocks in sections(page).items()
    if any(block.kind.startswith(("tessera", "python")) for block in blocks)
]


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(("page", "blocks"), SECTIONS)
def test_examples_run(target: str, page: Path, blocks: list[Example]):
    with overridden(target=target):
        run_section(page, blocks)


def members(prefix: str, value: object) -> list[str]:
    """What users write for `value` and everything in it."""
    if not isinstance(value, Namespace):
        return [prefix]
    return [name for inner in dir(value) for name in members(f"{prefix}.{inner.rstrip('_')}", getattr(value, inner))]


@pytest.mark.parametrize("name", sorted(n for key, value in LANGUAGE.items() for n in members(key, value)))
def test_the_reference_names_everything(name: str):
    text = LANGUAGE_PAGE.read_text(encoding="utf-8")
    assert name in text, f"docs/language.md does not mention {name}"


@pytest.mark.parametrize("name", sorted(set(dir(tessera)) - set(LANGUAGE) - {"__version__"}))
def test_the_reference_names_the_public_functions(name: str):
    assert name in LANGUAGE_PAGE.read_text(encoding="utf-8")


def test_generated_pages_are_up_to_date():
    made = load("generate.py")
    hint = "run `make docs`"
    assert (ROOT / "docs" / "modules.md").read_text(encoding="utf-8") == made.module_page(), hint
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == made.error_pages(), hint


def test_every_mistake_has_a_code_of_its_own_a_title_and_an_example():
    catalogue = load("generate.py").catalogue()
    codes = [kind.code for kind in catalogue]
    assert len(set(codes)) == len(codes)
    assert len({kind.title for kind in catalogue}) == len(catalogue)
    for kind in catalogue:
        assert kind.code[:5] == "TSR-E", kind
        assert "Example: " in (kind.__doc__ or ""), f"{kind.__name__} has no example"
