"""Longest common and rising subsequences against the textbook's tables."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tessera.core.subsequences import longest_common, longest_rising

WORDS = st.lists(st.sampled_from("abc"), max_size=12)


def common_length(a: list[str], b: list[str]) -> int:
    """The recurrence of Wagner and Fischer."""
    row = [0] * (len(b) + 1)
    for x in a:
        above, row = row, [0]
        for j, y in enumerate(b):
            row.append(above[j] + 1 if x == y else max(above[j + 1], row[j]))
    return row[-1]


@given(WORDS, WORDS)
def test_a_common_subsequence_is_as_long_as_there_is(a: list[str], b: list[str]):
    found = longest_common(a, b)
    assert len(found) == common_length(a, b)
    assert all(a[i] == b[j] for i, j in found)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(found))


def test_what_is_equal_is_common():
    assert longest_common("abc", "abc") == [(0, 0), (1, 1), (2, 2)]
    assert longest_common("axc", "ac") == [(0, 0), (2, 1)]
    assert longest_common("", "ac") == []


def rising_length(numbers: list[int]) -> int:
    best: list[int] = []
    for i, number in enumerate(numbers):
        best.append(1 + max((best[j] for j in range(i) if numbers[j] < number), default=0))
    return max(best, default=0)


@given(st.lists(st.integers(0, 9), max_size=12, unique=True))
def test_a_rising_subsequence_is_as_long_as_there_is(numbers: list[int]):
    found = sorted(longest_rising(numbers))
    assert len(found) == rising_length(numbers)
    assert all(numbers[i] < numbers[j] for i, j in pairwise(found))
