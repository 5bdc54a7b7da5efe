"""Results as expressions over the state: moved back from centres, nothing over nothing is 0, known extents cancel."""

from collections.abc import Callable

import pytest

from support.cascades import Formulas, exp, log
from tessera.core.graph.expr import to_text
from tessera.core.schedule.cascade import argument_names
from tessera.lowering.schedule.cascades.derive import derive


def _lower(make: Callable[[Formulas], None], extent: int | None = None, needed: int = 1) -> list[str]:
    to = Formulas()
    make(to)
    last = len(to.reductions)
    cascade = derive(to.region(extent), range(last - needed, last))
    names = argument_names(cascade, to.names)
    return [to_text(each, names) for each in cascade.lower if each is not None]


def _quotient(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    to.map(to.sum(exp(s) * v) / to.sum(exp(s)))


def _plain_quotient(to: Formulas) -> None:
    x, y = to.atom("x"), to.atom("y")
    to.map(to.sum(x) / to.sum(y))


def _reciprocal(to: Formulas) -> None:
    s = to.atom("s")
    m = to.max(s)
    to.map(1.0 / to.sum(exp(s - m)))


def _deviation(to: Formulas) -> None:
    x = to.atom("x")
    mean = to.sum(x * 0.125)
    to.sum((x - mean) * (x - mean))


def _offset(to: Formulas) -> None:
    s, t = to.atom("s"), to.atom("slope", fixed=True)
    to.map(log(to.sum(exp(s + t))))


def _maximum(to: Formulas) -> None:
    x = to.atom("x")
    to.max(x - 2.0 * to.sum(x))


@pytest.mark.parametrize(("make", "text"), [
    (_quotient, "select((M1 == 0.0), 0.0, (M0 / M1))"),
    (_plain_quotient, "(M0 / M1)"),
    (_reciprocal, "(1.0 / M0)"),
    (_offset, "((log(M0) + c0) + slope)"),
    (_maximum, "(max0 - (M0 * 2.0))"),
])  # fmt: skip
def test_results(make: Callable[[Formulas], None], text: str):
    (got,) = _lower(make)
    assert got == text


def test_known_extents_cancel():
    (got,) = _lower(_deviation, extent=8)
    assert got == "(M2 - ((M0 * M0) * 0.125))"
    assert "mean0" in _lower(_deviation)[0]
