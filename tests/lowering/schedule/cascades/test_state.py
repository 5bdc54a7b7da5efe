"""Symbols of states become arguments; what no result uses is not carried."""

from tessera.core.base.dtypes import f64
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.schedule.cascade import Anchor, Centre, Extremum, Moment, Region
from tessera.lowering.schedule.cascades.state import (
    State,
    anchor_symbol,
    atom_symbol,
    centre_symbol,
    compact,
    extrema_in,
    extremum_symbol,
    moment_symbol,
)

X = Argument(0, f64)
ONE = Literal(1.0, f64)
REGION = Region((f64, f64), (), frozenset({1}))


def _state() -> State:
    moments = (
        Moment(X),  # used by nothing
        Moment(ONE),
        Moment(ONE, ((0, 1),)),
        Moment(ONE, ((0, 2),)),
        Moment(X, anchor=1),
    )
    anchors = (Anchor(X), Anchor(apply("neg", X)))
    return State(moments, anchors, (Centre(X, 1),), (Extremum("max", X, 0), Extremum("min", X)))


def test_powers_bring_lower_powers_their_centre_and_its_count():
    cascade = compact(REGION, _state(), set(), (moment_symbol(3, f64), None))
    assert cascade.moments == (Moment(ONE), Moment(ONE, ((0, 1),)), Moment(ONE, ((0, 2),)))
    assert cascade.centres == (Centre(X, 0),)
    assert (cascade.anchors, cascade.extrema) == ((), ())
    assert cascade.lower == (Argument(2, f64), None)


def test_moments_bring_their_anchor():
    cascade = compact(REGION, _state(), set(), (apply("add", moment_symbol(4, f64), anchor_symbol(1, f64)),))
    assert cascade.moments == (Moment(X, anchor=0),)
    assert cascade.anchors == (Anchor(apply("neg", X)),)
    assert cascade.lower == (apply("add", Argument(0, f64), Argument(1, f64)),)


def test_extrema_bring_the_anchor_that_they_are():
    lower = (apply("sub", extremum_symbol(0, f64), atom_symbol(1, f64)),)
    assert extrema_in(lower) == {0}
    cascade = compact(REGION, _state(), {0}, lower)
    assert cascade.extrema == (Extremum("max", X, 0),)
    assert cascade.anchors == (Anchor(X),)
    assert cascade.lower == (apply("sub", Argument(1, f64), Argument(3, f64)),)


def test_centres_bring_their_count():
    cascade = compact(REGION, _state(), set(), (centre_symbol(0, f64),))
    assert cascade.moments == (Moment(ONE),)
    assert cascade.lower == (Argument(1, f64),)
