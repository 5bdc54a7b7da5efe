"""A puzzle as a notebook shows it."""

import pytest

from tessera_magics.puzzles.course import COURSE
from tessera_magics.puzzles.puzzle import puzzle


def test_its_text_and_skeleton():
    first = puzzle(1)
    assert first.title == "1. Map"
    assert first.text().startswith("1. Map\nAdd 10 to every element of `x`.")
    assert first.skeleton == "@kernel\ndef add_ten(x: f32[n], out: mut f32[n]):\n    ..."
    assert "<code>tile.linear_id()</code>" in first.html()
    assert "<b>lane</b>" in first.html()


def test_hint_and_solution():
    assert repr(puzzle(2).hint()) == COURSE[1].hint
    shown = puzzle(2).solution()._repr_mimebundle_()
    assert shown["text/plain"] == COURSE[1].solution.strip()
    assert "a[i] * b[i]" in shown["text/html"]


@pytest.mark.parametrize("number", range(1, 21))
def test_the_plain_text_is_short(number: int):
    assert len(puzzle(number).text()) < 1500


@pytest.mark.parametrize("number", [0, 21, -1])
def test_there_are_no_others(number: int):
    with pytest.raises(IndexError, match="puzzles 1 to 20"):
        puzzle(number)
