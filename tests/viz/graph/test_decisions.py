"""Decisions as badges."""

import pytest

from tessera.core.record import AttributeData, OpRecord, Verbatim
from tessera.core.resources import Buffers
from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.core.tile.schedule_attributes import SCHEDULE_ATTRIBUTES
from tessera.viz.graph.decisions import LEGEND, Decisions
from tessera.viz.graph.model import Badge


def badges(
    name: str, value: AttributeData, *, producer: bool = False, decisions: Decisions | None = None
) -> list[Badge]:
    record = OpRecord("1", "tessera.load", attributes={f"tessera.{name}": value})
    return list((decisions or Decisions()).of_operation(record, TileSchedule(producer_warp=producer)))


@pytest.mark.parametrize("name", SCHEDULE_ATTRIBUTES)
def test_every_attribute_of_the_schedule_is_shown(name: str):
    legal = SCHEDULE_ATTRIBUTES[name].legal
    found = badges(name, legal[0] if legal else 0 if name == "pipeline" else "registers [1:1] lanes [] warps []")
    assert found
    assert {badge.kind for badge in found} <= LEGEND.keys()


def test_a_pipeline_has_the_depth_that_it_got():
    deep = Decisions((Buffers("pipeline 1", 3, 1024),))
    ring, role, barrier = badges("pipeline", 1, producer=True, decisions=deep)
    assert (ring.text, ring.ring) == ("pipeline 1, 3 stages", 3)
    assert "3 buffers of 1,024 bytes" in ring.detail
    assert (role.text, barrier.text) == ("producer warp", "mbarrier full / empty")
    assert [badge.text for badge in badges("pipeline", 0)] == ["pipeline 0", "mbarrier full / empty"]


def test_layouts_get_names_in_the_order_they_are_met():
    decisions = Decisions()
    a, b, again = (badges("layout", text, decisions=decisions)[0] for text in ("A", "B", "A"))
    assert [a.text, b.text, again.text] == ["layout L1", "layout L2", "layout L1"]
    two = badges("carried", Verbatim('["A", "", "C"]'), decisions=decisions)
    assert [badge.text for badge in two] == ["carried layout L1", "carried layout L3"]


def test_a_function_says_what_is_chosen_for_the_kernel():
    entries = (("num_warps", 8), ("persistent", True))
    shown, schedule = Decisions().of_kernel(OpRecord("f", "func.func", attributes={"tessera.schedule": entries}))
    assert [badge.text for badge in shown] == ["num_warps 8", "persistent grid"]
    assert schedule == TileSchedule(num_warps=8, persistent=True)
    assert Decisions().of_kernel(OpRecord("f", "func.func")) == ((), TileSchedule())
