"""The workbench: every view of a kernel, with one selection."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import NotCalledYet
from tessera.viz import workbench
from tessera.viz.base.selection import group_of
from tessera.viz.workbenches.view import WorkbenchView

SOURCE = """
@kernel
def scaled(x: f32[n], y: mut f32[n], a: f32):
    for t in tile.range(n, step=64):
        y[t:t+64] = a * x[t:t+64]
"""


@pytest.fixture(scope="module")
def view() -> WorkbenchView:
    x = np.arange(500, dtype=np.float32)
    return workbench(tessera.compile_source(SOURCE).scaled, x, np.zeros_like(x), 3.0)


def test_every_panel_is_there_or_says_why_not(view: WorkbenchView):
    assert list(view.views) == ["levels", "passes", "dataflow", "schedule", "profile", "tiles", "edit"]
    (tuning,) = (panel for panel in view.data.panels if not panel.kind)
    assert tuning.remark == "no search of scaled is on disk (search first: autotune.search(kernel=scaled, params=...))"
    lines = view.text().split("\n")
    assert lines[0] == "workbench of scaled for cpu"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "levels", "passes", "dataflow", "schedule", "profile", "tiles", "tuning", "edit",
    ]  # fmt: skip


def test_all_panels_share_the_kernels_selection(view: WorkbenchView):
    payload = cast("dict[str, Any]", view.payload())
    kernel = tessera.compile_source(SOURCE).scaled
    assert payload["group"] == group_of("scaled", kernel.source.source)
    for panel in payload["panels"]:
        if panel["kind"]:
            assert panel["data"]["group"] == payload["group"], panel["name"]


def test_a_page_holds_each_script_once(view: WorkbenchView):
    html = view.html()
    for kind in ("explorer", "diff", "timeline", "tiles", "edit", "workbench"):
        assert html.count(f'data-kind="{kind}"') == (kind == "workbench")
    assert html.count("__tessera_v1??=") == 1
    assert not any(f"<{name}" in view.plain_html() for name in ("script", "style", "svg", "iframe"))


def test_questions_go_to_the_panels_view(view: WorkbenchView):
    sent: list[Mapping[str, object]] = []
    message = {"type": "apply", "level": "options", "given": {"rows_per_group": 4}}
    view.answer({"type": "panel", "panel": "edit", "message": message}, sent.append)
    assert sent[0]["panel"] == "edit"
    value = cast("dict[str, Any]", sent[0]["value"])
    assert value["outcome"]["same"] is True
    with pytest.raises(ValueError, match="knows no message 'panel'"):
        view.answer({"type": "panel", "panel": "tuning", "message": {}}, sent.append)


def test_without_arguments_it_wants_a_call():
    with pytest.raises(NotCalledYet):
        workbench(tessera.compile_source(SOURCE).scaled)
