"""tile-simplify: equal values become one, the notes on loops stay."""

from support import programs
from support.mlir import lowered, shown
from tessera.core.tile.location import identities
from tessera.lowering.base.ir_walk import operations
from tessera.lowering.tile.simplify import Simplify


def test_constants_become_one():
    before = len(operations(lowered(programs.matmul()), "arith.constant"))
    module = lowered(programs.matmul(), Simplify())
    constants = [str(op.attributes["value"]) for op in operations(module, "arith.constant")]
    assert sorted(constants) == ["0 : i64", "32 : i64", "64 : i64", "dense<0.000000e+00> : tensor<64x64xf32>"]
    assert len(constants) < before


def test_loops_keep_their_kind():
    assert shown(programs.matmul(), Simplify()).count("kind tile") == 2


def test_barriers_and_shared_memory_survive():
    text = shown(programs.group_sum(), Simplify())
    assert text.count("tessera.barrier") == 1
    assert text.index("%smem[%i]") < text.index("tessera.barrier") < text.index("tessera.load %smem")


def test_what_is_left_keeps_its_identity():
    module = lowered(programs.saxpy(), Simplify())
    writes = operations(module, "tessera.write")
    assert [identities(op.location) for op in writes] == [(8,)]


def test_a_counting_loop_folds():
    assert "math.absi" not in shown(programs.countdown(), Simplify())
