from collections.abc import Iterator

import pytest

from support.mlir import defining_op
from tessera.core.mlir import ir
from tessera.core.tile.dialect import context
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width


class Counted(IndexBuilder):
    """A builder that knows the argument of its function, and counts the operations that it made."""

    def __init__(self, block: ir.Block, location: ir.Location) -> None:
        super().__init__(block, location)
        self.point = ir.InsertionPoint.at_block_begin(block)
        self.block, self.x = block, block.arguments[0]

    def count(self) -> int:
        return len(list(self.block.operations)) - 1


@pytest.fixture
def build() -> Iterator[Counted]:
    with context():
        module = ir.Module.parse("llvm.func @f(%x: i64) { llvm.return }")
        block = module.body.operations[0].regions[0].blocks[0]
        yield Counted(block, ir.Location.unknown())


def test_numbers_are_computed_at_once(build: Counted):
    assert build.add(2, 3) == 5
    assert build.mul(build.sub(9, 2), 3) == 21
    assert build.divide(17, 5) == 3
    assert build.remainder(17, 5) == 2
    assert build.xor(6, 3) == 5
    assert build.bits(13, 7) == 5
    assert build.minimum(3, 8) == 3
    assert build.maximum(3, 8) == 8
    assert build.count() == 0


def test_what_changes_nothing_is_left_out(build: Counted):
    x = build.x
    assert build.add(x, 0) == x
    assert build.add(0, x) == x
    assert build.mul(x, 1) == x
    assert build.mul(0, x) == 0
    assert build.divide(x, 1) == x
    assert build.remainder(x, 1) == 0
    assert build.count() == 0


def test_other_operations_reach_the_ir(build: Counted):
    value = build.add(build.mul(build.x, 4), 3)
    assert build.known(value) is None
    assert build.known(build.index(7)) == 7
    assert isinstance(value, ir.Value)
    assert str(value.type) == "i64"


@pytest.mark.parametrize(
    ("number", "quotient", "rest"), [(8, "arith.shrui", "arith.andi"), (12, "arith.divui", "arith.remui")]
)
def test_powers_of_two_divide_by_bits(build: Counted, number: int, quotient: str, rest: str):
    assert defining_op(build.divide(build.x, number)).name == quotient
    assert defining_op(build.remainder(build.x, number)).name == rest


def test_numbers_shift_and_mask_as_they_divide(build: Counted):
    shift, mask = (
        defining_op(number).operands[1] for number in (build.divide(build.x, 8), build.remainder(build.x, 8))
    )
    assert (build.known(shift), build.known(mask)) == (3, 7)


@pytest.mark.parametrize(("index", "operands"), [(5, 1), (-3, 1), (2**31, 2)])
def test_a_known_offset_is_a_part_of_the_address(build: Counted, index: int, operands: int):
    pointer = build.value("llvm.inttoptr", [build.x], "!llvm.ptr<3>")
    assert len(defining_op(build.offset(pointer, index, "i32")).operands) == operands
    assert len(defining_op(build.offset(pointer, build.x, "i32")).operands) == 2


@pytest.mark.parametrize(("element", "bits"), [("i1", 8), ("i8", 8), ("bf16", 16), ("f32", 32), ("i64", 64)])
def test_widths(element: str, bits: int):
    assert width(element) == bits


def test_conditions_are_joined_in_order(build: Counted):
    conditions = [build.compare("slt", build.x, bound) for bound in (1, 2, 3)]
    joined = build.both(*conditions)
    assert defining_op(joined).name == "arith.andi"
    assert defining_op(joined).operands[1] == conditions[2]
    assert list(defining_op(defining_op(joined).operands[0]).operands) == conditions[:2]
    assert build.both(conditions[0]) == conditions[0]
    assert build.all_of([]) is None
