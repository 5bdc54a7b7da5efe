"""Indices as affine functions of a loop's index."""

import pytest

from support.mlir import function, parse
from tessera.lowering.tile.affine import Affine, affine
from tessera.lowering.tile.bounds import Knowledge
from tessera.lowering.tile.walk import body, kernel, operations

HEAD = """
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %four = arith.constant 4 : i64
  %hundred = arith.constant 100 : i64
  scf.for %t = %zero to %hundred step %four : i64 {
    scf.for %k = %zero to %four step %one : i64 {
"""
TAIL = """
      %shown = "tessera.shuffle"(%r, %r) {mode = "idx", width = 32 : i64} : (i64, i64) -> i64
    }
  }
  return"""


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("%r = arith.addi %t, %k : i64", Affine(1, 0, 3)),
        ("%r = arith.subi %t, %k : i64", Affine(1, -3, 0)),
        ("%m = arith.muli %t, %four : i64\n%r = arith.addi %m, %one : i64", Affine(4, 1, 1)),
        ("%r = arith.subi %hundred, %t : i64", Affine(-1, 100, 100)),
        ("%r = arith.muli %k, %k : i64", Affine(0, 0, 9)),
        ("%r = arith.muli %t, %k : i64", None),
        ("%r = arith.muli %four, %t : i64", None),
        ("%r = arith.addi %t, %x : i64", None),
        ("%r = arith.divsi %t, %four : i64", Affine(0, 0, 24)),
    ],
)
def test_affine(made, expected):
    module = parse(function(HEAD + made + TAIL, "%x: i64"))
    outer = operations(kernel(module), "scf.for")[0]
    (use,) = operations(module, "tessera.shuffle")
    assert affine(use.operands[0], body(outer).arguments[0], Knowledge()) == expected
