"""What a loop carries: one moment a product, anchors shared where that is safe, centres where differences are summed."""

from support.cascades import NEVER, Formulas, exp, tanh, where
from tessera.core.base.dtypes import boolean, f32, f64
from tessera.core.graph.expr import to_text
from tessera.lowering.schedule.cascades.moments import Plan, Sum, anchor_data, centre_data, moment_data, plan_moments
from tessera.lowering.schedule.cascades.normal_form import Normalizer, Uses


def _plan(to: Formulas) -> Plan:
    last = len(to.atoms)
    normalizer = Normalizer(lambda number: Uses.ATOMS if number < last else Uses.RESULTS)
    sums = [
        Sum(number, normalizer.normal(each.body), each.body.dtype, used=number + 1 < len(to.reductions))
        for number, each in enumerate(to.reductions)
        if each.kind == "sum"
    ]
    return plan_moments(normalizer, sums, {})


def test_one_moment_a_product():
    to = Formulas()
    x, y = to.atom("x"), to.atom("y")
    to.sum(x * y)
    to.sum(2.0 * y * x)
    to.sum(x * x * y)
    plan = _plan(to)
    assert [to_text(moment_data(plan, key).payload, to.names) for key in plan.moments] == ["(x * y)", "((x * x) * y)"]
    assert not plan.anchors


def test_sums_of_fewer_elements_share_the_anchor_of_what_they_are_divided_by():
    to = Formulas()
    s, kept = to.atom("s"), to.atom("kept", boolean)
    total = to.sum(exp(s))
    to.sum(where(kept, exp(s), 0.0) / total)
    plan = _plan(to)
    assert len(plan.moments) == 2
    assert [key.indicator for key in plan.anchors] == [()]


def test_divisors_of_fewer_elements_have_an_anchor_of_their_own():
    to = Formulas()
    s, near = to.atom("s"), to.atom("near", boolean)
    a, b = to.sum(exp(s)), to.sum(exp(where(near, s, NEVER)))
    to.sum(exp(where(near, s, NEVER)) / b + exp(s) / a)
    plan = _plan(to)
    assert [key.indicator for key in plan.anchors] == [(), (near.expr,)]
    assert len(plan.moments) == 2


def test_differences_are_centred_with_all_lower_powers():
    to = Formulas()
    x, w = to.atom("x"), to.atom("w")
    mean = to.sum(x)
    to.sum((x - mean) ** 2 * w)
    plan = _plan(to)
    (centre,) = plan.centres
    assert centre_data(plan, centre).anchor is None
    powers = {(len(key.payload), key.centred[0][1] if key.centred else 0) for key in plan.moments}
    assert powers == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)}


def test_scores_are_centred_at_their_anchor():
    to = Formulas()
    s = to.atom("s")
    m = to.max(s)
    to.sum(exp(s - m) * (s - m))
    plan = _plan(to)
    (centre,) = plan.centres
    data = centre_data(plan, centre)
    assert (data.anchor, data.count) == (0, None)


def test_anchors_are_constants_where_exponents_are_bounded():
    to = Formulas()
    s = to.atom("s", f32)
    to.sum(exp(20.0 * tanh(s)))
    to.sum(exp(s))
    plan = _plan(to)
    assert {anchor_data(plan, key).constant for key in plan.anchors} == {20.0, None}
    assert f64 not in {key.dtype for key in plan.moments}
