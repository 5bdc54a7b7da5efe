"""The tiles view: texts, the plain form, what the live view asks."""

from typing import Any, cast

import numpy as np
import pytest

from support import stepped_kernels as kernels
from support.operator_graphs import QKV, ROWS, attention, classify
from tessera.core.errors.catalog import NotCalledYet, NothingToShow
from tessera.viz import fusion, tiles
from tessera.viz.tile_debugger.recording import Limits
from tessera.viz.tile_debugger.view import MADE_UP, TilesView


@pytest.fixture
def view() -> TilesView:
    x = np.linspace(-1, 1, 300, dtype=np.float32)
    return tiles(kernels.saxpy[3, 128], x, np.ones(300, np.float32), alpha=2.0)


def test_text_and_plain_form(view: TilesView):
    assert view.text() == "tiles of saxpy: 3 tiles, 12 statements; x float32[300], y float32[300]"
    plain = view.plain_html()
    assert "reads [256:300]" in plain
    assert "reads and writes [256:300]" in plain
    assert not any(f"<{name}" in plain for name in ("script", "style", "svg", "iframe"))


def test_payload_is_linked_with_other_views_of_the_kernel(view: TilesView):
    payload = cast("dict[str, Any]", view.payload())
    assert payload["group"].startswith("saxpy ")
    assert payload["title"] == "tiles of saxpy"
    assert len(payload["steps"]) == 12


def test_a_small_output_is_small(view: TilesView):
    assert len(view.html()) < 100_000


def test_the_live_view_records_other_tiles_and_sends_values():
    a, b, c = np.ones((70, 4), np.float32), np.ones((4, 30), np.float32), np.zeros((70, 30), np.float32)
    view = tiles(kernels.matmul, a, b, c, limits=Limits(tiles=2))
    assert view.text().startswith("tiles of matmul: 20 tiles, 2 recorded")
    sent: list[dict[str, Any]] = []
    view.answer({"type": "tile", "tile": 6}, cast("Any", sent.append))
    assert [tile["name"] for tile in sent[0]["data"]["tiles"]] == ["m=16, n=16"]
    names = [[v["name"] for v in step["variables"]] for step in sent[0]["data"]["steps"]]
    step = next(n for n, found in enumerate(names) if found == ["total"])
    view.answer({"type": "variable", "tile": 6, "step": step, "name": "total"}, cast("Any", sent.append))
    assert sent[1]["variable"]["values"]["shape"] == [16, 8]
    with pytest.raises(IndexError, match="makes no nothing"):
        view.answer({"type": "variable", "tile": None, "step": 0, "name": "nothing"}, cast("Any", sent.append))
    with pytest.raises(ValueError, match="knows no message 'other'"):
        view.answer({"type": "other"}, cast("Any", sent.append))


def test_without_arguments_those_of_the_last_call_are_made_up():
    kernel = kernels.softmax.variant()
    fresh = type(kernel)(kernel.function)
    with pytest.raises(NotCalledYet, match="softmax was not called yet"):
        tiles(fresh)
    fresh(np.ones((6, 10), np.float32), np.zeros((6, 10), np.float32))
    view = tiles(fresh)
    assert view.data.left_out == (MADE_UP,)
    assert view.data.arrays[0].shape == (6, 10)


def test_a_kernel_of_operators_is_run_on_what_those_before_it_give():
    view = tiles(classify, *ROWS, kernel=1)
    assert view.text().startswith("tiles of softmax: 2 tiles, ")
    assert view.data.left_out == ()
    before = view.trace.arrays[0].before
    assert before is not None
    g, w = ROWS[1].astype(float), ROWS[2].astype(float)
    x = ROWS[0].astype(float)
    normalized = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g
    np.testing.assert_allclose(before, normalized @ w * 0.5, rtol=1e-4, atol=1e-5)
    assert cast("dict[str, Any]", view.payload())["group"] == fusion(classify, *ROWS).data.group


def test_functions_of_operators_without_examples_have_random_numbers():
    attention(*QKV)
    assert tiles(attention).data.left_out[0] == MADE_UP
    with pytest.raises(TypeError, match="tiles\\(\\) of a function of operators has no argument 'kernl'"):
        tiles(attention, *QKV, kernl=1)


def test_what_is_no_kernel_is_refused():
    with pytest.raises(NothingToShow, match=r"tiles\(\) shows a kernel, and the function len is none"):
        tiles(cast("Any", len), 1)
