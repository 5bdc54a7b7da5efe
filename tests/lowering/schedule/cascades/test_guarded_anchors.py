"""Guards against empty rows cancel: a careful softmax is the same loop as a careless one."""

import math
from dataclasses import replace

from tessera.core.base.dtypes import f32
from tessera.core.graph.expr import Argument, Expr, Literal, apply, arguments
from tessera.core.schedule.cascade import Reduction, Region
from tessera.lowering.schedule.cascades.derive import derive
from tessera.lowering.schedule.cascades.guarded_anchors import cancel_guards

S, V = Argument(0, f32), Argument(1, f32)
TOP, TOTAL = Argument(2, f32), Argument(3, f32)


def guarded(top: Expr) -> Expr:
    unseen = apply("cmp", top, Literal(-math.inf, f32), predicate="eq")
    return apply("select", unseen, Literal(0.0, f32), top)


def softmax_region(below: Expr) -> Region:
    weight = apply("exp", apply("sub", S, below))
    return Region(
        (f32, f32),
        (
            Reduction("max", S),
            Reduction("sum", weight),
            Reduction("sum", apply("mul", apply("div", weight, TOTAL), V)),
        ),
    )


def test_a_guarded_maximum_is_the_anchor():
    made = cancel_guards(derive(softmax_region(guarded(TOP)), {2}))
    assert made.extrema == ()
    used = set(arguments(made.lower[2])) if made.lower[2] is not None else set[int]()
    assert used <= {0, 1}  # the sums alone, no anchor
    assert made.moments == derive(softmax_region(TOP), {2}).moments


def test_a_maximum_that_is_asked_for_stays():
    made = cancel_guards(derive(softmax_region(guarded(TOP))))
    assert len(made.extrema) == 1
    assert made.lower[0] == Argument(made.numbering.extremum(0), f32)


def test_cascades_without_guards_stay_as_they_are():
    cascade = derive(Region((f32,), (Reduction("sum", S),)))
    assert cancel_guards(cascade) is cascade


def test_bounded_scores_need_no_maximum():
    """A cap on the scores bounds the exponent: the anchor is a constant, and nothing but sums is carried."""
    scores = apply("mul", apply("tanh", S), Literal(20.0, f32))
    weight = apply("exp", apply("sub", scores, guarded(TOP)))
    empty = apply("cmp", TOTAL, Literal(0.0, f32), predicate="eq")
    share = apply("div", weight, apply("select", empty, Literal(1.0, f32), TOTAL))
    sums = (Reduction("sum", weight), Reduction("sum", apply("mul", share, V)))
    region = Region((f32, f32), (Reduction("max", scores), *sums))
    plain = derive(region, {2})
    assert [(each.anchor, each.bounded) for each in plain.extrema] == [(None, 0)]
    made = cancel_guards(plain)
    assert made.anchors[0].constant == 20.0
    assert made.extrema == ()
    assert made.lower[2] is not None
    assert set(arguments(made.lower[2])) <= {0, 1}
    # Weights that are rounded to f16 would be 0 so far below a constant.
    short = cancel_guards(derive(replace(region, weight_bits=16), {2}))
    assert short.anchors[0].constant is None
    # Where the maximum itself is asked for, it is carried beside the sums.
    assert len(cancel_guards(derive(region, {0, 2})).extrema) == 1
