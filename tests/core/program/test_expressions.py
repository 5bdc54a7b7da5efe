"""Expressions of shape symbols: their values, their text, and code for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.program.expressions import (
    OPERATIONS,
    Expression,
    can_translate,
    evaluate,
    make,
    read_expression,
    to_text,
    translate,
    trips,
)

LEAVES = st.one_of(st.integers(-20, 20), st.sampled_from(["n", "rows"]))


def grown(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    anything = st.tuples(st.sampled_from(["add", "sub", "mul", "min", "max"]), inner, inner)
    return st.one_of(anything, st.tuples(st.sampled_from(["floordiv", "mod"]), inner, st.integers(1, 9)))


EXPRESSIONS = st.recursive(LEAVES, grown, max_leaves=8)
SYMBOLS = st.fixed_dictionaries({"n": st.integers(0, 50), "rows": st.integers(0, 50)})


class Numbers:
    """Makes numbers instead of code, and refuses what code cannot do."""

    def __init__(self, symbols: dict[str, int]) -> None:
        self.symbols = symbols

    def leaf(self, leaf: int | str) -> int:
        return self.symbols[leaf] if isinstance(leaf, str) else leaf

    def apply(self, name: str, a: int, b: int) -> int:
        if name == "divide":
            assert a >= 0
            assert b > 0
            return a // b
        return OPERATIONS[name](a, b)


@given(EXPRESSIONS, SYMBOLS)
def test_code_text_and_value_agree(expression: Expression, symbols: dict[str, int]):
    value = evaluate(expression, symbols.__getitem__)
    assert translate(expression, Numbers(symbols)) == value
    assert eval(to_text(expression), {"min": min, "max": max}, dict(symbols)) == value
    assert read_expression(expression) == expression


@given(st.sampled_from(sorted(OPERATIONS)), EXPRESSIONS, EXPRESSIONS, SYMBOLS)
def test_what_is_worked_out_keeps_its_value(name: str, a: Expression, b: Expression, symbols: dict[str, int]):
    assert evaluate(make(name, a, b), symbols.__getitem__) == evaluate((name, a, b), symbols.__getitem__)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (make("sub", make("add", "rows", 3), 5), "rows - 2"),
        (make("floordiv", make("add", "rows", 31), 32), "(rows + 31) // 32"),
        (make("sub", "rows", "rows"), "0"),
        (make("sub", "a", make("sub", "b", "c")), "a - (b - c)"),
    ],
)
def test_text(expression: Expression, text: str):
    assert to_text(expression) == text


def test_trips_of_a_loop():
    assert trips(70, 8) == 9
    assert evaluate(trips(make("sub", "n", 9), 4), {"n": 3}.__getitem__) == 0
    assert to_text(trips("n", 1)) == "n"
    assert to_text(trips(make("sub", "n", 1), 1)) == "max(n - 1, 0)"


def test_divisors_are_positive_numbers():
    assert can_translate("floordiv", 4)
    assert not can_translate("mod", 0)
    assert not can_translate("floordiv", "n")


@pytest.mark.parametrize("damaged", [None, 1.5, ("pow", 1, 2), ("add", 1), ("add", 1, None)])
def test_damaged(damaged: object):
    with pytest.raises(ValueError, match="not an expression"):
        read_expression(damaged)
