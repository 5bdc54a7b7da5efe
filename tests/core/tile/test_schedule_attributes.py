"""The schedule's attributes on operations: written, found and read back."""

import pytest

from tessera.core.layouts import Layout
from tessera.core.mlir import ir
from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.core.tile import schedule_attributes as attributes
from tessera.core.tile.dialect import OPERATIONS, context
from tessera.core.tile.spec import LEGAL_OPERATIONS

TEXT = """
func.func @f(%a: f32) {
  %b = arith.mulf %a, %a : f32
  func.return
}
"""
LAYOUT = Layout((4, 8), registers=(1,), lanes=(2, 12, 0), warps=(16,))


def function(module: ir.Module):
    return module.body.operations[0].operation


def test_marks_are_found_until_they_are_removed():
    with context():
        module = ir.Module.parse(TEXT)
        product, ending = (view.operation for view in function(module).regions[0].blocks[0].operations)
        attributes.mark_only(product, attributes.SKIPPED)
        attributes.mark(product, attributes.PIPELINE, 3)
        assert attributes.marked([product, ending], attributes.SKIPPED) == [product]
        assert attributes.text_of(product, attributes.SKIPPED) == "where they are one"
        assert attributes.number_of(product, attributes.PIPELINE) == 3
        assert "fastmath" in attributes.own_attributes(product)
        assert not any(name.startswith("tessera.") for name in attributes.own_attributes(product))
        attributes.unmark(product, attributes.SKIPPED)
        attributes.unmark(product, attributes.SKIPPED)
        assert not attributes.is_marked(product, attributes.SKIPPED)
        assert attributes.text_of(product, attributes.SKIPPED) == ""


def test_the_schedule_is_one_attribute_that_survives_printing():
    schedule = TileSchedule(num_warps=8, pingpong=True, load_balance=-1)
    with context():
        module = ir.Module.parse(TEXT)
        assert attributes.schedule_of(function(module)) == TileSchedule()
        attributes.set_schedule(function(module), schedule)
        assert "tessera.schedule = {load_balance = -1 : i64, num_warps = 8 : i64, pingpong = true}" in str(module)
        again = ir.Module.parse(str(module))
        assert attributes.schedule_of(function(again)) == schedule


def test_layouts_are_texts():
    with context():
        module = ir.Module.parse(TEXT)
        product = function(module).regions[0].blocks[0].operations[0].operation
        attributes.set_layouts(product, attributes.LAYOUT, [LAYOUT])
        assert attributes.text_of(product, attributes.LAYOUT) == LAYOUT.text()
        assert attributes.layouts_of(product, attributes.LAYOUT, [(4, 8)]) == [LAYOUT]
        attributes.set_layouts(product, attributes.LAYOUT, [None, LAYOUT])
        assert attributes.layouts_of(product, attributes.LAYOUT, [None, (4, 8)]) == [None, LAYOUT]
        with pytest.raises(ValueError, match="`layout` has 2 layouts for 1 values"):
            attributes.layouts_of(product, attributes.LAYOUT, [(4, 8)])


def test_every_attribute_stands_on_operations_that_there_are():
    known = {f"tessera.{name}" for name in OPERATIONS} | LEGAL_OPERATIONS
    for rule in attributes.SCHEDULE_ATTRIBUTES.values():
        assert known.issuperset(rule.operations)
