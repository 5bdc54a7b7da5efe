"""Lift, merge and lower, against values worked out by hand; merging is associative."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.attention_cases import full, masked
from support.cascade_cases import EXTENT, mean_and_variance
from support.cascade_data import draw_arrays
from support.cascades import Formulas, exp, parts
from tessera.core.schedule.cascade import Cascade
from tessera.lowering.schedule.cascades.cascade_reference import evaluate_reductions, finite, lift, lower, merge
from tessera.lowering.schedule.cascades.derive import derive


def _attention(to: Formulas, last: int = 1) -> Cascade:
    full(to)
    return derive(to.region(), range(3 - last, 3))


def test_states_of_attention():
    cascade = _attention(Formulas())
    s, v = np.array([[1.0], [3.0]]), np.array([[10.0, 1.0], [20.0, 2.0]])
    state = lift(cascade, [s, v])
    assert state.anchors[0] == 3.0
    assert state.moments[0] == pytest.approx(1 + np.exp(-2))
    assert state.moments[1] == pytest.approx(np.array([20 + 10 * np.exp(-2), 2 + np.exp(-2)]))
    later = lift(cascade, [np.array([[5.0]]), np.array([[0.0, 4.0]])])
    both = merge(cascade, state, later)
    assert both.anchors[0] == 5.0
    assert both.moments[0] == pytest.approx(1 + np.exp(-2) + np.exp(-4))
    o = lower(cascade, both, [s, v])[2]
    assert o == pytest.approx(
        evaluate_reductions(cascade.region, [np.vstack([s, [[5.0]]]), np.vstack([v, [[0, 4]]])])[2]
    )


def test_slack_keeps_the_older_anchor():
    cascade = _attention(Formulas())
    one, two = (lift(cascade, [np.array([[value]]), np.array([[1.0]])]) for value in (3.0, 5.0))
    assert merge(cascade, one, two, slack=4.0).anchors[0] == 3.0
    assert merge(cascade, one, two, slack=1.0).anchors[0] == 5.0
    assert merge(cascade, two, one, slack=1.0).anchors[0] == 5.0


def test_anchors_that_are_maxima_do_not_lag():
    cascade = _attention(Formulas(), 3)
    one, two = (lift(cascade, [np.array([[value]]), np.array([[1.0]])]) for value in (3.0, 5.0))
    assert merge(cascade, one, two, slack=4.0).anchors[0] == 5.0


def test_parts_without_visible_elements_change_nothing():
    to = Formulas()
    masked(to)
    cascade = derive(to.region(), [2])
    s, v = np.array([[-2000.0]]), np.array([[7.0]])
    empty, seen = (lift(cascade, [s, v, np.array([[shown]])]) for shown in (False, True))
    assert empty.anchors[0] == -np.inf
    assert finite(empty.anchors[0]) == 0
    for state in (merge(cascade, empty, seen), merge(cascade, seen, empty)):
        assert state.anchors[0] == -2000.0
        assert state.moments[0] == 1.0
        assert lower(cascade, state, [s, v, v])[2] == 7.0


def test_running_means_are_weighted_by_counts():
    to = Formulas()
    mean_and_variance(to)
    cascade = derive(to.region())
    one, two = lift(cascade, [np.array([[1.0], [3.0]])]), lift(cascade, [np.array([[8.0]])])
    assert one.centres[0] == 2.0
    both = merge(cascade, one, two)
    assert both.centres[0] == pytest.approx(4.0)
    squares = next(place for place, each in enumerate(cascade.moments) if each.centred == ((0, 2),))
    assert both.moments[squares] == pytest.approx(9 + 1 + 16)


def test_results_nobody_needs_are_none():
    cascade = _attention(Formulas())
    arrays = [np.array([[1.0]]), np.array([[2.0]])]
    assert lower(cascade, lift(cascade, arrays), arrays)[:2] == (None, None)


def test_sums_of_numbers_count_the_elements():
    to = Formulas()
    s = to.atom("s")
    to.sum(s * 0.0 + 1.0)
    to.min(s)
    to.map(exp(to.sum(s)))
    arrays = [np.array([[1.0], [-2.0], [0.5]])]
    count, least, total, grown = evaluate_reductions(to.region(), arrays)[:4]
    assert (count, least, total) == (3.0, -2.0, -0.5)
    assert grown == pytest.approx(np.exp(-0.5))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.tuples(st.integers(1, 19), st.integers(20, EXTENT - 1)))
def test_merging_is_associative(seed: int, cuts: tuple[int, int]):
    for make in (full, masked, mean_and_variance):
        to = Formulas()
        make(to)
        cascade = derive(to.region())
        arrays = draw_arrays(to.names, seed, EXTENT, size=100.0, visible=0.9)
        a, b, c = (lift(cascade, each) for each in parts(cascade.region, arrays, cuts))
        left, right = merge(cascade, merge(cascade, a, b), c), merge(cascade, a, merge(cascade, b, c))
        for one, two in zip((*left.moments, *left.anchors), (*right.moments, *right.anchors), strict=True):
            assert np.allclose(one, two, rtol=1e-10, atol=1e-10)
