"""The diff as a view: text, plain form, payload and live answers."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from support.operator_graphs import QKV, ROWS, attention, classify
from tessera.core.errors.catalog import NothingToShow
from tessera.session.compiled import Compiled
from tessera.viz import diff
from tessera.viz.diffs.view import DiffView
from tests.viz.diffs import kernels


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return kernels.product.compile(*kernels.arguments(), target="cpu")


@pytest.fixture(scope="module")
def view(compiled: Compiled) -> DiffView:
    return diff((compiled, "tile", "tile-mask-edges"), (compiled, "tile", "tile-distribute-ranges"))


Payload = dict[str, Any]  # JSON


def test_text_says_both_sides_and_counts(view: DiffView):
    assert view.text() == (
        "diff of product · cpu · tile after tile-mask-edges and product · cpu · tile after tile-distribute-ranges: "
        "1 changed, 2 moved, 2 split"
    )


def test_plain_form_is_a_unified_diff_with_signs(view: DiffView):
    plain = view.plain_html()
    assert not any(f"<{name}" in plain for name in ("script", "style", "svg", "iframe"))
    assert "∧   scf.for %i = 0 to %m" in plain
    assert "∧   %group = tessera.id group : i64" in plain
    assert "↕   %total = scf.for %l" in plain
    assert "operations shown" in plain


def test_a_long_plain_form_is_cut():
    compiled = kernels.product.compile(*kernels.arguments(), target="cpu")
    other = kernels.product.variant(BK=64).compile(*kernels.arguments(), target="cpu")
    assert " more rows</div>" in diff((compiled, "asm"), (other, "asm")).plain_html()


def test_payload_says_every_row_once(view: DiffView):
    payload = cast("Payload", view.payload())
    shown = next(pair for pair in payload["pairs"] if pair["at"] == list(view.data.chosen))
    rows = sum(row[2] if len(row) == 3 else 1 for row in shown["rows"])
    one = view.data.comparison
    assert rows == len(one.rows)
    texts = [payload["texts"][key]["text"] for key in shown["texts"]]
    assert [[payload["strings"][i] for i in text] for text in texts] == [
        [line.text for line in one.before], [line.text for line in one.after],
    ]  # fmt: skip
    assert payload["group"].startswith("product ")
    assert [len(side["stages"]) for side in payload["sides"]] == [len(choices) for choices in payload["choices"]]
    # Every pass is there as one step, for the page without a kernel.
    names = [name for level, name in view.data.before_choices if level == "tile"]
    steps = {tuple(pair["at"]) for pair in payload["pairs"]}
    assert {(i, i + 1) for i in range(len(names) - 1)} <= steps
    assert len(view.html()) < 100_000


def test_a_live_view_compares_any_two_stages(view: DiffView):
    sent: list[Mapping[str, Any]] = []
    view.answer({"type": "compare", "before": 0, "after": 4}, sent.append)
    assert sent[0]["pair"]["at"] == [0, 4]
    assert sent[0]["pair"]["told"] != "no changes"
    with pytest.raises(NothingToShow, match="are different levels"):
        view.answer({"type": "compare", "before": 0, "after": len(view.data.after_choices) - 1}, sent.append)
    with pytest.raises(ValueError, match="knows no message 'x'"):
        view.answer({"type": "x"}, sent.append)


def test_two_kernels_are_matched_by_what_they_compute():
    view = diff(kernels.scale, kernels.scale_and_add)
    one = view.data.comparison
    kinds = {change.name: change.kind for change in one.changes if change.listed}
    assert kinds["arith.addf"] == "added"
    assert "arith.mulf" not in kinds
    assert one.kept >= 4
    assert view.data.before.kernel == "scale"


def test_a_level_of_one_side_is_that_of_the_other(compiled: Compiled):
    view = diff(compiled, (compiled, "asm"))
    assert (view.data.before.level, view.data.comparison.told) == ("asm", "no changes")


def test_two_states_of_a_graph():
    view = diff((attention, "graph", "capture"), (attention, "graph"), args=QKV)
    assert view.text() == (
        "diff of attention · graph after capture and attention · graph after graph-simplify: 5 removed, 3 changed"
    )
    removed = [change for change in view.data.comparison.changes if change.kind == "removed"]
    assert {change.name for change in removed} == {"graph.view"}
    divided = diff((attention, "graph"), (attention, "schedule"), args=QKV)
    assert divided.data.comparison.told == "1 added, 7 moved"


def test_two_functions_of_operators():
    attention(*QKV)
    classify(*ROWS)
    view = diff(attention, classify)
    figures = {each.name: (each.before, each.after) for each in view.data.figures}
    assert figures["kernels"] == (1, 3)
    assert figures["moved through memory"] == (32768, 63808)
    assert view.data.group == diff(attention, attention).data.group
    assert diff(attention, attention).data.comparison.told == "no changes"
