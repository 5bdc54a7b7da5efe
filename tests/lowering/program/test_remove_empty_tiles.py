"""What has no elements is left out of a Program; a Program without such tiles stays what it is."""

from support.builder import Builder
from support.programs import matmul
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Program
from tessera.core.program.text import to_text
from tessera.core.program.types import Tile
from tessera.lowering.program.remove_empty_tiles import without_empty_tiles


def opcodes(program: Program) -> list[str]:
    return [op.opcode for op in program.body.walk()]


def test_a_program_with_elements_stays_the_same_object():
    program = matmul(64, 64, 32)
    assert without_empty_tiles(program) is program


def test_loads_operations_and_stores_of_nothing_go():
    b = Builder("k")
    x = b.array("x", f32, 0, 5, mutable=True)
    zero = b.const(0)
    tile = b.load(x, [zero, zero], [0, 5])
    b.store(x, b.value("add", tile, tile), [zero, zero], [0, 5])
    assert opcodes(without_empty_tiles(b.program())) == ["const"]


def test_a_sum_of_nothing_is_a_constant():
    b = Builder("k")
    x, y = b.array("x", f32, 0, 5), b.array("y", f32, 5, mutable=True)
    zero = b.const(0)
    b.store(y, b.reduce(b.load(x, [zero, zero], [0, 5]), "max", 0), [zero], [5])
    made = without_empty_tiles(b.program())
    assert opcodes(made) == ["const", "const", "full", "store"]
    assert "value=-inf" in to_text(made)


def test_a_product_over_nothing_is_what_it_starts_from():
    b = Builder("k")
    a, c = b.array("a", f32, 4, 0), b.array("c", f32, 4, 4, mutable=True)
    other = b.array("b", f32, 0, 4)
    zero = b.const(0)
    start = b.load(c, [zero, zero], [4, 4])
    factors = b.load(a, [zero, zero], [4, 0]), b.load(other, [zero, zero], [0, 4])
    b.store(c, b.dot(*factors, start), [zero, zero], [4, 4])
    made = without_empty_tiles(b.program())
    assert opcodes(made) == ["const", "load", "store"]
    (_, load, store) = made.body.ops
    assert store.operands[1] is load.result


def test_what_loops_hand_on_is_filtered():
    b = Builder("k")
    x = b.array("x", f32, 0)
    zero = b.const(0)
    tile, number = b.load(x, [zero], [0]), b.const(1.0, f32)
    with b.loop(zero, b.const(4), b.const(1), carried=(tile, number)) as loop:
        loop.yields = loop.carried
    made = without_empty_tiles(b.program())
    (loop,) = (op for op in made.body.walk() if op.opcode == "for")
    (block,) = loop.regions
    assert [len(values) for values in (loop.results, block.arguments, block.ops[-1].operands)] == [1, 2, 1]
    assert not any(isinstance(v.type, Tile) for v in (*loop.operands, *loop.results, *block.arguments))
