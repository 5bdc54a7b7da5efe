"""Pictures: arrays as tables, with what one lane or tile reads and writes."""

import pytest

from tessera_magics.puzzles.course import COURSE
from tessera_magics.puzzles.exercise import Exercise
from tessera_magics.puzzles.picture import picture


@pytest.mark.parametrize("exercise", COURSE, ids=lambda each: each.kernel_name)
def test_it_survives_where_scripts_do_not(exercise: Exercise):
    drawn = picture(exercise)
    assert not any(f"<{name}" in drawn for name in ("script", "style", "svg", "iframe"))
    inputs, expected = exercise.arguments(exercise.small)
    cells = sum(array.size for array in (*inputs.values(), *expected.values()))
    # A cell for each element, one for each array, and the arrow.
    assert drawn.count("<td ") == cells + len(inputs) + len(expected) + 1
    assert len(drawn) < 20_000


def test_marks_are_those_of_a_run():
    stencil = next(each for each in COURSE if each.title == "Stencil")
    drawn = picture(stencil)
    assert drawn.count("\N{BULLET}&nbsp;") == 3
    assert drawn.count("\N{BLACK STAR}&nbsp;") == 1
    assert "written by the lane that makes out[3]" in drawn
    product = picture(next(each for each in COURSE if each.title == "Matrix product by tiles"))
    assert product.count("\N{BULLET}&nbsp;") == 2 * 4 + 2 * 4
    assert product.count("\N{BLACK STAR}&nbsp;") == 4
    assert "by the tile that makes out[1, 2]" in product
