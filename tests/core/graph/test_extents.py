"""Symbolic extents: integers in every respect, and exact about what they were asked."""

import math
from collections.abc import Callable, Mapping
from operator import add, eq, le, lt, mul, sub

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.graph.extents import Extent, Symbols, larger

QUOTIENTS: Mapping[str, Callable[[int, int], int]] = {
    "/": lambda x, y: x // y, "%": lambda x, y: x % y,
}  # fmt: skip
OPERATIONS: Mapping[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul, "m": larger}
RELATIONS: Mapping[str, Callable[[int, int], bool]] = {"=": eq, "<": lt, "l": le}


def symbols(n: int = 512, m: int = 300) -> Symbols:
    return Symbols(("n", "m"), (n, m))


CASES: dict[str, tuple[Callable[[int, int], int], str]] = {
    "sum": (lambda n, m: 3 + n + m + n, "2*n + m + 3"),
    "difference": (lambda n, m: 7 - (n - m), "-1*n + m + 7"),
    "product": (lambda n, m: math.prod((n, 64, m, n)), "64*n*n*m"),
    "even quotient": (lambda n, m: n * m * 64 // (8 * m), "8*n"),
    "quotient": (lambda n, m: (n * 6 + 2) // 4, "((3*n + 1) // 2)"),
    "remainder": (lambda n, m: (n + m) % 7, "((n + m) % 7)"),
    "ceiling": (lambda n, m: -(-n // 128), "-1*((-1*n) // 128)"),
    "of a number": (lambda n, m: 1000 // n + 1000 % m, "(1000 // n) + (1000 % m)"),
    "larger": (lambda n, m: larger(n, 2 * m) + larger(3, m), "max(n, 2*m) + max(m, 3)"),
    "sum of several": (lambda n, m: sum((n, m, n)), "2*n + m"),
    "absolute": (lambda n, m: abs(-n * 2), "2*n"),
    "pair": (lambda n, m: divmod(n, 5)[0] * 5 + divmod(n, 5)[1], "5*(n // 5) + (n % 5)"),
}


@pytest.mark.parametrize("name", CASES)
def test_arithmetic_is_that_of_integers_and_kept(name: str):
    function, text = CASES[name]
    scope = symbols()
    made = function(*scope.extents)
    assert isinstance(made, Extent)
    assert str(made) == repr(made) == f"{made}" == text
    for n, m in ((512, 300), (2, 2), (77, 1000)):
        there = symbols(n, m)
        found = function(*there.extents)
        assert int.__int__(found) == function(n, m)


def test_equal_polynomials_are_equal_and_the_same_key():
    n, m = symbols().extents
    assert n * (m + 1) == m * n + n
    assert {n * 64, 64 * n, n * 32 * 2} == {64 * n}
    assert n - n == 0
    assert type(n - n) is int
    assert n.symbols.conditions == ()


def test_extents_of_other_graphs_are_other_keys():
    one, other = symbols().extents[0], symbols().extents[0]
    assert hash(one) != hash(other)


def test_what_holds_for_all_values_is_no_condition():
    n, m = symbols().extents
    assert n > 0
    assert n * m + 1 != 0
    assert n
    assert n >= 2
    assert n // 8 + 1 > 0
    assert larger(n, m) >= 0
    assert not n + m < 3
    assert n.symbols.conditions == ()


def test_decisions_are_conditions():
    scope = symbols()
    n, m = scope.extents
    assert n % 128 == 0
    assert m <= 16384
    assert not n < m
    assert max(n, 2 * m) == 2 * m
    texts = [scope.condition_text(each) for each in scope.conditions]
    assert texts == ["(n % 128) == 0", "m <= 16384", "n >= m", "n < 2*m"]
    assert scope.values((640, 400)) is not None
    for wrong in ((600, 400), (640, 16385), (128, 300), (640, 200), (0, 0), (1, 1)):
        assert scope.values(wrong) is None
    scope.close()
    assert n != 77
    assert len(scope.conditions) == 4


@pytest.mark.parametrize(
    "leave", [float, int, lambda n: n / 2, lambda n: 1 / n, lambda n: Extent.bit_length(n) if isinstance(n, Extent) else int.bit_length(n), lambda n: n & 7, lambda n: 7 & n,
              lambda n: n << 1, lambda n: n >> 1, lambda n: n**2],
)  # fmt: skip
def test_what_leaves_the_integers_makes_the_value_a_condition(leave: Callable[[int], float]):
    scope = symbols()
    found = leave(scope.extents[0])
    assert found == leave(512)
    assert not isinstance(found, Extent)
    assert scope.values((512, 300)) is not None
    assert scope.values((513, 300)) is None


def test_other_values_that_fulfil_the_conditions():
    scope = symbols()
    n, _ = scope.extents
    assert n % 128 == 0
    assert scope.another() == (1024, 600)
    assert math.floor(n) is n
    assert float(n) == 512
    assert scope.another() is None


def test_a_quotient_by_what_may_be_nothing():
    scope = symbols()
    n, m = scope.extents
    assert n // (n - m) == 2
    assert scope.values((300, 300)) is None


@given(st.data())
def test_conditions_are_exact(data: st.DataObject):
    """Any program of integers decides the same for all values that fulfil what it noted for its sample."""
    draw = data.draw
    small = st.integers(2, 40)
    steps = draw(st.lists(st.tuples(st.sampled_from("+-*/%m"), st.integers(0, 7), st.integers(0, 7)), max_size=8))
    tests = draw(st.lists(st.tuples(st.sampled_from("=<l"), st.integers(0, 10), st.integers(0, 10)), max_size=6))

    def run(n: int, m: int) -> tuple[list[bool], list[int]]:
        values = [n, m, 1, 3, 16]
        for op, a, b in steps:
            x, y = values[a % len(values)], values[b % len(values)]
            if y != 0 or op not in QUOTIENTS:
                values.append({**OPERATIONS, **QUOTIENTS}[op](x, y))
        found: list[bool] = []
        for op, a, b in tests:
            x, y = values[a % len(values)], values[b % len(values)]
            found.append(RELATIONS[op](x, y))
        return found, values

    scope = symbols(draw(small), draw(small))
    decided, made = run(*scope.extents)
    assert decided == run(*scope.sample)[0]
    for _ in range(5):
        given_values = (draw(small), draw(small))
        unknowns = scope.values(given_values)
        if unknowns is not None:
            others, values = run(*given_values)
            assert others == decided
            from_symbols = [scope.value_of(each, unknowns) for each in made]
            assert from_symbols == values
