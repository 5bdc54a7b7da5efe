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
    assert "  and 32 kernels more" in text
    assert "  and 36 pairs more" in text
    assert len(text) < 1500


def test_of_many_kernels_the_ones_that_move_the_most_are_told():
    def grows(x: Tracer) -> object:
        for axis in range(10):
            x = op.softmax(x, axis=axis % 2)
        return op.softmax(op.matmul(x, op.transpose(x)), axis=-1)

    lines = viz.fusion(GraphFunction(grows), np.ones((60, 7), np.float32)).text().split("\n")
    kernels = [line.split()[1] for line in lines if line.startswith("  kernel ")]
    assert kernels == ["0", "1", "2", "3", "4", "5", "10", "11"]
    assert lines[9] == "  and 4 kernels more"


def test_forms_that_were_rejected_have_their_prices_and_rules():
    def chain(a: Tracer, b: Tracer, x: Tracer) -> object:
        return op.softmax((a @ b) @ x)

    arrays = [np.ones(shape, np.float32) for shape in ((256, 256), (256, 256), (256, 4))]
    real = GraphFunction(chain, algebra=frozenset({"reassociate"}))
    forms = viz.fusion(real, *arrays).data.forms
    chosen, *rejected = forms.forms
    assert [rule.name for rule in chosen.rules] == ["chain-order"]
    assert chosen.rules[0].permission == "reassociate"
    assert chosen.lines == chosen.rules[0].lines != ()
    assert [each.verdict for each in rejected] == ["rejected"] * len(rejected)
    assert any(each.rules == () and each.more > 0 for each in rejected)
    assert chosen.nanoseconds < forms.written
    text = viz.fusion(real, *arrays).summary()
    assert "forms, permitted: bits, reassociate; as written " in text
    assert "  rejected +" in text
    without = viz.fusion(GraphFunction(chain), *arrays)
    assert "algebra='reassociate' would give " in without.plain_html().replace("&#x27;", "'")
    assert without.data.forms.permissions[0].cost.operations < without.data.forms.forms[0].cost.operations


def test_what_is_no_function_of_operators():
    with pytest.raises(NothingToShow, match="fusion\\(\\) shows a function of operators"):
        viz.fusion(3)  # pyright: ignore[reportArgumentType]
