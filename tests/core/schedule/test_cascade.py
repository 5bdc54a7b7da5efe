"""Cascades as data: how their arguments are numbered, what moving a centre makes of a moment, and how they read."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.attention_cases import full, masked
from support.cascade_cases import mean_and_variance
from support.cascades import Formulas
from tessera.core.base.dtypes import f32, f64
from tessera.core.graph.expr import Argument, Literal
from tessera.core.schedule.cascade import (
    Anchor,
    Cascade,
    Centre,
    Extremum,
    Moment,
    Move,
    Numbering,
    Reduction,
    Region,
    argument_names,
    moves,
)
from tessera.lowering.schedule.cascades.derive import derive


def _text(make: object, needed: range | None = None) -> list[str]:
    to = Formulas()
    make(to)  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
    return derive(to.region(), needed).describe(to.names).splitlines()


def test_arguments_are_moments_anchors_centres_extrema_atoms():
    numbers = Numbering(3, 2, 4, 1)
    assert [numbers.moment(2), numbers.anchor(0), numbers.anchor(1)] == [2, 3, 4]
    assert [numbers.centre(0), numbers.centre(3), numbers.extremum(0), numbers.atom(0)] == [5, 8, 9, 10]


def test_attention_reads_as_people_write_it():
    assert _text(full, range(2, 3)) == [
        "M0 = sum_j exp(s - c0)",
        "M1 = sum_j v * exp(s - c0)",
        "c0 = running max of s",
        "r2 = select((M0 == 0.0), 0.0, (M1 / M0))",
    ]


def test_masks_and_maxima_read_as_people_write_them():
    assert _text(masked, range(2)) == [
        "M0 = sum_j exp(s - c0) where visible",
        "c0 = running max of s where visible",
        "max0 = max_j select(visible, s, -inf), which is c0",
        "r0 = max0",
        "r1 = M0",
    ]


def test_variance_reads_as_people_write_it():
    lines = _text(mean_and_variance)
    assert lines[:4] == [
        "M0 = sum_j (x - mean0)",
        "M1 = sum_j 1.0",
        "M2 = sum_j (x - mean0)²",
        "mean0 = running mean of x",
    ]


def test_constant_anchors_and_centres_at_anchors_read_as_people_write_them():
    s = Argument(0, f32)
    region = Region((f32,), (Reduction("sum", s),))
    cascade = Cascade(
        region,
        (Moment(Literal(1.0, f32), ((0, 1),), None, 0),),
        (Anchor(s, None, 20.0),),
        (Centre(s, None, 0),),
        (Extremum("min", s),),
        (None,),
    )
    assert cascade.describe(["s"]).splitlines() == [
        "M0 = sum_j (s - centre0) * exp(s - c0)",
        "c0 = 20",
        "centre0 = c0",
        "min0 = min_j s",
    ]
    assert argument_names(cascade) == ("M0", "c0", "centre0", "min0", "x0")
    assert cascade.moments[0].dtype == f32


def _powers(highest: int) -> Cascade:
    x = Argument(0, f64)
    one = Literal(1.0, f64)
    moments = tuple(Moment(one, ((0, power),) if power else ()) for power in range(highest + 1))
    return Cascade(Region((f64,), ()), moments, (), (Centre(x, 0),), (), ())


def test_moves_are_the_binomial_theorem():
    assert moves(_powers(2), 2) == (Move(1, ((0, 2),), 0), Move(2, ((0, 1),), 1), Move(1, (), 2))
    assert moves(_powers(2), 0) == (Move(1, (), 0),)


@pytest.mark.parametrize("power", range(5))
@given(values=st.lists(st.floats(-3, 3), min_size=1, max_size=9), old=st.floats(-2, 2), new=st.floats(-2, 2))
def test_moved_moments_are_those_of_the_new_centre(power: int, values: list[float], old: float, new: float):
    x = np.array(values)
    parts = [
        move.weight * math.prod((old - new) ** each for _, each in move.powers) * np.sum((x - old) ** move.moment)
        for move in moves(_powers(4), power)
    ]
    assert sum(parts) == pytest.approx(np.sum((x - new) ** power), abs=1e-9)
