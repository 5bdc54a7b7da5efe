"""Spans and the text they point into."""

import pytest

from tessera.core.base.source import Source, Span, known_file


def test_lines_count_as_in_the_file():
    source = Source("<cell>", "a\nb\n", first_line=10)
    assert [source.line(n) for n in (9, 10, 11, 12)] == ["", "a", "b", ""]


def test_spans_print_as_compilers_do():
    assert str(Span("k.py", 3, 5, 3, 9)) == "k.py:3:5"


@pytest.mark.parametrize(
    ("name", "folder", "known", "found"),
    [
        ("7.py", "/tmp/cells", {"/tmp/cells/7.py", "8.py"}, "/tmp/cells/7.py"),
        ("<ipython-input-1>", "/somewhere", {"<ipython-input-1>"}, "<ipython-input-1>"),
        ("cells/7.py", "", {"/tmp/cells/7.py"}, "/tmp/cells/7.py"),
        ("7.py", "/tmp", {"/a/7.py", "/b/7.py"}, "/tmp/7.py"),
        ("7.py", "", set(), "7.py"),
    ],
)
def test_tools_name_files_their_own_way(name: str, folder: str, known: set[str], found: str) -> None:
    assert known_file(name, folder, known) == found
