"""The notebook of puzzles: it has every puzzle, with the text, skeleton and solution of the course."""

from pathlib import Path

import pytest

from support import notebook_files
from tessera_magics.puzzles.course import COURSE

CELLS = notebook_files.read(Path(__file__).resolve().parents[2] / "notebooks" / "20_puzzles.ipynb").cells


@pytest.mark.parametrize("number", range(1, len(COURSE) + 1))
def test_a_puzzle_is_the_one_of_the_course(number: int):
    exercise = COURSE[number - 1]
    told, shown, skeleton, check = CELLS[4 * number - 2 : 4 * number + 2]
    assert told.source.startswith(f"## {number}. {exercise.title}\n\n{exercise.text}\n")
    folded = told.source.split("<details>")
    assert exercise.hint in folded[1]
    assert exercise.solution.strip() in folded[2]
    assert shown.source == f"puzzle({number})"
    assert skeleton.source == f"%%tessera\n{exercise.skeleton}"
    assert check.source == f"puzzle({number}).check({exercise.kernel_name})"
    said = check.outputs[0].get("data", {})["text/plain"]
    assert f"{exercise.title}: not written yet" in said


def test_there_is_nothing_else():
    assert len(CELLS) == 2 + 4 * len(COURSE)
