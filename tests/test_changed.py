"""`tests/support/changed.py`: what a change of a file concerns."""

import pytest

from support.changed import chosen_tests, imported_names, imports, python_files

GRAPH = {
    "tessera/core/a.py": frozenset[str](),
    "tessera/b.py": frozenset({"tessera/core/a.py"}),
    "tessera/c.py": frozenset({"tessera/b.py"}),
    "tessera/__init__.py": frozenset({"tessera/core/a.py"}),
    "tests/support/helper.py": frozenset({"tessera/core/a.py"}),
    "tests/support/other.py": frozenset({"tests/support/helper.py"}),
    "tests/test_b.py": frozenset({"tessera/b.py"}),
    "tests/test_c.py": frozenset({"tessera/c.py"}),
    "tests/test_all.py": frozenset({"tessera/__init__.py"}),
    "tests/viz/test_view.py": frozenset({"tests/support/other.py"}),
}
ALWAYS = {"tests/test_architecture.py"}


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("tessera/core/a.py", {"tests/core/test_a.py", "tests/test_b.py", "tests/viz/test_view.py"}),
        ("tessera/b.py", {"tests/test_b.py", "tests/test_c.py"}),
        ("tessera/c.py", {"tests/test_c.py"}),
        ("tessera_magics/puzzles/course.py", {"tests/magics/puzzles/test_course.py"}),
        ("tests/test_c.py", {"tests/test_c.py"}),
        ("tests/support/helper.py", {"tests/viz/test_view.py"}),
        ("tests/lowering/golden/gemm.ptx", {"tests/lowering/"}),
        ("notebooks/00_tour.ipynb", {"tests/notebooks/"}),
        ("CHANGELOG.md", set[str]()),
    ],
)
def test_what_is_chosen(file: str, tests: set[str]) -> None:
    assert chosen_tests({file}, GRAPH) == tests | ALWAYS


def test_imports_anywhere_in_a_module() -> None:
    text = "import a.b\nfrom c import d\n\ndef f():\n    from e.f import g\n"
    assert imported_names(text) == {"a.b", "c", "c.d", "e.f", "e.f.g"}


def test_the_imports_of_this_repository() -> None:
    assert python_files()["support.changed"] == "tests/support/changed.py"
    assert "tests/support/changed.py" in imports()["tests/test_changed.py"]
    assert "tessera/core/errors/base.py" in imports()["tessera/__init__.py"]
