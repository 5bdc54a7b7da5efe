import pytest

from support import programs
from support.builder import FILE, Builder
from support.simulate import compile_cuda
from tessera.core.base.dtypes import f32
from tessera.core.base.source import Span
from tessera.core.compilation import Compilation
from tessera.core.mlir import ir
from tessera.core.program.program import Domain
from tessera.core.tile.dialect import shared_context
from tessera.lowering.base.source_map import Places
from tessera.lowering.cuda.listings import ptx_for_assembler, ptx_listing, target_listing


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    return compile_cuda(programs.saxpy())


def listing(compilation: Compilation, level: str):
    return next(l for l in compilation.listings if l.level == level and not l.stage)


MULTIPLICATION, STORE = 5, 8  # the operations' numbers in saxpy


@pytest.mark.parametrize(
    ("level", "multiply", "store"),
    [
        ("target", "arith.mulf", "llvm.store"),
        ("llvm", "fmul float", "store float"),
        ("ptx", "mul.rn.f32", "st.global"),
        ("sass", "FMUL", "STG"),
    ],
)
def test_instructions_lead_back_to_operations(compilation: Compilation, level: str, multiply: str, store: str):
    lines = listing(compilation, level).lines
    for text, number in ((multiply, MULTIPLICATION), (store, STORE)):
        found = [l for l in lines if text in l.text]
        assert found
        for line in found:
            assert line.ops == (number,)
            assert [span.file for span in line.spans] == ["cell.py"]
            assert line.spans[0].line == number + 2  # every operation has a line of its own


@pytest.mark.parametrize("level", ["target", "llvm", "ptx", "sass"])
def test_every_operation_with_code_is_found_at_every_level(compilation: Compilation, level: str):
    found = {number for line in listing(compilation, level).lines for number in line.ops}
    assert {4, 5, 6, 7, 8} <= found


def test_debug_information_is_not_shown(compilation: Compilation):
    assert "!dbg" not in listing(compilation, "llvm").text
    assert ".loc" not in listing(compilation, "ptx").text
    assert "//## File" not in listing(compilation, "sass").text


SPAN = Span("cell.py", 3, 5, 3, 9)
PLACES = Places({("cell.py", 3): {5: (7,), 9: (8,)}}, {("cell.py", 3): {5: (SPAN,), 9: ()}})


def test_a_column_decides_where_it_is_known():
    assert PLACES.line("x", "cell.py", 3, 5).ops == (7,)
    assert PLACES.line("x", "cell.py", 3, 6).ops == (7, 8)
    assert PLACES.line("x", "/some/folder/cell.py", 3, 5).spans == (SPAN,)
    assert PLACES.line("x", "cell.py", 4).ops == ()


def test_ptx_lines_follow_their_directive():
    text = '\t.file 1 "cell.py"\n\tmov.u32 %r1, 1;\n\t.loc\t1 3 5\n\tadd.s32 %r1, %r1, 1;\n$L1:\n\t.loc 1 0 5\n\tret;'
    assert [(l.text.strip(), l.ops) for l in ptx_listing(text, PLACES).lines] == [
        ("mov.u32 %r1, 1;", ()), ("add.s32 %r1, %r1, 1;", (7,)), ("$L1:", ()), ("ret;", (7,)),
    ]  # fmt: skip


def test_every_line_of_assembly_written_by_hand_follows_the_directive_before_it():
    text = (
        '\t.file 1 "cell.py"\n\t.loc\t1 3 5\n\t// begin inline asm\n\twgmma.a;\nwgmma.b;\n.reg .pred p;\n\t// end inline asm\n'
        "other:\n"
    )
    assert [(l.text.strip(), l.ops) for l in ptx_listing(text, PLACES).lines] == [
        ("// begin inline asm", ()), ("wgmma.a;", (7,)), ("wgmma.b;", (7,)), (".reg .pred p;", ()),
        ("// end inline asm", ()), ("other:", ()),
    ]  # fmt: skip


def test_ptxas_counts_the_lines_of_the_listing():
    text = '\t.file 1 "cell.py"\n\tmov.u32 %r1, 1;\n\t.loc\t1 3 5\n\tadd.s32 %r1, 1;\n\t.loc 1 3 9\n$L1:\n\tret;\n'
    given = ptx_for_assembler(text)
    shown = [line.text for line in ptx_listing(text, PLACES).lines]
    assert [row.endswith(line) for row, line in zip(given.split("\n"), shown, strict=False)] == [True] * 4
    assert given.split() == text.split()


def test_a_directive_about_places_may_be_the_last():
    text = '\tret;\n}\n\t.file 1 "cell.py"\n'
    assert ptx_for_assembler(text) == '\tret;\n}\n\t.file 1 "cell.py"\n'


def test_named_types_are_written_out_once():
    with shared_context():
        kind = '!llvm.struct<"2xf32", (f32, f32)>'
        module = ir.Module.parse(f"llvm.func @f(%0: {kind}) -> {kind} {{ llvm.return %0 : {kind} }}")
        lines = [line.text for line in target_listing(module.operation).lines]
        assert lines[0] == f"!struct0 = {kind}"
        assert "(f32, f32)" not in "".join(lines[1:])
        assert str(ir.Module.parse("\n".join(lines))) == str(module)


class OneLine(Builder):
    """Every operation on line 3, each in a column of its own."""

    def span(self) -> Span:
        return Span(FILE, 3, self.line, 3, self.line + 1)


def test_operations_of_one_line_are_told_apart_in_sass():
    """`y[i] = alpha * x[i] + y[i]` on one line: the multiplication and the addition are different operations."""
    b = OneLine("one_line")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    product = b.value("mul", b.read(x, i), b.read(x, i))
    b.write(y, b.value("add", product, b.read(y, i)), i)
    program = b.program(domain=Domain("lanes", ("n",)))
    lines = listing(compile_cuda(program), "sass").lines
    opcodes = {number: op.opcode for number, op in enumerate(program.body.walk())}
    for text, opcode in (("FMUL", "mul"), ("FADD", "add"), ("STG", "write")):
        found = {opcodes[number] for line in lines if text in line.text for number in line.ops}
        assert found == {opcode}, text
