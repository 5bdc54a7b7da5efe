"""Tile IR as people read it: names, slices, constants, and the link of each line to the source."""

from textwrap import dedent

from support.builder import FILE, Builder
from support.mlir import lowered, shown
from support.programs import countdown, group_sum, matmul, saxpy, softmax_rows, warp_reduce
from tessera.core.base.dtypes import boolean, f16, f32, i32, i64
from tessera.core.base.source import Span
from tessera.core.mlir import ir
from tessera.core.program.program import Block, Domain, Op, Value
from tessera.core.program.types import Scalar, Tile
from tessera.core.tile.records import listing_of_tile
from tessera.lowering.tile.expand_softmax import ExpandSoftmax
from tessera.lowering.tile.simplify import Simplify
from tessera.lowering.tile.to_tile import to_tile


def expect(text: str) -> str:
    return dedent(text).strip()


def test_saxpy():
    assert shown(saxpy()) == expect("""
        func @saxpy(%x: array<nxf32>, %y: mut array<nxf32>, %alpha: f32) {
          %i = tessera.id thread : i64
          %n = tessera.dim n : i64
          %0 = arith.cmpi slt %i, %n : i1
          scf.if %0 {
            %1 = tessera.read %x[%i] : f32
            %2 = arith.mulf %alpha, %1 : f32
            %3 = tessera.read %y[%i] : f32
            %4 = arith.addf %2, %3 : f32
            tessera.write %4, %y[%i]
          }
        }""")


def test_loops_carry_the_users_names():
    assert shown(matmul(), Simplify()) == expect("""
        func @matmul(%A: array<MxKxf32>, %B: array<KxNxf32>, %C: mut array<MxNxf32>) {
          %0 = arith.constant splat 0.000000e+00 : tile<64x64xf32>
          %M = tessera.dim M : i64
          scf.for %m = 0 to %M step 64 kind tile length M {
            %N = tessera.dim N : i64
            scf.for %n = 0 to %N step 64 kind tile length N {
              %K = tessera.dim K : i64
              %acc = scf.for %k = 0 to %K step 32 (%acc_1 = %0) {
                %a = tessera.load %A[%m:+64, %k:+32] : tile<64x32xf32>
                %b = tessera.load %B[%k:+32, %n:+64] : tile<32x64xf32>
                %acc_2 = tessera.dot %a, %b, %acc_1 : tile<64x64xf32>
                scf.yield %acc_2
              }
              tessera.store %acc, %C[%m:+64, %n:+64]
            }
          }
        }""")


def test_an_expanded_operation_keeps_its_name_and_identity():
    program = softmax_rows()
    module = lowered(program, ExpandSoftmax())
    lines = listing_of_tile(module, "tile-expand-softmax", program).lines
    softmax = next(n for n, op in enumerate(program.body.walk()) if op.opcode == "softmax")
    mine = [line.text.strip() for line in lines if softmax in line.ops and "store" not in line.text]
    assert mine[0].startswith("%0 = tessera.reduce max %block axis 1")
    assert mine[-1] == "%probs = arith.mulf %4, %9 : tile<8x256xf32>"


def test_shared_memory_and_barriers():
    text = shown(group_sum())
    assert "%smem = tessera.alloc : shared<128xf32>\n" in text
    assert "  tessera.barrier\n" in text
    assert "func @group_sum(%x: array<nxf32>, %out: mut array<grid_groupsxf32>) group [128] {" in text
    assert "%total = tessera.reduce sum" in text


def test_shuffles():
    assert "%0 = tessera.shuffle down %val, 16 width 32 : f32" in shown(warp_reduce())


def test_every_line_is_linked():
    program = saxpy()
    lines = listing_of_tile(to_tile(program), "to-tile", program).lines
    assert lines[0].spans == (program.span,)
    assert lines[5].text.strip() == "%1 = tessera.read %x[%i] : f32"
    assert lines[5].ops == (4,)
    assert lines[5].spans == (Span(FILE, 6, 5, 6, 20),)


def test_a_constant_is_linked_where_it_stands():
    b = Builder("constant")
    x = b.array("x", f32, "n", mutable=True)
    b.write(x, b.const(0.5, f32), b.const(3))
    program = b.program()
    lines = listing_of_tile(to_tile(program), "", program).lines
    assert [line.text for line in lines] == [
        "func @constant(%x: mut array<nxf32>) {",
        "  tessera.write 0.5, %x[3]",
        "}",
    ]
    assert lines[1].ops == (2, 0, 1)


def test_deterministic():
    for make in (saxpy, group_sum, matmul, countdown):
        assert shown(make()) == shown(make())


def test_slices_hints_and_proven_axes():
    b = Builder("slices")
    x = b.array("x", f16, "n", 64)
    out = b.array("out", boolean, 64, mutable=True)
    i = b.id("group", 1)
    row = b.op("load", (x, i, b.const(0)), Tile(f16, (64,)), "row", extents=(1, 64), dropped=(0,), cache="stream")
    b.store(out, b.compare("lt", row, row, name="less"), [b.const(0)], [64])
    module = to_tile(b.program())
    load = module.body.operations[0].regions[0].blocks[0].operations[2]
    load.attributes["in_bounds"] = ir.DenseBoolArrayAttr.get([False, True])
    assert listing_of_tile(module, "", b.program()).text == expect("""
        func @slices(%x: array<nx64xf16>, %out: mut array<64xi8>) {
          %group = tessera.id group axis 1 : i64
          %row = tessera.load %x[%group, 0:+64] cache stream in_bounds [1] : tile<64xf16>
          %less = arith.cmpf olt %row, %row : tile<64xi1>
          tessera.store %less, %out[0:+64]
        }""")


def test_other_forms():
    b = Builder("forms")
    a = b.array("a", f32, 4, 8)
    out = b.array("out", f32, 4, 4, mutable=True)
    shared = b.alloc(f32, 4, 8, swizzle="xor", name="buffer")
    zero = b.const(0)
    b.copy(shared, a, [zero, zero], [4, 8])
    b.op("group_sync", size=32)
    t = b.load(shared, [zero, zero], [4, 8], name="t")
    turned = b.transpose(t, 1, 0, name="turned")
    exact = b.op("dot", (t, turned), Tile(f32, (4, 4)), "d", exact=True)
    rounded = b.dot(t, turned, name="r", compute="tf32")
    b.store(out, rounded, [zero, zero], [4, 4])
    b.store(out, b.softmax(exact, 0, name="p"), [zero, zero], [4, 4])
    b.write(out, b.reduce(t, "max", name="top"), zero, zero)
    b.store(out, b.broadcast(b.reshape(b.cast(b.arange(zero, 4), f32), 1, 4), 4, 4), [zero, zero], [4, 4])
    text = shown(b.program())
    assert "%buffer = tessera.alloc : shared<4x8xf32, xor>" in text
    assert "tessera.copy %buffer, %a[0:+4, 0:+8]" in text
    assert "tessera.group_sync 32" in text
    assert "%turned = tessera.transpose %t {permutation = [1, 0]} : tile<8x4xf32>" in text
    assert "%d = tessera.dot %t, %turned exact : tile<4x4xf32>" in text
    assert "%r = tessera.dot %t, %turned tf32 : tile<4x4xf32>" in text
    assert "%p = tessera.softmax %d axis 0 : tile<4x4xf32>" in text
    assert "%top = tessera.reduce max %t : f32" in text
    assert "arith.sitofp %0 : tile<4xf32>" in text


def test_branches_with_results_and_while_loops():
    b = Builder("control")
    out = b.array("out", i64, "n", mutable=True)
    start = b.const(1, name="v")
    x = b.scalar("x", i32)
    condition = b.compare("lt", x, b.const(5, i32))
    span = b.span()
    chosen = Value(Scalar(i64), "chosen", span)
    branches = tuple(Block((), (Op("yield", (v,), span=span),)) for v in (start, b.dim("n")))
    b.blocks[0].append(Op("if", (condition,), (chosen,), {}, branches, span))
    before, after, left = (Value(Scalar(i64), "v", span) for _ in range(3))
    inside = Builder("inside")
    bound = inside.compare("lt", before, chosen)
    head = Block((before,), (*inside.blocks[0], Op("yield", (bound, before), span=span)))
    inside = Builder("inside")
    double = inside.value("add", after, after, name="v")
    body = Block((after,), (*inside.blocks[0], Op("yield", (double,), span=span)))
    b.blocks[0].append(Op("while", (start,), (left,), {}, (head, body), span))
    b.write(out, left, b.const(0))
    assert shown(b.program(domain=Domain("single"))) == expect("""
        func @control(%out: mut array<nxi64>, %x: i32) {
          %0 = arith.cmpi slt %x, 5 : i1
          %n = tessera.dim n : i64
          %chosen = scf.if %0 {
            scf.yield 1
          } else {
            scf.yield %n
          }
          %v = scf.while (%v_1 = 1) {
            %1 = arith.cmpi slt %v_1, %chosen : i1
            scf.condition %1, %v_1
          } do (%v_2) {
            %v_3 = arith.addi %v_2, %v_2 : i64
            scf.yield %v_3
          }
          tessera.write %v, %out[0]
        }""")
