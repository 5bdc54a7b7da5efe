"""The algebra of cascades as rows: the state, what it begins with, how two states merge, the results."""

import pytest

from support.operator_graphs import QKV, attention
from tessera.core.base.dtypes import f32
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.schedule.algebra import SECTIONS, algebra_rows, state_origins
from tessera.core.schedule.cascade import Cascade, Reduction, Region
from tessera.lowering.schedule.cascades.derive import derive


def x(number: int) -> Expr:
    return Argument(number, f32)


def variance() -> Cascade:
    """The mean, and the sum of squared differences from it."""
    mean = apply("mul", x(0), Literal(1 / 64, f32))
    off = apply("sub", x(0), x(1))
    region = Region((f32,), (Reduction("sum", mean), Reduction("sum", apply("mul", off, off))), extent=64)
    return derive(region)


def told(cascade: Cascade, section: str) -> dict[str, str]:
    return {row.symbol: row.text for row in algebra_rows(cascade, ["v"]) if row.section == section}


def test_attention_is_the_online_softmax():
    loop = attention.executable_for(*QKV).plan.groups[0].loop
    assert loop is not None
    rows = algebra_rows(loop.cascade, ["S", "V"])
    assert [(row.section, row.symbol, row.text) for row in rows] == [
        ("carried", "M0", "sum_j exp(S - c0)"),
        ("carried", "M1", "sum_j V * exp(S - c0)"),
        ("carried", "c0", "running max of S"),
        ("begins with", "M0", "0"),
        ("begins with", "M1", "0"),
        ("begins with", "c0", "-inf: nothing was visible"),
        ("merge", "M0", "M0' * exp(c0' - c0) + M0'' * exp(c0'' - c0)"),
        ("merge", "M1", "M1' * exp(c0' - c0) + M1'' * exp(c0'' - c0)"),
        ("merge", "c0", "max(c0', c0'')"),
        ("result", "r2", "select((M0 == 0.0), 0.0, (M1 / M0))"),
    ]
    # The maximum, the sum and the product are reductions 0, 1 and 2.
    assert [loop.reductions[number].op for number in state_origins(loop.cascade)] == ["reduce", "contract", "reduce"]
    assert state_origins(loop.cascade) == (1, 2, 0)


def test_centred_moments_merge_by_the_binomial_theorem():
    merges = told(variance(), "merge")
    squares = next(text for symbol, text in merges.items() if "²" in text and symbol.startswith("M"))
    assert "(mean0' - mean0)²" in squares
    assert "(mean0'' - mean0)²" in squares
    assert merges["mean0"] == "(M1' * mean0' + M1'' * mean0'') / (M1' + M1'')"
    begins = told(variance(), "begins with")
    assert set(begins.values()) == {"0"}
    assert set(begins) == set(merges)


@pytest.mark.parametrize(("kind", "first"), [("max", "-inf"), ("min", "inf")])
def test_extrema_begin_with_what_any_element_goes_before(kind: str, first: str):
    body = apply("mul", x(0), x(0))
    assert kind in ("max", "min")
    cascade = derive(Region((f32,), (Reduction(kind, body),)))
    assert told(cascade, "begins with") == {f"{kind}0": first}
    assert told(cascade, "merge") == {f"{kind}0": f"{kind}({kind}0', {kind}0'')"}
    assert told(cascade, "result") == {"r0": f"{kind}0"}


def test_sections_come_in_order():
    sections = [row.section for row in algebra_rows(variance())]
    assert list(dict.fromkeys(sections)) == list(SECTIONS)
