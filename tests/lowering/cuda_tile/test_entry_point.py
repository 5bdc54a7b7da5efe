"""Parameters, ids, and the order of groups."""

import numpy as np
import pytest

from lowering.cuda_tile.compare import agree, normal, poison
from support import programs
from support.interpret_programs import Writer
from support.tile_cases import strided
from support.tile_machine import lowered
from tessera.core.base.dtypes import DType, bf16, boolean, i64, u8
from tessera.core.program.program import Domain


def test_slots_are_as_in_the_calling_convention():
    frame, entry = lowered(strided())
    kinds = [(slot.kind, slot.parameter, slot.axis, slot.symbol) for slot in frame.slots]
    assert kinds == [
        ("pointer", 0, 0, ""), ("stride", 0, 0, ""), ("stride", 0, 1, ""), ("pointer", 1, 0, ""), ("stride", 1, 0, ""),
        ("stride", 1, 1, ""), ("scalar", 2, 0, ""), ("symbol", 0, 0, "m"), ("symbol", 0, 0, "n"),
        ("grid", 0, 0, ""), ("grid", 0, 1, ""), ("grid", 0, 2, ""),
    ]  # fmt: skip
    assert [str(v.type) for v in entry.body.arguments[:7]] == [
        "tile<ptr<f32>>", "tile<i64>", "tile<i64>", "tile<ptr<f32>>", "tile<i64>", "tile<i64>", "tile<f32>",
    ]  # fmt: skip
    assert frame.rule.lanes_per_group == 1


@pytest.mark.parametrize("dtype", [boolean, u8, i64, bf16], ids=str)
def test_scalars_of_every_kind(dtype: DType):
    b = Writer("scalar")
    out = b.array("out", dtype, 4, mutable=True)
    value = b.scalar("value", dtype)
    b.store(out, b.full(value, 4), [b.const(0)], [4])
    agree(b.program(), [np.zeros(4, dtype.numpy), dtype.numpy.type(1)])


def test_ids_along_every_axis():
    b = Writer("ids")
    out = b.array("out", i64, 24, 8, mutable=True)
    place = b.id("group")
    for number, (of, axis) in enumerate(
        [("group", None), ("group", 0), ("group", 1), ("group", 2), ("grid_groups", None), ("grid_groups", 1),
         ("group_lanes", None), ("group_lanes", 0)]
    ):  # fmt: skip
        b.write(out, b.id(of, axis), place, b.const(number))
    program = b.program(domain=Domain("groups", (24,)), group=(32, 2))
    agree(program, [np.zeros((24, 8), np.int64)], 24)


def test_groups_of_a_product_go_in_bands():
    """Any order is right; the tile machine runs them all."""
    agree(programs.matmul(4, 4, 4), [normal(50, 6), normal(6, 14), poison(50, 14)])
    assert lowered(programs.matmul(4, 4, 4))[0].blocked
    assert not lowered(programs.softmax_rows(8, 4))[0].blocked
