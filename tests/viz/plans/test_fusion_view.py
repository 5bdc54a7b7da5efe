"""The fusion view: its text, its plain form, its data."""

import numpy as np
import pytest

from support.operator_graphs import CASES, QKV, ROWS, attention, classify
from tessera import op, viz
from tessera.core.errors.catalog import NothingToShow
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer
from tests.viz.test_everything import check


def test_the_text_says_what_fusion_saved_and_what_it_did_not():
    lines = viz.fusion(classify, *ROWS).text().split("\n")
    assert lines[0] == (
        "fusion of classify: 5 kernels with 105 kB and 226 kFLOP, one for each operator; 3 kernels with 63.8 kB and "
        "226 kFLOP as scheduled, 1.64 x less through memory"
    )
    assert lines[1] == "  kernel 0 rmsnorm_classify [cascade]: 26.8 kB, 208 kFLOP"
    assert lines[-1] == (
        "  1 and 2 (p: f32[64, 48]) are two: they reduce different axes, and a kernel of rows keeps one kind of row; "
        "one kernel would move 12.3 kB less; remedy: reduce the same axes in both, or reduce both axes at once"
    )


def test_the_summary_has_equations_and_algebra():
    text = viz.fusion(attention, *QKV).summary()
    assert "  S[i, j] = sum_k Q[i, k] * K[j, k]" in text
    assert "    M1 = sum_j V * exp(S - c0)  (line " in text
    assert text.index("carried:") < text.index("begins with:") < text.index("merge:") < text.index("result:")


@pytest.mark.parametrize("name", CASES)
def test_every_form_of_it_is_one(name: str):
    function, arguments = CASES[name]
    view = check(viz.fusion(function, *arguments))
    plain = view.plain_html()
    assert all(f"kernel {card.number} {card.name}" in plain for card in view.data.kernels)
    assert len(view.html()) < 100_000


def test_long_programs_are_counted():
    def long(x: Tracer) -> object:
        for axis in range(40):
            x = op.softmax(x, axis=axis % 2)
        return x

    text = viz.fusion(GraphFunction(long), np.ones((20, 30), np.float32)).text()
    assert "  and 28 kernels more" in text
    assert "  and 27 pairs more" in text


def test_what_is_no_function_of_operators():
    with pytest.raises(NothingToShow, match="fusion\\(\\) shows a function of operators"):
        viz.fusion(3)  # pyright: ignore[reportArgumentType]
