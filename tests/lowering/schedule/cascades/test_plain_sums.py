"""Sums without a part in each other are carried as they are written."""

import numpy as np

from tessera.core.base.dtypes import boolean, f32
from tessera.core.graph.expr import Argument, Literal, apply, to_text
from tessera.core.schedule.cascade import Reduction, Region
from tessera.lowering.schedule.cascades.cascade_reference import evaluate_reductions, lift, lower
from tessera.lowering.schedule.cascades.plain_sums import is_plain, plain_sums

S, LSE, DP, DELTA, K = (Argument(number, f32) for number in range(5))
SEEN = Argument(5, boolean)
WEIGHT = apply("exp", apply("sub", apply("select", SEEN, S, Literal(-np.inf, f32)), LSE))
KINDS = (f32,) * 5 + (boolean,)


def region(*reductions: Reduction) -> Region:
    return Region(KINDS, reductions)


def test_weights_are_relative_to_what_they_are_written_with():
    body = apply("mul", apply("mul", apply("mul", WEIGHT, apply("sub", DP, DELTA)), Literal(0.125, f32)), K)
    made = plain_sums(region(Reduction("sum", body)), frozenset({0}))
    (moment,), (anchor,) = made.moments, made.anchors
    assert anchor.constant == 0
    assert (moment.anchor, moment.indicator, anchor.indicator) == (0, SEEN, SEEN)
    assert to_text(anchor.exponent, ("s", "lse")) == "(s - lse)"
    assert to_text(moment.payload, ("s", "lse", "dp", "delta", "k")) == "((dp - delta) * k)"
    assert [to_text(each) for each in made.lower if each is not None] == ["(x0 * 0.125)"]


def test_values():
    random = np.random.default_rng(0)
    atoms = [*(random.standard_normal(20).astype(np.float32) for _ in range(5)), random.random(20) < 0.5]
    body = apply("mul", apply("mul", WEIGHT, apply("sub", DP, DELTA)), K)
    given = region(Reduction("sum", body), Reduction("sum", apply("mul", S, K)))
    made = plain_sums(given, frozenset({0, 1}))
    found = lower(made, lift(made, atoms), atoms)
    for one, other in zip(found, evaluate_reductions(given, atoms), strict=True):
        assert one is not None
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_terms_of_one_exponential_are_one_sum():
    """P dP k - P delta k is P (dP - delta) k."""
    parts = [apply("mul", apply("mul", WEIGHT, each), K) for each in (DP, DELTA)]
    made = plain_sums(region(Reduction("sum", apply("sub", *parts))), frozenset({0}))
    assert [to_text(each.payload) for each in made.moments] == ["((x2 - x3) * x4)"]


def test_sums_share_their_exponential():
    sums = (Reduction("sum", apply("mul", WEIGHT, K)), Reduction("sum", apply("mul", WEIGHT, DP)))
    made = plain_sums(region(*sums), frozenset({0, 1}))
    assert (len(made.moments), len(made.anchors)) == (2, 1)
    assert plain_sums(region(*sums), frozenset({1})).lower[0] is None


def test_what_uses_results_or_is_no_sum_is_not_plain():
    total = Reduction("sum", WEIGHT)
    assert is_plain(region(total))
    assert not is_plain(region(total, Reduction("sum", apply("div", WEIGHT, Argument(6, f32)))))
    assert not is_plain(region(Reduction("max", S)))


def test_an_empty_sum_is_zero():
    made = plain_sums(region(Reduction("sum", apply("mul", S, Literal(0.0, f32)))), frozenset({0}))
    assert (made.moments, made.lower) == ((), (Literal(0.0, f32),))
