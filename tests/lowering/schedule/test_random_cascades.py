"""Random cascades of a grammar agree with their reductions one after the other, or are refused."""

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from support.cascade_data import draw_arrays, extents_and_cuts
from support.cascades import NEVER, E, Formulas, absolute, compute, exp, log, maximum, rsqrt, tanh, where
from tessera.core.base.dtypes import boolean, f64
from tessera.lowering.schedule.cascades.cascade_reference import evaluate_reductions
from tessera.lowering.schedule.cascades.derive import derive
from tessera.lowering.schedule.cascades.evaluate import evaluate
from tessera.lowering.schedule.cascades.terms import NotSeparable


class _Grammar:
    """Regions of up to five reductions: scores, values, masks, differences from results, normalisers."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.to = Formulas()
        self.s, self.x, self.y = (self.to.atom(name) for name in ("s", "x", "y"))
        self.visible = self.to.atom("visible", boolean)
        self.fixed = self.to.atom("slope", fixed=True)
        self.results: list[E] = []

    def result(self) -> E:
        return self.draw(st.sampled_from([*self.results, self.fixed]))

    def score(self) -> E:
        s, y = self.s, self.y
        shown = where(self.visible, s, 0.25)
        each = self.draw(st.sampled_from([s, s * 0.5, s + y, 3.0 * tanh(s), s * self.fixed, s - 1.5, shown]))
        return where(self.visible, each, NEVER) if self.draw(st.booleans()) else each

    def parameter(self) -> E:
        chosen = self.result()
        functions = [
            rsqrt(chosen * chosen + 1.0),
            log(chosen * chosen + 2.0),
            1.0 / (absolute(chosen) + 1.0),
            chosen,
            chosen,
        ]
        return self.draw(st.sampled_from(functions))

    def factor(self) -> E:
        x, y, visible = self.x, self.y, self.visible
        kinds = [
            lambda: exp(self.score()),
            lambda: exp(self.score() - self.result()),
            lambda: x - self.parameter(),
            lambda: (y - self.parameter()) ** float(self.draw(st.integers(1, 3))),
            lambda: where(visible, x, 0.0),
            lambda: where(visible, y, x),
            lambda: self.draw(st.sampled_from([x, y, self.s, x * x, maximum(y, 0.0), x + y, visible.to(f64)])),
            self.parameter,
        ]
        return self.draw(st.sampled_from(kinds))()

    def body(self) -> E:
        result = self.factor()
        for operation in self.draw(st.lists(st.sampled_from("+-**"), max_size=2)):
            other = self.factor()
            result = {"+": result + other, "-": result - other, "*": result * other}[operation]
        return result

    def reduction(self) -> E:
        s, x, y = self.s, self.x, self.y
        kinds = [
            lambda: self.to.max(self.draw(st.sampled_from([s, s + y, x, s * 0.5]))),
            lambda: self.to.sum(self.body() * (1 / 16)),
            lambda: self.to.min(y),
            lambda: self.to.map(self.parameter()),
            lambda: self.to.sum(self.body()),
            lambda: self.to.sum(self.body()),
        ]
        return self.draw(st.sampled_from(kinds))()


@st.composite
def regions(draw: st.DrawFn) -> Formulas:
    """Draw a region."""
    grammar = _Grammar(draw)
    for _ in range(draw(st.integers(1, 5))):
        grammar.results.append(grammar.reduction())
    return grammar.to


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(to=regions(), seed=st.integers(0, 2**32 - 1), cut=extents_and_cuts())
def test_random_cascades(to: Formulas, seed: int, cut: tuple[int, list[int]]):
    extent, cuts = cut
    try:
        cascade = derive(to.region())
    except NotSeparable:
        assume(False)
        return
    arrays = draw_arrays(to.names, seed, extent, size=1.0, visible=0.7)
    want = evaluate_reductions(cascade.region, arrays)
    assume(all(np.all(np.isfinite(each)) and np.max(np.abs(each)) < 1e6 for each in want))
    known = [*arrays, *(each[None] for each in want)]
    for how in ("sequential", "tree", "reversed"):
        for place, got in enumerate(compute(cascade, arrays, cuts, how)):
            assert got is not None
            size = np.max(np.abs(evaluate(cascade.region.reductions[place].body, known)), initial=1.0) * extent
            assert np.max(np.abs(got - want[place])) < 1e-7 * size, (how, place, cascade.describe(to.names))
