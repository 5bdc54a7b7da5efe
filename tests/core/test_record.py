"""Records are values, and lose nothing as rows."""

import pytest

from tessera.core.base.source import Span
from tessera.core.record import OpRecord, ValueRecord, Verbatim, of_row

RECORD = OpRecord(
    "17.2", "scf.for", "4", 1, ("3:0", "4^0.1"),
    (ValueRecord("17.2:0", "tile<64x32xf16>", "acc"), ValueRecord("17.2:1", "i64")),
    ((ValueRecord("17.2^0.0", "i64", "k"),), (ValueRecord("17.2^1.0", "f32"), ValueRecord("17.2^1.1", "i1"))),
    {"axis": 1, "kind": "sum", "exact": True, "extents": (64, 32), "map": Verbatim("affine_map<(d0) -> (d0)>")},
    (Span("cell.py", 3, 5, 3, 9),), (17, 18), ("17",),
)  # fmt: skip


def test_nothing_is_lost_in_a_row():
    assert of_row(RECORD.row) == RECORD
    assert of_row(OpRecord("0", "func.return").row) == OpRecord("0", "func.return")


def test_rows_of_equal_records_are_equal():
    assert hash(RECORD.row) == hash(of_row(RECORD.row).row)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("f32", ()),
        ("tile<64x32xf16>", (64, 32)),
        ("tile<8xi1>", (8,)),
        ("array<nx64xf32>", ("n", 64)),
        ("array<?x?xf32>", ("?", "?")),
        ("shared<128x32xf16, xor>", (128, 32)),
        ("vector<16xf32>", (16,)),
        ("<4 x float>", (4,)),
        ("[8 x i32]", (8,)),
        ("!llvm.ptr<3>", ()),
        ("memref<?x64xf32, strided<[?, 1]>>", ("?", 64)),
    ],
)
def test_shapes(kind: str, shape: tuple[int | str, ...]):
    assert ValueRecord("1:0", kind).shape == shape
