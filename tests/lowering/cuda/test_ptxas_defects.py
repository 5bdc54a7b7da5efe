"""Subtractions from high products, which ptxas compiles wrongly, in another form with the same meaning."""

import re
from typing import Any, cast

import numpy as np
import pytest

from support import simulate
from support.operators import drawn
from tessera import graph, op
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.graphs.function import GraphFunction
from tessera.lowering.cuda.ptxas_defects import without_defects

HIGH = """
\tmul.hi.u32 \t%r20, %r19, 1431655766;
\tcvt.u64.u32 \t%rd30, %r20;
\tcvt.u64.u32 \t%rd31, %r18;
\tsub.s64 \t%rd32, {}, {};
"""


def test_a_number_less_than_a_high_product():
    rewritten = without_defects(HIGH.format("%rd30", "%rd31"))
    assert "sub.s64" not in rewritten
    *_, complement, total, difference = rewritten.splitlines()
    assert complement == "\tnot.b64 \t%rd32, %rd31;"
    assert total == "\tadd.s64 \t%rd32, %rd30, %rd32;"
    assert difference == "\tadd.s64 \t%rd32, %rd32, 1;"


def test_a_high_product_that_is_replaced_by_the_difference():
    *_, declared, complement, total, difference = without_defects(
        HIGH.format("%rd30", "%rd31").replace("%rd32", "%rd30")
    ).splitlines()
    name = declared.split()[-1].removesuffix(";")
    assert declared.split()[:2] == [".reg", ".b64"]
    assert complement == f"\tnot.b64 \t{name}, %rd31;"
    assert total == f"\tadd.s64 \t%rd30, %rd30, {name};"
    assert difference == "\tadd.s64 \t%rd30, %rd30, 1;"


@pytest.mark.parametrize("operands", [("%rd31", "%rd30"), ("%rd31", "%rd31"), ("%rd7", "%rd31")])
def test_other_differences_stay(operands: tuple[str, str]):
    text = HIGH.format(*operands)
    assert without_defects(text) == text
    assert without_defects("\tsub.s64 \t%rd1, %rd2, %rd3;\n") == "\tsub.s64 \t%rd1, %rd2, %rd3;\n"


def test_a_kernel_whose_windows_are_counted_by_quotients():
    """Windows of a third of seven elements: their ends less their beginnings, both of which are quotients."""

    def pool(x: Any) -> Any:  # noqa: ANN401
        return op.adaptive_avg_pool1d(x, 3)

    x, made = drawn((2, 3, 7), np.float64, 1), cast("GraphFunction[..., Any]", graph.module("pool")(pool))
    with overridden(target="interpret"):
        expected = np.asarray(made(x))
        executable = made.executable_for(x)
    picked, pooled = executable.kernels(Target("cuda", "sm_90a"))
    windows, means = (np.zeros(each.lowered.arguments[-1].shape) for each in (picked, pooled))
    simulate.simulate(picked.lowered.program, [x, windows])
    artifact = simulate.simulate(pooled.lowered.program, [windows.reshape(6, 3, 3), means])
    np.testing.assert_array_equal(means.reshape(expected.shape), expected)
    text = simulate.ptx_of(artifact)
    high = set(re.findall(r"mul\.hi\.u32 \t(%r\d+)", text))
    assert high
    wide = {wide for wide, short in re.findall(r"cvt\.u64\.u32 \t(%rd\d+), (%r\d+)", text) if short in high}
    assert not wide & set(re.findall(r"sub\.s64 \t%rd\d+, (%rd\d+)", text))
