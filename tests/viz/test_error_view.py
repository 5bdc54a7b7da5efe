"""Errors as people see them."""

import re

import pytest

from tessera.core.base.source import Note, Source, Span
from tessera.core.errors.base import TesseraError, render
from tessera.core.errors.catalog import SyntaxMistake
from tessera.viz.error_view import error_html, error_lines, error_view

SOURCE = Source("cell.py", "a = 1\n世 = smem[i] < b\nc = 2", 1, "Cell In[4]")


@pytest.fixture
def error() -> TesseraError:
    note = Note("lane 1 reads it here", Span("cell.py", 1, 1, 1, 6))
    return SyntaxMistake("wrong <b>", Span("cell.py", 2, 5, 2, 12), "use [ ]", [note]).with_source(SOURCE)


def test_the_view_names_places_in_the_users_words(error: TesseraError) -> None:
    view = error_view(error)
    assert view.headline == "TSR-E001 syntax error"
    first, second = view.excerpts
    assert (first.where, first.number, first.text[first.start : first.stop]) == ("Cell In[4]", 2, "smem[i]")
    assert (second.title, second.text) == ("lane 1 reads it here", "a = 1")


def test_coloured_lines_say_what_the_plain_text_says(error: TesseraError) -> None:
    plain = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error_lines(error)))
    assert plain == render(error)
    assert any("\x1b[1;31m^^^^^^^" in line for line in error_lines(error))


def test_html_is_escaped_marked_and_needs_no_style_sheet(error: TesseraError) -> None:
    html = error_html(error)
    assert "wrong &lt;b&gt;" in html
    assert "<b>try:</b> use [ ]" in html
    assert ">smem[i]</span> &lt; b" in html
    assert " " * 12 + "^" * 7 in html
    assert "class=" not in html
    assert "<script" not in html


def test_calls_name_the_users_lines_and_none_of_ours(error: TesseraError) -> None:
    def launch() -> None:
        raise error

    with pytest.raises(TesseraError) as caught:
        launch()
    calls = error_view(caught.value, lambda name: "here" if name == __file__ else name).calls
    assert [call.split(": ")[1] for call in calls] == ["launch()", "raise error"]
    assert all(call.startswith("here, line ") for call in calls)


def test_an_error_without_a_place_has_only_words() -> None:
    error = SyntaxMistake("no place")
    assert error_view(error).excerpts == ()
    assert error_html(error).count("<div") == 1
    assert error_lines(error) == ["\x1b[1;31mTSR-E001 syntax error\x1b[0m: \x1b[1mno place\x1b[0m"]
