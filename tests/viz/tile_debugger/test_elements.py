"""Sets of elements: runs there and back, slices in words against NumPy's slicing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.viz.tile_debugger.elements import elements_of, runs_of, slice_text


@given(st.lists(st.integers(0, 60), max_size=40))
def test_runs_keep_elements_and_their_order(elements: list[int]):
    given_elements = np.asarray(elements, np.int64)
    assert elements_of(runs_of(given_elements)).tolist() == elements


def test_regular_elements_are_one_run():
    assert runs_of(np.arange(5, 300, 7)).tolist() == [[5, 43, 7]]
    assert runs_of(np.full(32, 9)).tolist() == [[9, 32, 0]]
    assert runs_of(np.arange(10)[::-1]).tolist() == [[9, 10, -1]]


def test_a_window_of_a_matrix_is_a_run_a_row():
    window = np.arange(80).reshape(8, 10)[2:5, 3:7]
    assert runs_of(window.ravel()).tolist() == [[23, 4, 1], [33, 4, 1], [43, 4, 1]]


@given(st.data(), st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_a_slice_in_words_is_the_slice(data: st.DataObject, shape: list[int]):
    parts = [
        slice(
            start := data.draw(st.integers(0, n - 1)),
            data.draw(st.integers(start + 1, n)),
            data.draw(st.integers(1, 3)),
        )
        for n in shape
    ]
    numbers = np.arange(np.prod(shape)).reshape(shape)
    elements = numbers[tuple(parts)].ravel()
    text = slice_text(shape, elements)
    found = np.asarray(eval(f"numbers{text}", {"numbers": numbers}))
    assert found.ravel().tolist() == elements.tolist()


@pytest.mark.parametrize(
    ("elements", "text"),
    [([], "nothing"), ([7], "[1, 2]"), ([0, 6], "2 elements of [0:2, 0:2]"), ([0, 1, 5, 6], "[0:2, 0:2]")],
)
def test_elements_that_are_no_slice_are_counted(elements: list[int], text: str):
    assert slice_text((4, 5), np.asarray(elements, np.int64)) == text
