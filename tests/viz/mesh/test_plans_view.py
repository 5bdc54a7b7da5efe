"""The view of a search: plans side by side, what was rejected, and mistakes."""

from dataclasses import replace

import pytest

from tessera import dist, viz
from tessera.core.errors.catalog import NothingToShow
from tessera.core.planning.parallel_plan import PlanSearch

MODEL = dist.Transformer(layers=8, width=1024, heads=16, sequence=512, batch=64, vocabulary=8192)


@pytest.fixture(scope="module")
def search() -> PlanSearch:
    return dist.plan.search(MODEL, 8)


def test_plans_and_what_was_rejected(search: PlanSearch):
    view = viz.parallel(search)
    assert view.title == f"{MODEL} over 8 devices"
    assert view.data.plans[0].name == search.best.name
    assert [plan.seconds for plan in view.data.plans] == sorted(plan.seconds for plan in view.data.plans)
    assert len(view.data.rejected) + view.data.left == len(search.rejected)
    assert view.text() == str(search)
    payload = view.payload()
    assert isinstance(payload, dict)
    assert payload["timeline"] is not None


def test_one_plan(search: PlanSearch):
    view = viz.parallel(replace(search.best, timeline=None))
    payload = view.payload()
    assert isinstance(payload, dict)
    assert payload["timeline"] is None
    assert len(view.data.plans) == 1


def test_without_scripts_there_are_tables(search: PlanSearch):
    plain = viz.parallel(search).plain_html()
    assert search.best.name in plain
    assert search.rejected[0].reason in plain
    assert "<script" not in plain


def test_what_is_no_plan():
    with pytest.raises(NothingToShow, match=r"parallel\(\) shows plans"):
        viz.parallel(3)  # pyright: ignore[reportArgumentType] - that is the mistake
