"""Listings of modules of upstream MLIR."""

from support.mlir import lowered, parse
from support.programs import saxpy
from tessera.core.tile.listings import listing_of_mlir

MODULE = """module {
  func.func @f(%a: f32) -> f32 {
    %b = arith.addf %a, %a : f32 loc("op3"("cell.py":2:5 to :9))
    %c = scf.execute_region -> f32 {
      scf.yield %b : f32 loc("op5"("cell.py":4:1 to :2))
    } loc("op4"("cell.py":3:5 to :9))
    return %c : f32 loc(fused["op6"("cell.py":5:1 to :2), "op7"("cell.py":6:1 to :3)])
  } loc("cell.py":1:1)
}"""


def test_upstream_modules_are_printed_as_mlir_does():
    listing = listing_of_mlir(parse(MODULE), "target", "to-cpu")
    assert (listing.level, listing.stage) == ("target", "to-cpu")
    assert "loc(" not in listing.text
    found = {line.text.strip(): (line.ops, [s.line for s in line.spans]) for line in listing.lines}
    assert found["%0 = arith.addf %arg0, %arg0 : f32"] == ((3,), [2])
    assert found["%1 = scf.execute_region -> f32 {"] == ((4,), [3])
    assert found["scf.yield %0 : f32"] == ((5,), [4])
    assert found["return %1 : f32"] == ((6, 7), [5, 6])
    assert found["func.func @f(%arg0: f32) -> f32 {"] == ((), [1])


def test_tile_ir_too():
    program = saxpy()
    lines = listing_of_mlir(lowered(program), "target", "").lines
    (read,) = [line for line in lines if '"tessera.read"(%arg0' in line.text]
    assert read.ops == (4,)
