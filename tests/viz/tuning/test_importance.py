"""Main effects: exact on full grids, and honest where there are holes."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.tuning.results import ILLEGAL, MEASURED, Trial, Tuning
from tessera.viz.tuning.importance import Importance, importance
from tessera.viz.tuning.model import model_of


def measured(times: dict[tuple[int, int], float]) -> Importance:
    trials = tuple(Trial({"A": a, "B": b}, MEASURED, (t,), f"{a}{b}") for (a, b), t in times.items())
    return importance(model_of(Tuning("k", "cpu", trials, complete=True)))


GRID = list(itertools.product((1, 2, 4), (8, 16)))


def test_one_parameter_explains_everything():
    found = measured({(a, b): 1e-3 * a for a, b in GRID})
    assert [(effect.name, round(effect.share, 9), effect.best) for effect in found.effects] == [
        ("A", 1.0, "1"),
        ("B", 0.0, "8"),
    ]
    assert found.full
    assert found.rest == pytest.approx(0.0)


def test_factors_share_the_variance_as_their_logarithms_do():
    found = measured(
        {
            (a, b): 1e-3 * (2.0 if a == 1 else 1.0) * (3.0 if b == 8 else 1.0)
            for a, b in itertools.product((1, 2), (8, 16))
        }
    )
    one, other = math.log(2) ** 2, math.log(3) ** 2
    shares = {effect.name: effect.share for effect in found.effects}
    assert shares == pytest.approx({"A": one / (one + other), "B": other / (one + other)})
    assert [effect.best for effect in found.effects] == ["16", "2"]


def test_an_interaction_is_the_rest():
    found = measured({(1, 1): 1e-3, (1, 2): 2e-3, (2, 1): 2e-3, (2, 2): 1e-3})
    assert [effect.share for effect in found.effects] == [pytest.approx(0.0), pytest.approx(0.0)]
    assert found.rest == pytest.approx(1.0)


@given(st.lists(st.floats(1e-6, 1.0), min_size=6, max_size=6))
def test_shares_of_a_full_grid_sum_to_one_at_most(times: list[float]):
    found = measured(dict(zip(GRID, times, strict=True)))
    assert all(-1e-9 <= effect.share <= 1 + 1e-9 for effect in found.effects)
    assert sum(effect.share for effect in found.effects) <= 1 + 1e-9


def test_a_grid_with_holes_says_so():
    found = measured({place: 1e-3 * (1 + n) for n, place in enumerate(GRID[:-1])})
    assert found.effects
    assert not found.full
    assert found.rest is None


def test_too_little_says_nothing():
    assert measured({(1, 1): 1e-3, (2, 1): 2e-3}).effects == ()
    assert measured(dict.fromkeys(GRID, 1e-3)).effects == ()
    failed = Tuning("k", "cpu", (Trial({"A": 1}, ILLEGAL),), complete=True)
    assert importance(model_of(failed)) == Importance((), 0, full=False)
