"""CUDA Tile programs as data."""

from unittest.mock import sentinel

import pytest

from tessera.core.mlir import ir
from tessera.lowering.cuda_tile.instructions import (
    NOT_STATIC,
    TOKEN,
    Block,
    Instruction,
    TileType,
    Value,
    ViewType,
    instructions_of,
    padded,
)


def test_types_read_as_in_cuda_tile_ir():
    assert str(TileType("f32", (64, 32))) == "tile<64x32xf32>"
    assert str(TileType("ptr<i8>")) == "tile<ptr<i8>>"
    assert TileType("f32", (4,)).of("i1") == TileType("i1", (4,))
    view = ViewType("f16", (NOT_STATIC, 8), (8, 1))
    assert str(view) == "tensor_view<?x8xf16, strides=[8,1]>"
    tiles = ViewType("f16", (NOT_STATIC, 8), (NOT_STATIC, 1), (4, 2))
    assert str(tiles) == ("partition_view<tile=(4x2), padding_value=zero, tensor_view<?x8xf16, strides=[?,1]>>")


def test_extents_are_padded_to_powers_of_two():
    assert padded([1, 2, 3, 12, 64, 65]) == (1, 2, 4, 16, 64, 128)


def test_instructions_are_found_outer_before_inner():
    inner = Instruction("yield", (), (), {}, (), sentinel.location)
    outer = Instruction("if", (), (), {}, (Block((), [inner]),), sentinel.location)
    last = Instruction("return", (), (), {}, (), sentinel.location)
    assert list(instructions_of(Block((), [outer, last]))) == [outer, inner, last]


def test_readers_of_types_and_attributes_refuse_other_kinds():
    array = Value(ViewType("f32", (4,), (1,)))
    tile = Value(TileType("f32", (4,)))
    assert array.view_type.strides == (1,)
    assert tile.tile_type.of("i1") == TileType("i1", (4,))
    with pytest.raises(TypeError, match=r"^tile<4xf32> is no view$"):
        _ = tile.view_type
    with pytest.raises(TypeError, match=r"^token is no tile$"):
        _ = Value(TOKEN).shape
    with ir.Context():
        op = Instruction("assume", (tile,), (tile,), {"bounded": (0, None), "div_by": 8}, (), ir.Location.unknown())
    assert op.number("div_by") == 8
    assert op.numbers("bounded") == (0, None)
    with pytest.raises(TypeError, match="bounded is no number"):
        op.number("bounded")
    with pytest.raises(TypeError, match="div_by is no tuple"):
        op.numbers("div_by")
