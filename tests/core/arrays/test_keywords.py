"""Keywords that are no parameters: what is meant by them, with the place of the call."""

# Calls that do not fit are what is tested.
# pyright: reportCallIssue=false

from collections.abc import Callable

import numpy as np
import pytest

from tessera import graph, op
from tessera.core.arrays.keywords import OTHER_KEYWORDS, Parameters, require_parameters
from tessera.core.errors.catalog import ArgumentCount


def _names(function: Callable[..., object]) -> tuple[str, ...]:
    parameters = Parameters.of(function)
    return () if parameters is None else parameters.names


def test_every_other_name_is_one_of_some_operator():
    operators = [getattr(op, name) for name in op.__all__]
    parameters = {name for one in operators for name in _names(getattr(one, "function", one))}
    assert set(OTHER_KEYWORDS.values()) <= parameters
    assert not set(OTHER_KEYWORDS) & {"axis", "keepdims", "shift", "k"}


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [("dim", "did you mean axis=?"), ("correction", "did you mean ddof=?"), ("axi", "did you mean axis=?"),
     ("out", "its parameters are axis, ddof"), ("shifts", "its parameters are axis, ddof")],
)  # fmt: skip
def test_hints(keyword: str, hint: str):
    require_parameters("f", ["axis", "ddof"], ["axis", "ddof"])
    with pytest.raises(ArgumentCount, match=f"f has no parameter {keyword}") as caught:
        require_parameters("f", ["axis", "ddof"], ["axis", keyword])
    assert hint in str(caught.value)
    assert "test_keywords.py, line" in str(caught.value)


def test_parameters_of_functions():
    def placed(a: int, /, b: int, *more: int, c: int, d: int = 0) -> None: ...
    def keywords(a: int, **more: int) -> None: ...

    assert Parameters.of(placed) == Parameters(("b", "c", "d"), ("a", "b"), ("a", "b", "c"), any_number=True)
    assert Parameters.of(keywords) is None


@pytest.mark.parametrize(
    ("count", "keywords", "message"),
    [
        (3, [], "f takes 2 arguments by position, and 3 are given"), (2, ["x"], "x of f is given twice"),
        (0, ["axis"], "f needs x"), (0, [], "f needs x"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(count: int, keywords: list[str], message: str):
    def f(x: int, axis: int = 0, *, out: int = 0) -> None: ...

    parameters = Parameters.of(f)
    assert parameters is not None
    parameters.require_arguments("f", 1, ["out", "axis"])
    parameters.require_arguments("f", 2, [])
    with pytest.raises(ArgumentCount, match=message) as caught:
        parameters.require_arguments("f", count, keywords)
    assert "its parameters are x, axis, out" in str(caught.value)


def test_operators_that_are_called_with_too_few_or_too_many_arguments():
    for call, message in (
        (lambda: op.exp(1.0, 2.0), "exp takes 1 argument by position, and 2 are given"),
        (lambda: op.power(2.0), "power needs b"),
        (lambda: graph.module("f")(lambda x: op.matmul(x * 2))(np.ones(3)), "matmul needs b"),
    ):  # fmt: skip
        with pytest.raises(ArgumentCount, match=message) as caught:
            call()
        assert "test_keywords.py, line" in str(caught.value)
