"""Fused reductions agree with the same reductions one after the other, however the axis is cut and parts are merged."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.attention_cases import VARIANTS, full, masked, softmax, unsafe
from support.cascade_cases import CASES, EXTENT
from support.cascade_data import draw_arrays, extents_and_cuts, rounding_sensitivity
from support.cascades import E, Formulas, absolute, compute, difference, exp, log, rsqrt, tanh, where, worst
from tessera.core.base.dtypes import DType, bf16, boolean, f32, f64, i64
from tessera.core.graph.expr import Apply, Argument, apply, cast
from tessera.core.schedule.cascade import Cascade, Reduction, Region
from tessera.lowering.schedule.cascades.cascade_reference import evaluate_reductions
from tessera.lowering.schedule.cascades.derive import derive, reduction_arguments
from tessera.lowering.schedule.cascades.terms import NotSeparable

SEEDS = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=12, deadline=None)


def _derived(make: Callable[[Formulas], None], needed: int, extent: int | None = None) -> tuple[Formulas, Cascade]:
    to = Formulas()
    make(to)
    last = len(to.reductions)
    return to, derive(to.region(extent), range(last - needed, last))


@pytest.mark.parametrize("name", VARIANTS)
@FEW
@given(seed=SEEDS, cut=extents_and_cuts())
def test_attention(name: str, seed: int, cut: tuple[int, list[int]]):
    variant = VARIANTS[name]
    extent, cuts = cut
    to, cascade = _derived(variant.make, variant.needed)
    arrays = draw_arrays(to.names, seed, extent)
    if variant.empty and not draw_any(arrays, to.names):
        return
    assert worst(cascade, arrays, cuts) < variant.tolerance
    assert worst(derive(to.region()), arrays, cuts) < variant.tolerance


def draw_any(arrays: list[np.ndarray], names: list[str]) -> bool:
    """Return whether any element is visible: the reductions as they are written divide nothing by nothing."""
    known = dict(zip(names, arrays, strict=True))
    shown = [known.get("visible"), known.get("infinities"), known.get("documents")]
    tests = [np.any(each == wanted) for each, wanted in zip(shown, (True, 0.0, 1), strict=True) if each is not None]
    return all(tests)


@pytest.mark.parametrize("name", VARIANTS)
def test_anchors_of_attention(name: str):
    _, cascade = _derived(VARIANTS[name].make, VARIANTS[name].needed)
    assert sum(anchor.constant is None for anchor in cascade.anchors) == VARIANTS[name].anchors


@pytest.mark.parametrize("name", [name for name, variant in VARIANTS.items() if variant.empty])
@given(cut=extents_and_cuts())
@FEW
def test_rows_without_visible_elements_are_0(name: str, cut: tuple[int, list[int]]):
    extent, cuts = cut
    to, cascade = _derived(VARIANTS[name].make, 1)
    arrays = draw_arrays(to.names, 1, extent, visible=0.0)
    for how in ("sequential", "tree", "reversed"):
        o = compute(cascade, arrays, cuts, how)[-1]
        assert o is not None
        assert np.array_equal(o, np.zeros_like(o))


@pytest.mark.parametrize("name", ["full", "divided at the end", "scale", "mask", "causal", "sinks", "entropy"])
@FEW
@given(seed=SEEDS, cut=extents_and_cuts())
def test_scores_that_overflow(name: str, seed: int, cut: tuple[int, list[int]]):
    extent, cuts = cut
    to, cascade = _derived(VARIANTS[name].make, VARIANTS[name].needed)
    arrays = draw_arrays(to.names, seed, extent, size=900.0, visible=0.9)
    assert worst(cascade, arrays, cuts) < 1e-10


@FEW
@given(seed=SEEDS, cut=extents_and_cuts(), slack=st.floats(0.0, 8.0))
def test_anchors_may_lag(seed: int, cut: tuple[int, list[int]], slack: float):
    extent, cuts = cut
    to, cascade = _derived(masked, 1)
    arrays = draw_arrays(to.names, seed, extent, size=10.0, visible=0.9)
    assert worst(cascade, arrays, cuts, slack=slack) < 1e-12


@FEW
@given(seed=SEEDS, cut=extents_and_cuts())
def test_softmax_without_its_maximum_is_the_same_loop(seed: int, cut: tuple[int, list[int]]):
    extent, cuts = cut
    to, safe = _derived(full, 1)
    _, bare = _derived(unsafe, 1)
    assert bare.lower[-1] == safe.lower[-1]
    assert (bare.moments, bare.anchors, bare.extrema) == (safe.moments, safe.anchors, safe.extrema)
    arrays = draw_arrays(to.names, seed, extent, size=900.0)
    want = evaluate_reductions(safe.region, arrays)[-1]
    for how in ("sequential", "tree", "reversed"):
        o = compute(bare, arrays, cuts, how)[-1]
        assert o is not None
        assert difference(o, want) < 1e-12


@pytest.mark.parametrize("name", CASES)
@FEW
@given(seed=SEEDS, cut=extents_and_cuts(EXTENT))
def test_cascades(name: str, seed: int, cut: tuple[int, list[int]]):
    case = CASES[name]
    extent, cuts = cut
    to, cascade = _derived(case.make, case.needed)
    arrays = draw_arrays(to.names, seed, extent)
    want = evaluate_reductions(cascade.region, arrays)
    for each in (cascade, derive(to.region()), derive(to.region(EXTENT), range(len(want) - case.needed, len(want)))):
        assert worst(each, arrays, cuts, want) < case.tolerance


@pytest.mark.parametrize("name", CASES)
def test_centres_of_cascades(name: str):
    _, cascade = _derived(CASES[name].make, CASES[name].needed)
    kinds = ["mean" if centre.anchor is None else "anchor" for centre in cascade.centres]
    assert tuple(kinds) == CASES[name].centred


MILLION = 1e6
SHIFTS = {"x": MILLION, "y": -MILLION}
STATISTICS = [
    name for name, case in CASES.items() if "mean" in case.centred and SHIFTS.keys() & _derived(case.make, 1)[0].names
]


@pytest.mark.parametrize("name", STATISTICS)
@FEW
@given(seed=SEEDS, cut=extents_and_cuts(EXTENT))
def test_means_of_a_million(name: str, seed: int, cut: tuple[int, list[int]]):
    to, cascade = _derived(CASES[name].make, 1)
    arrays = draw_arrays(to.names, seed, EXTENT, mean=MILLION)
    # Less the million, which is exact for floats of about a million: what is taken about a mean stays the same.
    near = [values - SHIFTS[atom] if atom in SHIFTS else values for atom, values in zip(to.names, arrays, strict=True)]
    exact = evaluate_reductions(cascade.region, near)[-1]
    bound = EXTENT * np.finfo(np.float64).eps * rounding_sensitivity(cascade.region, arrays)
    for how in ("sequential", "tree", "reversed"):
        result = compute(cascade, arrays, cut[1], how)[-1]
        assert result is not None
        assert np.all(np.abs(result - exact) <= bound), how


@FEW
@given(seed=SEEDS, cut=extents_and_cuts(EXTENT))
def test_variance_keeps_its_digits(seed: int, cut: tuple[int, list[int]]):
    to, cascade = _derived(CASES["mean and variance"].make, 1)
    arrays = draw_arrays(to.names, seed, EXTENT, mean=1e6)
    exact = np.var(arrays[0].astype(np.longdouble), axis=0)
    for how in ("sequential", "tree", "reversed"):
        got = compute(cascade, arrays, cut[1], how)[-1]
        assert got is not None
        assert np.max(np.abs(got - exact) / exact) < 1e-12


def _refused(make: Callable[[Formulas], None]) -> NotSeparable:
    to = Formulas()
    make(to)
    with pytest.raises(NotSeparable) as caught:
        derive(to.region())
    return caught.value


def _deviation(to: Formulas) -> None:
    x = to.atom("x")
    to.sum(absolute(x - to.sum(x)))


def _normalised_softmax(to: Formulas) -> None:
    x = to.atom("x")
    to.sum(exp(x * rsqrt(to.sum(x * x))))


def _above_mean(to: Formulas) -> None:
    x = to.atom("x")
    mean = to.sum(x)
    to.sum(where(x > mean, x, 0.0))


def _harmonic(to: Formulas) -> None:
    x = to.atom("x")
    to.sum(1.0 / (x + to.sum(x)))


def _eighth_power(to: Formulas) -> None:
    x = to.atom("x")
    to.sum((x - to.sum(x)) ** 8)


def _many_terms(to: Formulas) -> None:
    x, y, z = to.atom("x"), to.atom("y"), to.atom("z")
    a, b, c = to.sum(x), to.sum(y), to.sum(z)
    to.sum((x - a) ** 3 * (y - b) ** 2 * (z - c) ** 2)


def _rounded(to: Formulas) -> None:
    s = to.atom("s", f32)
    to.sum((exp(s - to.max(s))).to(bf16).to(f32))


def _twice_exponential(to: Formulas) -> None:
    s = to.atom("s")
    to.sum(exp(exp(s - to.max(s))))


def _scaled_maximum(to: Formulas) -> None:
    x = to.atom("x")
    to.max(x * to.sum(x))


def _integers(to: Formulas) -> None:
    n = to.atom("n", i64)
    to.sum(n * to.sum(n))


@pytest.mark.parametrize(
    ("make", "expression", "reason"),
    [
        (_deviation, "abs((x0 - x1))", "abs of atoms mixed with the results"),
        (_normalised_softmax, "(x0 * rsqrt(x1))", "the exponent multiplies atoms with the results"),
        (_above_mean, "(x0 > x1)", "the condition depends on the results"),
        (_harmonic, "(x0 + x1)", "atoms mixed with the results"),
        (_eighth_power, "pow((x0 - x1), 8.0)", "pow of atoms mixed"),
        (_many_terms, "pow((x2 - x5), 2.0)", "more than 16 terms"),
        (_rounded, "bf16(exp((x0 - x1)))", "it rounds to bf16"),
        (_twice_exponential, "exp((x0 - x1))", "inside of an exponent"),
        (_scaled_maximum, "(x0 * x1)", "multiplies atoms with the results"),
        (_integers, "(x0 * x1)", "this is i64"),
    ],
)
def test_refusals_say_what_and_why(make: Callable[[Formulas], None], expression: str, reason: str):
    error = _refused(make)
    assert expression in str(error)
    assert reason in error.reason
    assert error.expression.dtype in (f64, f32, boolean, bf16, i64)


def test_arguments_are_checked():
    x, later = Argument(0, f64), Argument(2, f64)
    with pytest.raises(ValueError, match="reduction 0 uses a result that is not known"):
        derive(Region((f64,), (Reduction("sum", apply("mul", x, later)), Reduction("sum", x))))
    with pytest.raises(ValueError, match="reduction 0 maps results, but its body varies"):
        derive(Region((f64,), (Reduction("map", x),)))


def test_reduction_arguments_number_atoms_then_results():
    x = Argument(0, f32)
    reductions = (Reduction("sum", cast(x, f64)), Reduction("max", x))
    assert reduction_arguments((f32, i64), reductions) == (x, Argument(1, i64), Argument(2, f64), Argument(3, f32))


def test_halves_are_summed_in_f32_and_rounded_once():
    to = Formulas()
    s, v = to.atom("s", bf16), to.atom("v", bf16)
    softmax(to, s, v)
    cascade = derive(to.region(), [2])
    assert {moment.dtype for moment in cascade.moments} == {f32}
    assert {anchor.exponent.dtype for anchor in cascade.anchors} == {f32}
    o = cascade.lower[2]
    assert isinstance(o, Apply)
    assert (o.opcode, o.dtype) == ("cast", bf16)


def test_constant_anchors_depend_on_the_type():
    def capped(cap: float, dtype: DType) -> float | None:
        to = Formulas()
        s = to.atom("s", dtype)
        to.sum(exp(cap * tanh(s)))
        return derive(to.region()).anchors[0].constant

    assert capped(40.0, f32) == 40.0
    assert capped(41.0, f32) is None
    assert capped(41.0, f64) == 41.0


def test_integers_are_counted_exactly():
    to = Formulas()
    visible = to.atom("visible", boolean)
    count = to.sum(visible.to(i64))
    to.map(log(count.to(f64)))
    cascade = derive(to.region())
    arrays = [np.array([[True], [False], [True], [True]])]
    got = compute(cascade, arrays, [1, 3], "tree")
    assert got[0] is not None
    assert got[0].dtype == np.int64
    assert got[0] == 3
    assert got[1] == np.log(3.0)


def test_maxima_nobody_needs_are_not_carried():
    to = Formulas()
    s, v = to.atom("s"), to.atom("v")
    m, _ = softmax(to, s, v)
    assert isinstance(m, E)
    assert derive(to.region(), [2]).extrema == ()
    assert [each.anchor for each in derive(to.region()).extrema] == [0]
    assert derive(to.region(), [2]).lower[:2] == (None, None)


def test_a_mean_that_is_a_multiple_of_a_sum_centres_the_variance():
    to = Formulas()
    x = to.atom("x")
    mean = to.sum(x) * (1 / 50)
    to.sum((x - mean) * (x - mean))
    cascade = derive(to.region(50), [1])
    assert len(cascade.centres) == 1
    (array,) = draw_arrays(to.names, 0, 50, mean=1e6)
    assert worst(cascade, [array], [7, 20], want=evaluate_reductions(to.region(50), [array])) < 1e-9


def test_what_a_mask_hides_everywhere_is_0_times_an_infinity():
    to = Formulas()
    s, x, visible = to.atom("s"), to.atom("x"), to.atom("visible", boolean)
    top = to.max(where(visible, s, -np.inf))
    to.sum(where(visible, x * top, 0.0))
    to.sum(where(visible, x, 0.0) * exp(top * -1e3))
    arrays = [np.ones((4, 1)), np.ones((4, 1)), np.zeros((4, 1), np.bool_)]
    for how in ("sequential", "tree"):
        _, product, power = compute(derive(to.region()), arrays, [1, 2], how)
        assert product is not None
        assert power is not None
        assert (product.item(), power.item()) == (0.0, 0.0)


def test_exponents_of_empty_sums_do_not_count():
    to = Formulas()
    s, x, visible, sink = to.atom("s"), to.atom("x"), to.atom("visible", boolean), to.atom("sink", fixed=True)
    total = to.sum(where(visible, exp(s), 0.0))
    to.sum(x / (total + exp(sink)))
    arrays = [np.ones((4, 1)), np.ones((4, 1)), np.zeros((4, 1), np.bool_), np.full((1, 1), -600.0)]
    _, found = compute(derive(to.region()), arrays, [2], "sequential")
    assert found is not None
    np.testing.assert_allclose(found, 4 * np.exp(600.0), rtol=1e-12)
