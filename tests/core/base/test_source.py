"""Spans and the text they point into."""

from tessera.core.base.source import Source, Span


def test_lines_count_as_in_the_file():
    source = Source("<cell>", "a\nb\n", first_line=10)
    assert [source.line(n) for n in (9, 10, 11, 12)] == ["", "a", "b", ""]


def test_spans_print_as_compilers_do():
    assert str(Span("k.py", 3, 5, 3, 9)) == "k.py:3:5"
