"""CUDA Tile programs as data."""

from tessera.lowering.cuda_tile.instructions import (
    NOT_STATIC,
    Block,
    Instruction,
    TileType,
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
    inner = Instruction("yield", (), (), {}, (), None)
    outer = Instruction("if", (), (), {}, (Block((), [inner]),), None)
    last = Instruction("return", (), (), {}, (), None)
    assert list(instructions_of(Block((), [outer, last]))) == [outer, inner, last]
