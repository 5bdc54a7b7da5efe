import pytest

from tessera.core.mlir import ir
from tessera.core.tile.dialect import context
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width


@pytest.fixture
def build():
    with context():
        module = ir.Module.parse("llvm.func @f(%x: i64) { llvm.return }")
        block = module.body.operations[0].regions[0].blocks[0]
        builder = IndexBuilder(block, ir.Location.unknown())
        builder.point = ir.InsertionPoint.at_block_begin(block)
        builder.x = block.arguments[0]
        builder.count = lambda: len(list(block.operations)) - 1
        yield builder


def test_numbers_are_computed_at_once(build):
    assert build.add(2, 3) == 5
    assert build.mul(build.sub(9, 2), 3) == 21
    assert build.divide(17, 5) == 3
    assert build.remainder(17, 5) == 2
    assert build.xor(6, 3) == 5
    assert build.bits(13, 7) == 5
    assert build.minimum(3, 8) == 3
    assert build.maximum(3, 8) == 8
    assert build.count() == 0


def test_what_changes_nothing_is_left_out(build):
    x = build.x
    assert build.add(x, 0) == x
    assert build.add(0, x) == x
    assert build.mul(x, 1) == x
    assert build.mul(0, x) == 0
    assert build.divide(x, 1) == x
    assert build.remainder(x, 1) == 0
    assert build.count() == 0


def test_other_operations_reach_the_ir(build):
    value = build.add(build.mul(build.x, 4), 3)
    assert build.known(value) is None
    assert build.known(build.index(7)) == 7
    assert str(value.type) == "i64"


@pytest.mark.parametrize(
    ("number", "quotient", "rest"), [(8, "arith.shrui", "arith.andi"), (12, "arith.divui", "arith.remui")]
)
def test_powers_of_two_divide_by_bits(build, number: int, quotient: str, rest: str):
    assert build.divide(build.x, number).owner.name == quotient
    assert build.remainder(build.x, number).owner.name == rest


def test_numbers_shift_and_mask_as_they_divide(build):
    shift, mask = build.divide(build.x, 8).owner.operands[1], build.remainder(build.x, 8).owner.operands[1]
    assert (build.known(shift), build.known(mask)) == (3, 7)


@pytest.mark.parametrize(("index", "operands"), [(5, 1), (-3, 1), (2**31, 2)])
def test_a_known_offset_is_a_part_of_the_address(build, index: int, operands: int):
    pointer = build.value("llvm.inttoptr", [build.x], "!llvm.ptr<3>")
    assert len(build.offset(pointer, index, "i32").owner.operands) == operands
    assert len(build.offset(pointer, build.x, "i32").owner.operands) == 2


@pytest.mark.parametrize(("element", "bits"), [("i1", 8), ("i8", 8), ("bf16", 16), ("f32", 32), ("i64", 64)])
def test_widths(element: str, bits: int):
    assert width(element) == bits
