"""What operations are, and what they are called."""

import pytest

from tessera.core.record import OpRecord, ValueRecord, Verbatim
from tessera.viz.graph.flow import joins
from tessera.viz.graph.styles import data_slice, memory_operands, short_name, short_type, style_of


def op(identity: str, name: str, *operands: str, kind: str = "") -> OpRecord:
    return OpRecord(identity, name, operands=operands, results=(ValueRecord(f"{identity}:0", kind),) if kind else ())


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("tessera.load", "load"), ("llvm.load", "load"), ("tessera.masked_store", "store"), ("tessera.dot", "mma"),
        ("tessera.group_sync", "barrier"), ("nvvm.barrier0", "barrier"), ("tessera.alloc", "memory"),
        ("tessera.broadcast", "move"), ("arith.truncf", "move"), ("scf.yield", "control"), ("math.exp2", "compute"),
        ("arith.constant", "constant"), ("llvm.mlir.constant", "constant"), ("HGMMA.64x128x16.F32", "mma"),
        ("tessera.reduce", "compute"), ("arith.subf", "compute"),
    ],
)  # fmt: skip
def test_styles(name: str, style: str):
    assert style_of(op("1", name, kind="f32"), set()) == style


def test_integers_are_data_where_they_are_stored():
    records = [
        op("i", "tessera.id", kind="i64"), op("n", "arith.addi", "i:0", "i:0", kind="i64"),
        op("m", "arith.muli", "n:0", "n:0", kind="i64"), op("a", "tessera.read", "array", "m:0", kind="i32"),
        op("v", "arith.addi", "a:0", "a:0", kind="i32"), op("s", "tessera.write", "v:0", "array", "n:0"),
    ]  # fmt: skip
    data = data_slice(records, tuple(joins(records)))
    assert {record.id for record in records} & data == {"a", "v"}
    assert [style_of(record, data) for record in records] == ["index", "index", "index", "load", "compute", "store"]


def test_what_a_store_writes_to():
    assert memory_operands(op("1", "tessera.store", "array", "value", "i")) == ("array",)
    assert memory_operands(op("1", "tessera.write", "value", "array", "i")) == ("array",)


def test_names_and_types_in_few_words():
    constant = OpRecord("1", "arith.constant", attributes={"value": Verbatim("dense<1.5> : tensor<4xf32>")})
    assert short_name(constant) == "1.5"
    assert short_name(OpRecord("1", "tessera.dim", attributes={"symbol": "n"})) == "extent n"
    assert short_name(OpRecord("1", "tessera.reduce", attributes={"kind": "max"})) == "reduce max"
    assert short_name(OpRecord("1", "HGMMA.64x128x16.F32")) == "HGMMA"
    assert short_type("tile<128x64xbf16>") == "128×64 bf16"
    assert short_type("array<x.shape[0]x1024xf32>") == "x.shape[0]×1024 f32"
    assert short_type("shared<128xf32, xor>") == "128 f32 (xor)"
    assert short_type("i64") == "i64"
