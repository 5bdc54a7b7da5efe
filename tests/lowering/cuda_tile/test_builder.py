"""Writing instructions: types, constants, and what needs no instruction."""

from unittest.mock import sentinel

from tessera.lowering.cuda_tile.builder import TileBuilder
from tessera.lowering.cuda_tile.instructions import Block, TileType, Value


def made(block: Block) -> list[str]:
    return [op.name for op in block.instructions]


def test_a_constant_is_made_once_where_it_is_seen():
    block = Block()
    build = TileBuilder(block, sentinel.location)
    zero = build.constant(0.0, "f32", (4,))
    assert build.constant(0.0, "f32", (4,)) is zero
    assert build.constant(-0.0, "f32", (4,)) is not zero
    assert build.known(zero) == 0.0
    inner = Block()
    with build.at(inner):
        assert build.constant(0.0, "f32", (4,)) is zero
        one = build.constant(1.0, "f32")
    assert build.constant(1.0, "f32") is not one
    assert made(inner) == ["constant"]


def test_adding_nothing_is_no_instruction():
    block = Block()
    build = TileBuilder(block, sentinel.location)
    value = Value(TileType("i64"))
    zero, one = build.constant(0, "i64"), build.constant(1, "i64")
    assert build.add(value, zero) is value
    assert build.add(zero, value) is value
    assert build.sub(value, zero) is value
    assert build.mul(one, value) is value
    assert build.reshape(value, ()) is value
    assert build.all_of([None, None]) is None
    assert made(block) == ["constant", "constant"]


def test_a_scalar_becomes_a_tile():
    block = Block()
    build = TileBuilder(block, sentinel.location)
    assert build.splat(Value(TileType("f32")), (4, 8)).type == TileType("f32", (4, 8))
    assert made(block) == ["reshape", "broadcast"]
    assert build.splat(build.constant(2.0, "f32"), (4, 8)).type == TileType("f32", (4, 8))
    assert made(block)[2:] == ["constant", "constant"]


def test_loads_give_a_tile_and_a_token():
    block = Block()
    build = TileBuilder(block, sentinel.location)
    pointers = Value(TileType("ptr<f16>", (8,)))
    mask = Value(TileType("i1", (8,)))
    value, token = build.load(pointers, mask, build.token())
    assert value.type == TileType("f16", (8,))
    assert str(token.type) == "token"
    load = block.instructions[-1]
    assert load.attributes == {"masked": True, "ordered": True}
    assert len(load.operands) == 4  # the padding's zeros are the third


def test_the_beginning_stays_in_front():
    block = Block()
    build = TileBuilder(block, sentinel.location)
    build.token()
    build.end_of_beginning()
    inner = Block()
    with build.at(inner):
        with build.at_beginning():
            build.view(Value(TileType("ptr<f32>")), (4,), (1,))
        build.iota(4)
    build.emit("return", ())
    assert made(block) == ["make_token", "make_tensor_view", "return"]
    assert made(inner) == ["iota"]


def test_what_may_be_assumed():
    build = TileBuilder(Block(), sentinel.location)
    value, pointer = Value(TileType("i64")), Value(TileType("ptr<f32>"))
    build.assume(value, multiple_of=8, most=100)
    build.assume(pointer, multiple_of=16)
    assert [dict(op.attributes) for op in build.block.instructions] == [
        {"bounded": (0, 100)}, {"div_by": 8}, {"div_by": 16},
    ]  # fmt: skip
