"""Random cascades (`tests/fuzz`): 5000 of what `make fuzz WHAT=cascades` runs, and some of them as kernels."""

from collections import Counter
from dataclasses import replace

import pytest

from fuzz.cascades import cascade_case_of, check_cascade, check_emitted
from tessera.core.graph.expr import Literal, apply
from tessera.core.schedule.cascade import Cascade, Region
from tessera.lowering.schedule.cascades.derive import derive

REFUSALS = (
    "atoms mixed with the results of reductions over the same axis",
    "the condition depends on the results of reductions over the same axis",
    "the exponent multiplies atoms with the results of reductions over the same axis",
    "an exponential of atoms and results is inside of an exponent",
    "its normal form has more than 16 terms",
)


@pytest.mark.parametrize("block", range(10))
def test_cascades_agree_with_their_reductions(block: int) -> None:
    kinds = Counter[str]()
    for seed in range(500 * block, 500 * block + 500):
        outcome = check_cascade(cascade_case_of(seed))
        kinds[outcome.kind] += 1
        assert not outcome.bad, f"python -m fuzz --what cascades --only {seed}\n{outcome.detail}"
        if outcome.kind == "refused":
            assert any(reason in outcome.detail for reason in (*REFUSALS, "it rounds to")), outcome.detail
    assert kinds["agrees"] > 400
    assert kinds["skipped"] < 10


@pytest.mark.parametrize("seed", [14782, 22508, 885757392])
def test_cascades_that_were_wrong(seed: int) -> None:
    """Elements that cancel one by one, but not as sums; an empty sum in an exponent, times an infinite factor.

    In the last one all elements cancel to 0, and sums of their parts do not quite.
    """
    assert check_cascade(cascade_case_of(seed)).kind == "agrees"


def test_kernels_of_cascades_agree_with_the_oracle() -> None:
    kinds = Counter[str]()
    for seed in range(60, 90):
        outcome = check_emitted(seed, "cpu")
        assert outcome.kind == "agrees", f"check_emitted({seed}, 'cpu')\n{outcome.detail}"
        kinds[outcome.detail.split(",")[0]] += 1
    assert kinds["cascade"] >= 3


def test_a_wrong_cascade_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(region: Region) -> Cascade:
        made = derive(region)
        lower = [None if each is None else apply("mul", each, Literal(2.0, each.dtype)) for each in made.lower]
        return replace(made, lower=tuple(lower))

    monkeypatch.setattr("fuzz.cascades.derive", doubled)
    kinds = Counter(check_cascade(cascade_case_of(seed)).kind for seed in range(20))
    assert kinds["differs"] > 12
