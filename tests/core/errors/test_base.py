"""How a mistake is drawn, and that it survives a trip between processes."""

import pickle

from tessera.core.base.source import Note, Source, Span
from tessera.core.errors.base import TesseraError, display_width, render
from tessera.core.errors.catalog import UndefinedName

SOURCE = Source("<cell>", "first\n\tx = größe + 日本 + y\nlast\n", 5, "Cell In[3]")


def test_the_caret_stands_under_the_users_own_columns():
    error = UndefinedName("nothing is named '日本'", Span("<cell>", 6, 14, 6, 16), "define it")
    assert render(error.with_source(SOURCE)).splitlines() == [
        "TSR-E101 unknown name: nothing is named '日本'",
        "  --> Cell In[3], line 6, column 14",
        "   6 | \tx = größe + 日本 + y",
        "     | \t            ^^^^",
        "  try: define it",
    ]


def test_without_source_it_still_says_where():
    error = UndefinedName("nothing is named 'y'", Span("k.py", 3, 5, 3, 6))
    assert str(error).splitlines() == ["TSR-E101 unknown name: nothing is named 'y'", "  --> k.py, line 3, column 5"]


def test_notes_have_excerpts_of_their_own():
    note = Note("first set here", Span("<cell>", 5, 1, 5, 6))
    error = UndefinedName("twice", Span("<cell>", 7, 1, 7, 5), notes=[note]).with_source(SOURCE)
    assert "  note: first set here\n  --> Cell In[3], line 5, column 1\n   5 | first\n     | ^^^^^" in str(error)


def test_a_range_of_lines_marks_the_rest_of_its_first():
    error = UndefinedName("x", Span("<cell>", 5, 3, 7, 2)).with_source(SOURCE)
    assert str(error).splitlines()[-1] == "     |   ^^^"


def test_the_first_source_wins():
    error = UndefinedName("x", Span("<cell>", 5, 1, 5, 2)).with_source(SOURCE)
    assert error.with_source(Source("other", "")).source is SOURCE


def test_errors_travel_between_processes():
    error = UndefinedName("x", Span("<cell>", 5, 1, 5, 2), "hint", [Note("n", Span("<cell>", 6, 1, 6, 2))])
    back = pickle.loads(pickle.dumps(error.with_source(SOURCE)))
    assert type(back) is UndefinedName
    assert str(back) == str(error)
    assert isinstance(back, TesseraError)


def test_width():
    assert display_width("abc") == 3
    assert display_width("日本") == 4
    assert display_width("e\u0301") == 1


def test_ipython_shows_the_message_alone():
    error = UndefinedName("x", Span("<cell>", 5, 1, 5, 2)).with_source(SOURCE)
    assert error._render_traceback_() == str(error).splitlines()
