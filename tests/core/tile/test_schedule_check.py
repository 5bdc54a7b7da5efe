"""The table of the schedule's attributes, as it is checked."""

import pytest

from tessera.core.mlir import ir
from tessera.core.tile.dialect import context
from tessera.core.tile.schedule_check import schedule_problems

TEXT = """
func.func @f(%a: f32) FUNCTION {
  %b = arith.mulf %a, %a INSTRUCTION : f32
  func.return
}
"""


def problems(function: str = "", product: str = "") -> list[tuple[str, str]]:
    with context():
        module = ir.Module.parse(TEXT.replace("FUNCTION", function).replace("INSTRUCTION", product))
        found = module.body.operations[0].operation
        operations = [view.operation for view in found.regions[0].blocks[0].operations]
        return [(message, hint) for _, message, hint in schedule_problems(found, operations)]


def test_what_is_legal_has_no_problems():
    assert (
        problems("attributes {tessera.schedule = {num_warps = 4 : i64}}", '{tessera.skipped = "where they are one"}')
        == []
    )
    assert problems(product='{tessera.layout = "lanes [-]", tessera.place = "virtual"}') == []


@pytest.mark.parametrize(
    ("function", "product", "message", "hint"),
    [
        ("attributes {tessera.schedule = {num_warps = 5 : i64}}", "", "`num_warps = 5` is not legal", "tessera.schedule"),
        ("", '{tessera.instruction = "wgmma"}', "`tessera.instruction` cannot stand on `arith.mulf`", "put it on tessera.dot"),
        ("", '{tessera.skipped = "often"}', '`tessera.skipped = "often"` is not legal', '"where they are one"'),
        ("", "{tessera.pipeline = 0 : i64}", "`tessera.pipeline` cannot stand on `arith.mulf`", "put it on tessera.load"),
    ],
)  # fmt: skip
def test_what_is_not_legal_is_said(function: str, product: str, message: str, hint: str):
    ((found, remedy),) = problems(function, product)
    assert found.startswith(message)
    assert hint in remedy
