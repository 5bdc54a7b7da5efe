"""The course: every solution is right under the sanitizer and on the CPU, and every skeleton says what is missing."""

import numpy as np
import pytest

from tessera.api.source_module import compile_source
from tessera.core.settings import overridden
from tessera.core.targets import ORACLE
from tessera_magics.puzzles.course import COURSE
from tessera_magics.puzzles.exercise import Exercise, poisoned
from tessera_magics.puzzles.puzzle import puzzle

numbered = pytest.mark.parametrize("number", range(1, len(COURSE) + 1))


def test_there_are_twenty_and_no_two_are_alike():
    assert len(COURSE) == 20
    assert len({each.title for each in COURSE}) == 20
    assert len({each.kernel_name for each in COURSE}) == 20


@numbered
def test_a_solution_passes_its_check(number: int):
    verdict = puzzle(number).check(COURSE[number - 1].solved)
    assert verdict.solved, verdict.text()
    assert len(verdict.passed) == len(COURSE[number - 1].sizes)


@numbered
def test_a_skeleton_is_told_what_is_missing(number: int):
    exercise = COURSE[number - 1]
    kernel = vars(compile_source(exercise.skeleton))[exercise.kernel_name]
    verdict = puzzle(number).check(kernel)
    assert verdict.kind == "not written yet"
    assert f"`{exercise.kernel_name}` has no body yet" in verdict.text()


@pytest.mark.parametrize("target", [None, ORACLE])
@pytest.mark.parametrize("exercise", COURSE, ids=lambda each: each.kernel_name)
def test_a_solution_computes_the_results(exercise: Exercise, target: str | None):
    with overridden(**({} if target is None else {"target": target})):
        for size in exercise.sizes:
            inputs, expected = exercise.arguments(size)
            results = poisoned(expected)
            exercise.solved(*inputs.values(), *results.values())
            for name, array in expected.items():
                np.testing.assert_allclose(
                    results[name], array, rtol=exercise.tolerance, atol=exercise.tolerance, err_msg=f"{name} at {size}"
                )


@pytest.mark.parametrize("exercise", COURSE, ids=lambda each: each.kernel_name)
def test_sizes_have_ragged_edges_and_inputs_are_the_same_each_time(exercise: Exercise):
    assert len(exercise.sizes) >= 3
    assert any(extent % 8 for size in exercise.sizes for extent in size)
    first, again = (exercise.arguments(exercise.sizes[-1])[0] for _ in range(2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
