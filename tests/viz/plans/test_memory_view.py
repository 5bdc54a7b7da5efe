"""The memory view: its text, its plain form, its data."""

import numpy as np
import pytest

from support.operator_graphs import CASES, ROWS, classify
from tessera import op, viz
from tessera.core.base.dtypes import bf16
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer
from tessera.kernels.options import Options
from tests.viz.test_everything import check


def test_the_text_is_a_chart():
    head, *lines = viz.memory(classify, *ROWS).text().split("\n")
    assert head.startswith("memory of classify: peak 39 kB at kernel 1 (39.3 kB without fusion), ")
    assert head.endswith("1 intermediate of 12.3 kB in an arena of 12.3 kB")
    assert lines == [
        "  0 rmsnorm_classify                26.8 kB ################",
        "  1 softmax                           39 kB ######################## peak",
        "  2 sum                             26.9 kB #################",
    ]


def test_what_launches_take_is_told():
    arrays = (np.ones((2048, 333), bf16.numpy), np.ones((333, 2048), bf16.numpy))
    view = viz.memory(GraphFunction(lambda x, w: x @ w, options=Options(target="cuda:sm_90a")), *arrays)
    head, line = view.text().split("\n")
    assert head.endswith(", launches take up to 1.57 MB")
    assert line.endswith(" peak (1.57 MB taken by the launch)")


@pytest.mark.parametrize("name", CASES)
def test_every_form_of_it_is_one(name: str):
    function, arguments = CASES[name]
    view = check(viz.memory(function, *arguments))
    plain = view.plain_html()
    assert all(each.type in plain for each in view.data.arrays)
    assert "from the start to kernel" in plain
    assert len(view.html()) < 100_000


def test_long_programs_are_counted():
    def long(x: Tracer) -> object:
        for axis in range(40):
            x = op.softmax(x, axis=axis % 2)
        return x

    lines = viz.memory(GraphFunction(long), np.ones((20, 30), np.float32)).text().split("\n")
    assert len(lines) == 18
    assert lines[-1] == "  and 24 kernels more"
    assert any(line.endswith(" peak") for line in lines)
    assert len("\n".join(lines)) < 1500
