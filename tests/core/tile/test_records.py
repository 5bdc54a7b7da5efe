"""Tile IR as records: values, structure, attributes, and where each came from."""

import pytest

from support.mlir import parse
from support.programs import matmul, saxpy
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.record import OpRecord, ValueRecord, Verbatim
from tessera.core.tile.records import MUTABLE, attribute_data, records_of_tile, type_text
from tessera.lowering.tile.to_tile import to_tile


def records(program: Program) -> tuple[OpRecord, ...]:
    return records_of_tile(to_tile(program), program)


def test_an_operation_is_data():
    program = saxpy()
    found = records(program)
    function, index, extent, less, branch, read = found[:6]
    assert function.id == "@0"
    assert function.arguments[0][1] == ValueRecord("@0^0.1", "array<nxf32>", "y")
    assert function.attributes[MUTABLE] == (1,)
    assert function.attributes["sym_name"] == "saxpy"
    assert index.results == (ValueRecord("@1:0", "i64", "i"),)
    assert less.operands == ("@1:0", "@2:0")
    assert (extent.name, extent.attributes) == ("tessera.dim", {"symbol": "n"})
    assert (branch.name, branch.operands, branch.arguments) == ("scf.if", ("@3:0",), ((),))
    assert (read.name, read.parent, read.region, read.operands) == ("tessera.read", "@4", 0, ("@0^0.0", "@1:0"))
    assert read.numbers == (4,)
    assert read.spans == (program.body.ops[3].regions[0].ops[0].span,)


def test_loops_name_what_they_carry():
    loops = [record for record in records(matmul()) if record.name == "scf.for"]
    assert [[value.name for value in loop.arguments[0]] for loop in loops] == [["m"], ["n"], ["k", "acc"]]
    assert loops[2].results[0].name == "acc"
    assert loops[2].results[0].shape == (64, 64)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("5 : i64", 5),
        ("true", True),
        ("0.5 : f32", 0.5),
        ('"sum"', "sum"),
        ("array<i64: 8, 16>", (8, 16)),
        ("array<i1: true, false>", (True, False)),
        ("dense<1.0> : tensor<4xf32>", Verbatim("dense<1.000000e+00> : tensor<4xf32>")),
        ("{}", Verbatim("{}")),
        ("unit", Verbatim("unit")),
    ],
)
def test_attributes(text: str, data: object):
    found = attribute_data(ir.Attribute.parse(text))
    assert (found, type(found)) == (data, type(data))


def test_types():
    assert type_text(ir.Type.parse("tensor<4x8xf16>")) == "tile<4x8xf16>"
    assert type_text(ir.Type.parse("memref<?x4xf32>")) == "array<?x4xf32>"
    assert type_text(ir.Type.parse("memref<?x4xf32>"), ["n", "4"]) == "array<nx4xf32>"
    assert type_text(ir.Type.parse('memref<8xf32, "shared.xor">')) == "shared<8xf32, xor>"
    assert type_text(ir.Type.parse("i1")) == "i1"


def test_both_branches_are_regions_of_one_operation():
    module = parse("""module { func.func @f(%c: i1) -> i64 {
      %r = scf.if %c -> i64 { %a = arith.constant 1 : i64
        scf.yield %a : i64 } else { %b = arith.constant 2 : i64
        scf.yield %b : i64 }
      func.return %r : i64 } }""")
    found = records_of_tile(module, saxpy())
    assert [(one.name, one.parent, one.region) for one in found[1:6]] == [
        ("scf.if", "@0", 0),
        ("arith.constant", "@1", 0),
        ("scf.yield", "@1", 0),
        ("arith.constant", "@1", 1),
        ("scf.yield", "@1", 1),
    ]
