"""Elements that are not as expected."""

import numpy as np
import pytest

from tessera.profiling.wrong_elements import WrongElements, wrong_elements


def test_the_first_wrong_element_is_told():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    wanted = x.copy()
    assert wrong_elements("x", x, wanted) is None
    wanted[1, 2], wanted[2, 3] = 7.0, 50.0
    wrong = wrong_elements("x", x, wanted)
    assert wrong == WrongElements("x", 2, 12, (1, 2), 6.0, 7.0)
    assert str(wrong) == "x: 2 of 12 are not as expected, the first is x[1, 2] = 6, expected 7"


@pytest.mark.parametrize(("value", "count"), [(1e-5, 0), (1e-2, 1)])
def test_rounding_is_not_wrong(value: float, count: int):
    x = np.array([0.0, 1.0, 10.0], np.float32)
    wrong = wrong_elements("x", x, x + np.array([value, 0.0, 0.0]))
    assert (wrong.count if wrong is not None else 0) == count


def test_nan_and_infinities_agree_with_themselves_alone():
    x = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert wrong_elements("x", x, x.copy()) is None
    wrong = wrong_elements("x", x, np.array([0.0, np.inf, np.inf, np.nan]))
    assert wrong is not None
    assert (wrong.count, wrong.index) == (3, (0,))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
def test_integers_are_exact(dtype: type):
    x = np.array([0, 1, 1]).astype(np.dtype(dtype))
    assert wrong_elements("x", x, x.astype(np.int64)) is None
    wrong = wrong_elements("x", x, np.array([0, 1, 0]).astype(dtype))
    assert wrong is not None
    assert (wrong.index, wrong.value, wrong.expected) == ((2,), 1.0, 0.0)
    assert wrong_elements("x", x, np.array([0.0, 1.0, 1.5])) is not None, "an integer kernel, and a fraction expected"


def test_numbers_without_axes():
    wrong = wrong_elements("s", np.array(1.0, np.float32), np.array(2.0, np.float32))
    assert str(wrong) == "s: 1 of 1 are not as expected, the first is s[] = 1, expected 2"
